# SPDX-License-Identifier: Apache-2.0
"""Total: one counter, in registers."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..logic import KEEP, Copies

__all__ = ["Total"]


class Total(wiring.Component):
    """Adds up, an amount a cycle, and stops at its largest value. Latency 2 cycles.

    Parameters
    ----------
    bits : int
        Of an amount.
    width : int
        Of the total.

    Members
    -------
    i : lane of amounts
    clear : strobe: begins at zero; an amount of the cycle before is lost, later ones count
    o : the total
    """

    def __init__(self, bits, *, width=64):
        self._bits, self._width = bits, width
        super().__init__({
            "i": In(stream.Signature(bits, always_ready=True)),
            "clear": In(1),
            "o": Out(width),
        })

    def elaborate(self, platform):
        m = Module()
        amount, total = Signal(self._bits), Signal(self._width)
        # Beyond its end for good: what the sum is then counts no more. Two, to spare loads.
        full = Signal(2, attrs=KEEP)
        m.d.sync += amount.eq(self.i.payload & self.i.valid.replicate(self._bits))
        added = total + amount
        cleared = Copies(m, self.clear, self._width, name="cleared", reset=0)
        for clear, part in cleared.parts():
            m.d.sync += total[part].eq(Mux(clear, 0, added[part]))
        m.d.sync += full.eq(Mux(cleared[0], 0, full | added[self._width].replicate(2)))
        half = self._width // 2
        m.d.comb += self.o.eq(total | Cat(full[0].replicate(half),
                                          full[1].replicate(self._width - half)))
        return m
