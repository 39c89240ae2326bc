# SPDX-License-Identifier: Apache-2.0
"""The adder for those who want only that."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..logic import delayed
from .adder import Adder
from .number import FP32

__all__ = ["ValidAdder"]


class ValidAdder(wiring.Component):
    """An :class:`Adder` of binary32 that tells which cycles hold a sum.

    One sum a cycle, no stall. ``valid_o`` is ``valid_i``, ``latency`` cycles later; it is low after
    a reset until a sum comes whose operands were taken since. What is summed needs no reset.

    Parameters
    ----------
    latency : int
        Cycles, 3 to 11.
    """

    def __init__(self, latency=8):
        self._adder = Adder(FP32, latency)
        self.latency = latency
        super().__init__({"valid_i": In(1), "a": In(32), "b": In(32),
                          "valid_o": Out(1), "z": Out(32), "flags": Out(5)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.adder = adder = self._adder
        m.d.comb += [adder.a.eq(self.a), adder.b.eq(self.b),
                     self.z.eq(adder.z), self.flags.eq(adder.flags),
                     self.valid_o.eq(delayed(m, self.valid_i, self.latency, name="valid",
                                             reset=True))]
        return m
