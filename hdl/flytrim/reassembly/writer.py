# SPDX-License-Identifier: Apache-2.0
"""Writer: jobs and payloads to memory, and what each has to tell once it is there."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from ..packet import Packet
from ..stream import Fifo
from .aligner import Aligner, Word
from .bursts import Burst, Bursts, page_bytes
from .records import Job, News, Retired

__all__ = ["MOST_OUTSTANDING", "Writer"]

#: Bursts on their way at most.
MOST_OUTSTANDING = 16
#: Jobs whose addresses are known and whose payloads are not yet written.
AHEAD = 4


class Writer(wiring.Component):
    """Writes the payloads of good packets, discards the others, and tells of each in order.

    A burst a cycle, and a beat a cycle. Data never comes before its address. A job has been done
    when memory has answered all its bursts; one that memory answers with an error is ``failed``.

    Parameters
    ----------
    width : int
        Bits a beat.

    Members
    -------
    i : stream of :class:`Job`, one a payload, or with a ``length`` of 0
    beats : stream of the payloads
    outstanding : bursts less one that may be on their way, or answered and not yet told
    bursts : stream of :class:`Burst`, all of which write
    words : stream of :class:`Word`
    answers : stream of bits: memory's answers to the bursts in order, set for an error; always
        taken at once
    o : stream of :class:`Retired`
    """

    def __init__(self, width):
        self._width = width
        super().__init__({
            "i": In(stream.Signature(Job)),
            "beats": In(stream.Signature(Packet(width))),
            "outstanding": In(range(MOST_OUTSTANDING)),
            "bursts": Out(stream.Signature(Burst)),
            "words": Out(stream.Signature(Word(width))),
            "answers": In(stream.Signature(1)),
            "o": Out(stream.Signature(Retired)),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._width // 8
        m.submodules.cut = cut = Bursts(lanes)
        m.submodules.aligner = aligner = Aligner(self._width)
        m.submodules.spans = spans = Fifo(aligner.i.payload.shape(), AHEAD)
        flight = data.StructLayout({"writes": 1, "last": 1, "lost": 1})
        m.submodules.flight = flights = Fifo(flight, 2 * MOST_OUTSTANDING)
        m.submodules.heard = heard = Fifo(1, MOST_OUTSTANDING)
        m.submodules.news = news = Fifo(News, 2 * MOST_OUTSTANDING)
        job = self.i.payload

        # A job is taken as its last burst is.
        empty = ~job.length.any()
        out = Signal(Burst, reset_less=True)
        free, limited, onward, done = Signal(), Signal(), Signal(), Signal()
        on_way = Signal(range(MOST_OUTSTANDING + 1))
        burst = cut.o.payload
        m.d.comb += [
            cut.i.valid.eq(self.i.valid),
            *(cut.i.payload[name].eq(job[name]) for name in ("write", "address", "length")),
            free.eq(~self.bursts.valid | self.bursts.ready),
            limited.eq(on_way > self.outstanding),
            onward.eq(flights.i.ready & news.i.ready & spans.i.ready
                      & (~burst.writes | free & ~limited)),
            cut.o.ready.eq(onward),
            done.eq(self.i.valid & onward & burst.last),
            self.i.ready.eq(cut.i.ready),
            flights.i.valid.eq(self.i.valid & onward),
            flights.i.payload.writes.eq(burst.writes),
            flights.i.payload.last.eq(burst.last),
            flights.i.payload.lost.eq(job.lost),
            news.i.valid.eq(done),
            news.i.payload.eq(job.news),
            self.bursts.payload.eq(out),
        ]
        goes = flights.i.valid & burst.writes
        with m.If(free):
            m.d.sync += self.bursts.valid.eq(goes)
            m.d.sync += out.eq(burst)

        # The payload belongs to the first burst.
        first = Signal(init=1)
        with m.If(flights.i.valid):
            m.d.sync += first.eq(burst.last)
        m.d.comb += [
            spans.i.valid.eq(flights.i.valid & first & ~empty),
            spans.i.payload.write.eq(job.write),
            spans.i.payload.offset.eq(job.address[:ceil_log2(page_bytes(lanes))]),
            spans.i.payload.length.eq(job.length),
        ]
        connect(m, spans.o, aligner.i)
        connect(m, flipped(self.beats), aligner.beats)

        # Data follows its address.
        known = Signal(range(2 * MOST_OUTSTANDING))
        addressed = self.bursts.valid & self.bursts.ready
        ended = self.words.valid & self.words.ready & self.words.payload.last
        m.d.sync += known.eq(known + addressed - ended)
        m.d.comb += [
            self.words.valid.eq(aligner.o.valid & known.any()),
            self.words.payload.eq(aligner.o.payload),
            aligner.o.ready.eq(self.words.ready & known.any()),
        ]

        # Answers never wait, lest they stand before those of another source: there is a place for
        # each burst on its way. They are told in order; what needs none has its turn, too.
        connect(m, flipped(self.answers), heard.i)
        flight, failed = flights.o.payload, Signal()
        answered = flights.o.valid & (~flight.writes | heard.o.valid)
        m.d.comb += [
            self.o.valid.eq(answered & flight.last),
            self.o.payload.failed.eq(failed | flight.lost | flight.writes & heard.o.payload),
            self.o.payload.news.eq(news.o.payload),
            flights.o.ready.eq(answered & (self.o.ready | ~flight.last)),
            news.o.ready.eq(self.o.valid & self.o.ready),
            heard.o.ready.eq(flights.o.ready & flight.writes),
        ]
        with m.If(flights.o.ready):
            m.d.sync += failed.eq(~flight.last & self.o.payload.failed)
        m.d.sync += on_way.eq(on_way + goes - (heard.o.valid & heard.o.ready))
        return m
