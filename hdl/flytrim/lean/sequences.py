# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers: the next one of each flow."""

from amaranth import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Sequences"]


class Sequences(wiring.Component):
    """Holds a number for each flow, 0 after reset and where it begins anew.

    Combinational from ``flow`` to ``number``; what is written counts from the next cycle on.

    Parameters
    ----------
    flows : int

    Members
    -------
    restart, restart_flow : this flow's number becomes 0
    flow : whose number is shown, and written
    number : its number
    write, following : it becomes this
    """

    def __init__(self, flows):
        self._flows = flows
        super().__init__({"restart": In(1), "restart_flow": In(6), "flow": In(6),
                          "number": Out(16), "write": In(1), "following": In(16)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.numbers = numbers = memory.Memory(shape=16, depth=self._flows, init=[])
        write, read = numbers.write_port(), numbers.read_port(domain="comb")
        # What the memory holds counts only where something was written.
        written = Signal(self._flows)
        m.d.comb += [
            read.addr.eq(self.flow),
            self.number.eq(Mux(written.bit_select(self.flow, 1), read.data, 0)),
            write.addr.eq(self.flow),
            write.data.eq(self.following),
            write.en.eq(self.write),
        ]
        with m.If(self.write):
            m.d.sync += written.bit_select(self.flow, 1).eq(1)
        with m.If(self.restart):
            m.d.sync += written.bit_select(self.restart_flow, 1).eq(0)
        return m
