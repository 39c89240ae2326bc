# SPDX-License-Identifier: Apache-2.0
"""A data path as a list of steps, with registers behind those that are chosen."""

from amaranth import Const, Signal, Value
from amaranth.lib.wiring import In

__all__ = ["inputs", "run"]


def inputs(component):
    """{name: signal} of all that goes into a component."""
    return {name: getattr(component, name) for name, member in component.signature.members.items()
            if member.flow is In}


def run(m, steps, registers, **values):
    """The named values that the last step returns.

    Parameters
    ----------
    m : Module
    steps : sequence of callables
        Each takes named values and returns those that the next one takes: all that is needed from
        there on. Its name is that of the function.
    registers : collection of str
        Steps that a register stands behind, of everything that they return but constants. None of
        them is reset.
    values
        What the first step takes.
    """
    names = [step.__name__ for step in steps]
    assert set(registers) <= set(names), f"registers behind {registers}, steps are {names}"
    for name, step in zip(names, steps, strict=True):
        domain = "sync" if name in registers else "comb"
        values = {key: Value.cast(value) for key, value in step(**values).items()}
        for key, value in values.items():
            if len(value) and not isinstance(value, Const):
                values[key] = Signal(len(value), name=f"{name}_{key}", reset_less=True)
                m.d[domain] += values[key].eq(value)
    return values
