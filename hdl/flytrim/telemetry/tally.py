# SPDX-License-Identifier: Apache-2.0
"""Tally: a few rows of counters that are cleared all at once."""

from amaranth import Module, ResetSignal, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .counters import Counters

__all__ = ["Tally"]


class Tally(wiring.Component):
    """Rows of counters, all zero after reset and after ``clear``. An event a cycle.

    What an event adds can be read 7 cycles later.

    Parameters
    ----------
    rows : int
        A power of two.
    amounts : dict
        Bits that an event adds, by counter.
    width : int
        Bits of a counter, an even number.

    Members
    -------
    i : lane of row and amounts
    clear : strobe: the counters begin at zero; on which side of it an event of the cycles before
        it falls that cannot be read yet is not told
    index : row to read
    o : its counters, two cycles later
    """

    def __init__(self, rows, amounts, *, width=64):
        self._rows, self._amounts, self._width = rows, amounts, width
        event = data.StructLayout({"row": range(rows), "amounts": data.StructLayout(amounts)})
        super().__init__({
            "i": In(stream.Signature(event, always_ready=True)),
            "clear": In(1),
            "index": In(range(rows)),
            "o": Out(data.StructLayout({name: width for name in amounts})),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.counters = counters = Counters(self._rows, self._amounts, width=self._width)
        # Of each row the epoch that counts, and the one the memory has. Neither begins anew with
        # reset, as the memory does not: reset is a clear.
        epochs = Signal(self._rows, reset_less=True, init=-1)
        marks, next_marks = Signal(self._rows, reset_less=True), Signal(self._rows)
        m.d.comb += next_marks.eq(marks)
        written = counters.written
        with m.If(written.valid):
            m.d.comb += next_marks.bit_select(written.payload.row, 1).eq(written.payload.epoch)
        m.d.sync += marks.eq(next_marks)
        with m.If(self.clear | ResetSignal()):
            m.d.sync += epochs.eq(~next_marks)

        event, asked = counters.i.payload, Signal.like(self.index)
        m.d.sync += [
            counters.i.valid.eq(self.i.valid),
            event.row.eq(self.i.payload.row),
            event.amounts.eq(self.i.payload.amounts),
            event.epoch.eq(epochs.bit_select(self.i.payload.row, 1)),
            asked.eq(self.index),
        ]
        m.d.comb += [
            counters.index.eq(self.index),
            counters.epoch.eq(epochs.bit_select(asked, 1)),
            self.o.eq(counters.o),
        ]
        return m
