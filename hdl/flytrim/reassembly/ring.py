# SPDX-License-Identifier: Apache-2.0
"""Completion ring: completions in memory, for a host that reads them there."""

from amaranth import Cat, Module, Signal
from amaranth.hdl import Shape
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .aligner import Word
from .bursts import Burst
from .records import Completion

__all__ = ["ENTRY_BYTES", "INDEX_BITS", "CompletionRing"]

#: Bytes of an entry.
ENTRY_BYTES = Shape.cast(Completion).width // 8
#: Bits of the indices, which count entries without end.
INDEX_BITS = 32


class CompletionRing(wiring.Component):
    """Writes each completion into the next entry, as soon as the host has let that go.

    The entries are those of ``base`` and as many behind it as ``last`` says, a power of two less 1.
    ``producer`` counts entries that memory has confirmed, ``consumer`` those that the host has
    read; while they differ, ``irq`` is high. Where the ring is full, completions wait, and all that
    is behind them. While it is not enabled, the indices are 0, and no completion is taken.

    Parameters
    ----------
    width : int
        Bits a beat of memory.

    Members
    -------
    i : stream of :class:`Completion`
    enable : the ring is in use
    base : its address, a multiple of 32
    last, consumer, producer, irq : see above
    refused : strobe: memory refused an entry, which counts nevertheless
    bursts, words, answers : to the memory port
    """

    def __init__(self, width):
        self._width = width
        super().__init__({
            "i": In(stream.Signature(Completion)),
            "enable": In(1),
            "base": In(64),
            "last": In(INDEX_BITS),
            "consumer": In(INDEX_BITS),
            "producer": Out(INDEX_BITS),
            "irq": Out(1),
            "refused": Out(1),
            "bursts": Out(stream.Signature(Burst)),
            "words": Out(stream.Signature(Word(width))),
            "answers": In(stream.Signature(1)),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._width // 8
        beats = max(1, ENTRY_BYTES // lanes)
        index, live, burst = Signal(INDEX_BITS), Signal(), self.bursts.payload
        entry = Signal(Completion)
        address = Signal(64)
        m.d.comb += [
            entry.eq(self.i.payload),
            entry.phase.eq(~(index & (self.last + 1)).any()),
            address.eq(self.base + ((index & self.last) << ceil_log2(ENTRY_BYTES))),
            burst.writes.eq(1),
            burst.last.eq(1),
            burst.address.eq(address & ~(lanes - 1)),
            burst.beats.eq(beats - 1),
        ]

        # One entry at a time: its burst, its beats, memory's answer.
        at = Signal(range(max(2, beats)))
        word = self.words.payload
        m.d.comb += word.last.eq(at == beats - 1)
        if lanes <= ENTRY_BYTES:
            m.d.comb += [word.data.eq(entry.as_value().word_select(at, self._width)),
                         word.strobes.eq(-1)]
        else:
            place = address[ceil_log2(ENTRY_BYTES):ceil_log2(lanes)]
            m.d.comb += [
                word.data.eq(entry.as_value().replicate(lanes // ENTRY_BYTES)),
                word.strobes.eq(Cat((place == n).replicate(ENTRY_BYTES)
                                    for n in range(lanes // ENTRY_BYTES))),
            ]
        m.d.comb += self.irq.eq(self.producer != self.consumer)
        with m.FSM():
            with m.State("Idle"):
                m.d.sync += live.eq(self.enable)
                with m.If(~self.enable):
                    m.d.sync += [index.eq(0), self.producer.eq(0)]
                with m.Elif(live & self.i.valid & ((index - self.consumer)[:INDEX_BITS]
                                                   <= self.last)):
                    m.next = "Address"
            with m.State("Address"):
                m.d.comb += self.bursts.valid.eq(1)
                with m.If(self.bursts.ready):
                    m.next = "Data"
            with m.State("Data"):
                m.d.comb += self.words.valid.eq(1)
                with m.If(self.words.ready):
                    m.d.sync += at.eq(at + 1)
                    with m.If(word.last):
                        m.d.sync += at.eq(0)
                        m.next = "Answer"
            with m.State("Answer"):
                m.d.comb += [self.answers.ready.eq(1), self.i.ready.eq(self.answers.valid)]
                with m.If(self.answers.valid):
                    m.d.comb += self.refused.eq(self.answers.payload)
                    m.d.sync += [index.eq(index + 1), self.producer.eq(index + 1)]
                    m.next = "Idle"
        return m
