# SPDX-License-Identifier: Apache-2.0
"""Aligner: payloads as they stand in memory."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..packet import Packet, thermometer
from .bursts import page_bytes
from .records import LENGTH_BITS

__all__ = ["Aligner", "Word"]


class Word(data.StructLayout):
    """A beat towards memory; ``strobes`` tells its bytes, ``last`` that it ends a burst."""

    def __init__(self, width):
        super().__init__({"data": width, "strobes": width // 8, "last": 1})


class Aligner(wiring.Component):
    """Turns each payload to where its address stands in a beat, and cuts it at ends of pages.

    A payload that is not written is taken and let go at a beat a cycle. One that is takes a cycle
    for each beat of memory that it touches, one behind the other. ``o`` comes from registers, one
    cycle behind ``beats``.

    Parameters
    ----------
    width : int
        Bits a beat.

    Members
    -------
    i : stream of what becomes of each payload; ``length`` is that of its beats, and not 0
    beats : stream of the payloads
    o : stream of :class:`Word`
    """

    def __init__(self, width):
        self._width = width
        self._page = page_bytes(width // 8)
        super().__init__({
            "i": In(stream.Signature(data.StructLayout(
                {"write": 1, "offset": ceil_log2(self._page), "length": LENGTH_BITS}))),
            "beats": In(stream.Signature(Packet(width))),
            "o": Out(stream.Signature(Word(width))),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._width // 8
        low, page_bits = ceil_log2(lanes), ceil_log2(self._page)
        span, beat, word = self.i.payload, self.beats.payload, self.o.payload

        # The current payload: beats of it and of memory behind this one, the word's place in its
        # page, where it ends in the last one.
        active, write, head = Signal(), Signal(), Signal()
        shift, end = Signal(low), Signal(low)
        beats_left, words_left = (Signal(LENGTH_BITS - low + 1, name=name)
                                  for name in ("beats_left", "words_left"))
        place = Signal(page_bits - low)

        takes, step, over = Signal(), Signal(), Signal()
        free = ~self.o.valid | self.o.ready
        # The last word may need no beat: what is left of the one before.
        m.d.comb += [
            takes.eq(beats_left.any()),
            step.eq(active & (self.beats.valid | ~takes) & (free | ~write)),
            over.eq(step & (words_left == 0)),
            self.beats.ready.eq(active & takes & (free | ~write)),
            self.i.ready.eq(~active | over),
        ]
        touched = span.length - 1
        with m.If(self.i.ready):
            m.d.sync += [
                active.eq(self.i.valid),
                write.eq(span.write),
                head.eq(1),
                shift.eq(span.offset[:low]),
                end.eq(span.offset[:low] + span.length),
                place.eq(span.offset[low:]),
                beats_left.eq((touched >> low) + 1),
                words_left.eq(Mux(span.write, span.offset[:low] + touched, touched) >> low),
            ]
        with m.Elif(step):
            m.d.sync += [head.eq(0), place.eq(place + 1), beats_left.eq(beats_left - takes),
                         words_left.eq(words_left - 1)]

        turned, kept = Signal(self._width), Signal(self._width, reset_less=True)
        m.d.comb += turned.eq(Array(beat.data.rotate_left(8 * n) for n in range(lanes))[shift])
        new = ~thermometer(shift, lanes)
        until = thermometer(end, lanes) | (end == 0).replicate(lanes)
        ends = words_left == 0
        with m.If(free):
            m.d.sync += self.o.valid.eq(step & write)
        with m.If(step):
            m.d.sync += kept.eq(turned)
            with m.If(write):
                m.d.sync += [
                    word.data.eq(Cat(
                        Mux(new[n], turned.word_select(n, 8), kept.word_select(n, 8))
                        for n in range(lanes))),
                    word.strobes.eq((new | ~head.replicate(lanes))
                                    & (until | ~ends.replicate(lanes))),
                    word.last.eq(ends | place.all()),
                ]
        return m
