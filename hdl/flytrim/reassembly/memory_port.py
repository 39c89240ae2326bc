# SPDX-License-Identifier: Apache-2.0
"""Memory port: AXI4 writes of several sources, each with an ID of its own."""

from amaranth import Array, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..axis import Response, axi_members
from ..logic import select
from ..stream import Fifo, RoundRobin
from .aligner import Word
from .bursts import Burst

__all__ = ["MemoryPort"]

#: Bursts whose data has not ended: more than all sources have on their way.
AHEAD = 32
#: AXI4: addresses of a burst rise by a beat; memory itself is to answer, nothing on the way to it,
#: and it may be cached nowhere.
INCREMENT, NORMAL = 1, 0b0010


class MemoryPort(wiring.Component):
    """Lets sources write in turn, burst by burst, and hands each memory's answers to its own.

    Addresses and data leave from registers, a burst and a beat a cycle. Data follows in the order
    of addresses, once memory has taken these.

    Parameters
    ----------
    width : int
        Bits a beat.
    sources : int
        2 at least. The number of a source is the ID of its bursts.

    Members
    -------
    bursts, words : streams of :class:`Burst` and :class:`Word` of each source
    answers : streams of bits to each source: its bursts in order, set where memory refused one
    axi_* : AXI4 master that writes
    """

    prefix = "axi"

    def __init__(self, width, sources):
        self._width, self._sources = width, sources
        ids = ceil_log2(sources)
        super().__init__({
            "bursts": In(stream.Signature(Burst)).array(sources),
            "words": In(stream.Signature(Word(width))).array(sources),
            "answers": Out(stream.Signature(1)).array(sources),
            **axi_members("axi", width, ids=ids),
        })

    def elaborate(self, platform):
        m = Module()
        sources = range(self._sources)
        m.submodules.turns = turns = RoundRobin(self._sources)
        m.submodules.order = order = Fifo(self._sources, AHEAD)

        free, moves = Signal(), Signal()
        source = Signal(self._sources)
        burst, chosen = Signal(Burst), turns.grant
        m.d.comb += [
            turns.requests.eq(Cat(self.bursts[n].valid for n in sources)),
            free.eq(~self.axi_awvalid | self.axi_awready),
            moves.eq(free & turns.requests.any()),
            turns.served.eq(moves),
            burst.as_value().eq(select(
                (chosen[n], self.bursts[n].payload.as_value()) for n in sources)),
            *(self.bursts[n].ready.eq(free & chosen[n]) for n in sources),
            order.i.valid.eq(self.axi_awvalid & self.axi_awready),
            order.i.payload.eq(source),
            self.axi_awsize.eq(ceil_log2(self._width // 8)),
            self.axi_awburst.eq(INCREMENT),
            self.axi_awcache.eq(NORMAL),
        ]
        with m.If(moves):
            m.d.sync += [
                self.axi_awvalid.eq(1),
                source.eq(chosen),
                self.axi_awid.eq(Cat(Cat(chosen[n] for n in sources if n >> bit & 1).any()
                                     for bit in range(len(self.axi_awid)))),
                self.axi_awaddr.eq(burst.address),
                self.axi_awlen.eq(burst.beats),
            ]
        with m.Elif(self.axi_awready):
            m.d.sync += self.axi_awvalid.eq(0)

        word, ready = Signal(Word(self._width)), Signal()
        valid = Signal()
        m.d.comb += [
            word.as_value().eq(select(
                (order.o.payload[n], self.words[n].payload.as_value()) for n in sources)),
            ready.eq((~self.axi_wvalid | self.axi_wready) & order.o.valid),
            valid.eq((Cat(self.words[n].valid for n in sources) & order.o.payload).any()),
            *(self.words[n].ready.eq(ready & order.o.payload[n]) for n in sources),
            order.o.ready.eq(ready & valid & word.last),
        ]
        with m.If(ready & valid):
            m.d.sync += [
                self.axi_wvalid.eq(1),
                self.axi_wdata.eq(word.data),
                self.axi_wstrb.eq(word.strobes),
                self.axi_wlast.eq(word.last),
            ]
        with m.Elif(self.axi_wready):
            m.d.sync += self.axi_wvalid.eq(0)

        for n in sources:
            m.d.comb += [
                self.answers[n].valid.eq(self.axi_bvalid & (self.axi_bid == n)),
                self.answers[n].payload.eq(self.axi_bresp != Response.OKAY),
            ]
        m.d.comb += self.axi_bready.eq(Array(self.answers[n].ready for n in sources)[self.axi_bid])
        return m
