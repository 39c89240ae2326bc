# SPDX-License-Identifier: Apache-2.0
"""CRC of packets whose end shows only when it is there, at one beat a cycle."""

from amaranth import Array, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .crc import ONE
from .crc_generator import multiplied
from .logic import delayed, linear

__all__ = ["CrcRun"]


class CrcRun(wiring.Component):
    """Runs the CRC over a packet's beats; tells the register, and the CRC that belongs behind.

    One beat a cycle, gaps where there are some, never stalls. What stands before the bytes that
    count and behind them must be zero, and the ones that the register begins with added to the
    first four of them. The register is that behind the whole beat; for the CRC the zeros behind
    the bytes are taken out of it again, by a multiplication with a power of x.

    Parameters
    ----------
    width : int
        Bits a beat.
    crc : Crc

    Members
    -------
    data : a beat
    first : it is the packet's first
    hold : it is no beat, or stands behind that in which the bytes end: the register stays
    end : in the beat in which the bytes end: of how many words they fill it; may differ else
    state : 2 cycles later, combinational: the register behind the beat
    crc : 3 cycles later: the CRC as a number, its lowest byte to be sent first
    """

    latency = 3

    def __init__(self, width, crc):
        self._lanes, self._crc = width // 8, crc
        super().__init__({
            "data": In(width),
            "first": In(1),
            "hold": In(1),
            "end": In(range(self._lanes // 4 + 1)),
            "state": Out(32),
            "crc": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, crc = self._lanes, self._crc

        # First cycle: what the beat adds to a register of zero, in halves, as the sum is deep.
        columns = crc.columns(lanes)
        half = len(columns) // 2
        added = [Signal(32, name=f"added_{n}", reset_less=True) for n in range(2)]
        m.d.sync += [added[0].eq(linear(columns[:half], self.data[:half])),
                     added[1].eq(linear(columns[half:], self.data[half:]))]
        first, hold, end = (delayed(m, getattr(self, name), 2, name=name)
                            for name in ("first", "hold", "end"))

        # Second cycle: their sum. Third cycle: the register moves on.
        share = Signal(32, reset_less=True)
        m.d.sync += share.eq(added[0] ^ added[1])
        kept = Signal(32, reset_less=True)
        m.d.comb += self.state.eq(Mux(
            hold, kept, Mux(first, 0, linear(crc.steps(lanes), kept)) ^ share))
        m.d.sync += kept.eq(self.state)

        # Fourth cycle: the product.
        power = Signal(32, reset_less=True)
        table = Array(Const(crc.retreat(ONE, lanes - 4 * n), 32) for n in range(lanes // 4 + 1))
        with m.If(~hold):
            m.d.sync += power.eq(table[end])
        m.d.comb += self.crc.eq(~multiplied(m, crc, kept, power))
        return m
