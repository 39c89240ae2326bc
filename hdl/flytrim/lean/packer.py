# SPDX-License-Identifier: Apache-2.0
"""Packer: records back to back, from word to word."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..packet import thermometer
from . import container as c
from .context import Beat, Item

__all__ = ["Packer"]


class Packer(wiring.Component):
    """Packs items into full beats, at an item a cycle, and never stalls.

    A beat is held until a further word comes or the container is closed, so that it can be told to
    be the last: each cycle has at most one that leaves. Latency 2 cycles from what makes it leave.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    i : lane of :class:`Item`
    close : the container that is open is closed; not with an item
    o : lane of :class:`Beat`
    """

    latency = 2

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Item(config), always_ready=True)),
            "close": In(1),
            "o": Out(stream.Signature(Beat(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        words, width = self._config.words, self._config.width

        # First cycle: where the item goes behind what is held, and its words turned to there.
        new = self.i.payload
        filled, before = Signal(range(words + 1)), Signal(range(words + 1))
        total = Signal(range(2 * words + 1))
        valid, closes = Signal(), Signal()
        item = Signal(Item(self._config), reset_less=True)
        place = Signal.like(before)
        m.d.comb += [before.eq(Mux(new.opens, 0, filled)), total.eq(before + new.count)]
        m.d.sync += [valid.eq(self.i.valid), closes.eq(self.close), item.eq(new), place.eq(before)]
        with m.If(self.close):
            m.d.sync += filled.eq(0)
        with m.If(self.i.valid):
            m.d.sync += filled.eq(Mux(total > words, total - words, total))
        spills = Signal()
        m.d.sync += spills.eq(total > words)
        # A place of a whole beat turns nothing.
        turn = before[:(words - 1).bit_length()]
        m.d.sync += item.data.eq(Array(
            new.data.rotate_left(8 * c.WORD * n) for n in range(words))[turn])

        # Second cycle: what is held leaves, with the words that fill it up, or grows.
        held = Signal(width, reset_less=True)
        count, first, head = Signal(range(words + 1)), Signal(), Signal.like(item.head)
        records, size = Signal(16), Signal.like(self.o.payload.size)
        out = Signal.like(self.o.payload, reset_less=True)
        occupied, leaves = Signal(words), Signal()
        m.d.comb += occupied.eq(thermometer(place, words))
        ahead = Cat(bit.replicate(8 * c.WORD) for bit in occupied)
        ends_container = closes | item.opens
        m.d.comb += leaves.eq(Mux(ends_container, (closes | valid) & count.any(), valid & spills))
        m.d.sync += [
            self.o.valid.eq(leaves),
            out.data.eq(held | Mux(ends_container, 0, item.data & ~ahead)),
            out.count.eq(Mux(ends_container, count, words)),
            out.first.eq(first),
            out.last.eq(ends_container),
            out.head.eq(head),
            out.records.eq(records),
            out.size.eq(size),
        ]
        m.d.comb += self.o.payload.eq(out)
        with m.If(leaves):
            m.d.sync += first.eq(0)
        with m.If(closes):
            m.d.sync += count.eq(0)
        with m.Elif(valid):
            m.d.sync += [
                held.eq(Mux(item.opens, item.data, Mux(spills, item.data & ahead,
                                                       held | item.data))),
                count.eq(Mux(item.opens, item.count, Mux(
                    spills, count + item.count - words, count + item.count))),
                records.eq(Mux(item.opens, 0, records) + item.ends),
                size.eq(Mux(item.opens, 0, size) + item.count),
            ]
            with m.If(item.opens):
                m.d.sync += [first.eq(1), head.eq(item.head)]
        return m
