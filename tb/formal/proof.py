# SPDX-License-Identifier: Apache-2.0
"""What a specification is made of.

A specification is an ``Elaboratable`` that instantiates a block, drives its inputs with anything
its contract allows, and states what its outputs must be. The block knows nothing of it.
"""

import sys
from dataclasses import dataclass

from amaranth import Elaboratable, Module, ResetSignal, Signal, Value, ValueCastable
from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover

from flytrim.config import NicConfig

__all__ = ["Fault", "Opened", "Proof", "Spec", "small_config"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A mistake planted into a copy of the package, which the proof must notice.

    ``old`` stands exactly once in ``file`` and is replaced by ``new``; then one of the assertions
    ``caught``, names in which * stands for anything, must fail.
    """

    name: str
    file: str
    old: str
    new: str
    caught: tuple


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A specification and how it is checked.

    ``mode`` is ``prove`` (k-induction with k = ``depth``: true for ever) or ``bmc`` (true for the
    first ``depth`` cycles). Covers and faults are searched within ``reach`` cycles.
    """

    name: str
    says: str
    spec: object
    mode: str = "prove"
    depth: int
    reach: int
    faults: tuple
    solver: str = "z3"


class Opened(Elaboratable):
    """A component whose inner signals an induction invariant may name.

    They are the local variables of the functions in the component's file, asked for by name, or as
    ``function.variable``, or by the name of the signal itself.

    Invariants tell the solver which states cannot be reached. They are asserted as everything else
    is, so a wrong one fails and never hides a fault.
    """

    def __init__(self, component):
        self._found = {}
        code = type(component).elaborate.__code__

        def collect(frame, event, argument):
            if event == "return" and frame.f_code.co_filename == code.co_filename:
                for name, value in frame.f_locals.items():
                    if isinstance(value, Value | ValueCastable):
                        names = {name, f"{frame.f_code.co_name}.{name}",
                                 getattr(Value.cast(value), "name", name)}
                        for known_as in names:
                            self._found.setdefault(known_as, {})[id(value)] = value
                    else:
                        self._found.setdefault(name, {})[id(value)] = value

        sys.setprofile(collect)
        try:
            self._module = component.elaborate("formal")
        finally:
            sys.setprofile(None)

    def __getitem__(self, name):
        found = list(self._found.get(name, {}).values())
        if len(found) != 1:
            raise KeyError(f"{len(found)} variables named {name}")
        return found[0]

    def state(self, name):
        """Whether the component's state machine is in the state of that name."""
        machine = self._module._generated["fsm"]
        return machine._data["signal"] == machine.encoding[name]

    def elaborate(self, platform):
        return self._module


class Spec(Elaboratable):
    """Base of the specifications: elaborates :meth:`specify` with reset inactive."""

    #: Whether the invariants are asserted too.
    inductive = True

    def elaborate(self, platform):
        self.m = Module()
        self.m.d.comb += Assume(~ResetSignal())
        self.specify(self.m)
        return self.m

    def check(self, name, condition):
        """``condition`` holds in every cycle; failures are reported by ``name``."""
        self.m.d.comb += Assert(condition, name)

    def invariant(self, name, condition):
        """As :meth:`check`, of the inside of the block: a step of the proof, no part of the claim.

        Planted faults have to be noticed without these, by what shows outside.
        """
        if self.inductive:
            self.check(name, condition)

    def assume(self, condition):
        self.m.d.comb += Assume(condition)

    def cover(self, name, condition):
        """``condition`` can come true, so that what is proved is not proved of nothing."""
        self.m.d.comb += Cover(condition, name)

    def free(self, *signals):
        """Drive signals with anything, in every cycle anew."""
        for signal in map(Value.cast, signals):
            self.m.d.comb += signal.eq(AnySeq(len(signal)))

    def anything(self, shape, name):
        signal = Signal(shape, name=name)
        self.free(signal)
        return signal

    def constant(self, shape, name):
        """One arbitrary value for all time."""
        signal = Signal(shape, name=name)
        value = Value.cast(signal)
        self.m.d.comb += value.eq(AnyConst(len(value)))
        return signal

    def past(self, value, cycles=1):
        """The value of so many cycles ago; zero before."""
        for _ in range(cycles):
            shape = value.shape()
            later = Signal(shape, name="past")
            self.m.d.sync += later.eq(value)
            value = later
        return value


def small_config(**values):
    """A configuration with values that its checks refuse because no one would build them."""
    config = NicConfig(width=values.pop("width", 64), side_width=values.pop("side_width", 0))
    for name, value in values.items():
        object.__setattr__(config, name, value)
    return config
