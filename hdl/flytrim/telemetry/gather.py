# SPDX-License-Identifier: Apache-2.0
"""Gather: what many sources tell at the same time, counted in one memory."""

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..logic import select
from .tally import Tally

__all__ = ["Gather"]


class Gather(wiring.Component):
    """A row of counters a source, 64 bits, each of which may count up in every cycle.

    A source counts into a few bits of its own, which go into the row one source after the other.
    So a strobe can be read ``rows`` + 9 cycles later.

    Parameters
    ----------
    rows : int
        Sources, a power of two.
    names : tuple of str
        Of the counters.

    Members
    -------
    strobes : of each source, a strobe for each counter
    clear : strobe: the counters begin at zero; what is on its way to them counts on either side
    index : row to read
    o : its counters, two cycles later
    """

    def __init__(self, rows, names):
        self._rows = rows
        #: What a source can count until its turn comes again.
        self._bits = rows.bit_length()
        self._names = tuple(names)
        super().__init__({
            "strobes": In(data.ArrayLayout(
                data.StructLayout(dict.fromkeys(self._names, 1)), rows)),
            "clear": In(1),
            "index": In(range(rows)),
            "o": Out(data.StructLayout(dict.fromkeys(self._names, 64))),
        })

    def elaborate(self, platform):
        m = Module()
        amounts = dict.fromkeys(self._names, self._bits)
        m.submodules.tally = tally = Tally(self._rows, amounts)
        few = data.StructLayout(amounts)
        counts = [Signal(few, name=f"counts_{n}") for n in range(self._rows)]
        # Whose turn it is, one-hot, and as the number of a row.
        turn, number = Signal(self._rows, init=1), Signal(range(self._rows))
        taken, row = Signal(few), Signal.like(number)
        m.d.sync += [
            turn.eq(turn.rotate_left(1)),
            number.eq(number + 1),
            row.eq(number),
            Value.cast(taken).eq(select(
                (turn[n], Value.cast(count)) for n, count in enumerate(counts))),
        ]
        for n, count in enumerate(counts):
            for name in self._names:
                m.d.sync += count[name].eq(Mux(turn[n], 0, count[name]) + self.strobes[n][name])
        m.d.comb += [
            tally.i.valid.eq(Value.cast(taken).any()),
            tally.i.payload.row.eq(row),
            tally.i.payload.amounts.eq(taken),
            tally.clear.eq(self.clear),
            tally.index.eq(self.index),
            self.o.eq(tally.o),
        ]
        return m
