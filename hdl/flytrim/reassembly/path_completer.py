# SPDX-License-Identifier: Apache-2.0
"""Completions of multipath: messages whose packets come in any order are told in their own."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .records import CYCLE_BITS, PSN_BITS, Completion, Retired

__all__ = ["PathCompleter"]


class _Tail(data.Struct):
    """What the last packet of a message tells."""

    opcode: 8
    immediate: 32


class PathCompleter(wiring.Component):
    """Keeps what packets tell of their messages until all before have come.

    A packet that completes nothing takes a cycle; each message that it completes two more, and a
    start a cycle for each place of a window.

    Parameters
    ----------
    flows, window : int

    Members
    -------
    i : stream of :class:`Retired`, of flows of multipath
    o : stream of :class:`Completion`
    """

    def __init__(self, flows, window):
        self._flows, self._window = flows, window
        super().__init__({
            "i": In(stream.Signature(Retired)),
            "o": Out(stream.Signature(Completion)),
        })

    def elaborate(self, platform):
        m = Module()
        news = self.i.payload.news
        places = ceil_log2(self._window)
        depth = max(2, self._flows) * self._window

        def table(name, shape, count, **port):
            m.submodules[name] = words = memory.Memory(shape=shape, depth=count, init=[])
            return words.write_port(), words.read_port(**port)

        keep_tail, tail = table("tails", _Tail, depth)
        keep_first, first = table("firsts", CYCLE_BITS, depth)
        keep_failed, failed = table("failures", 1, depth, domain="comb")
        keep_told, told = table("told", PSN_BITS, max(2, self._flows), domain="comb")

        # The message of the packet, the one that is told next, or a place that is cleared.
        place = Signal(places)
        own, due = (Cat(value, news.flow) for value in (news.message[:places], told.data[:places]))
        following = (told.data + 1)[:PSN_BITS]
        out = self.o.payload
        m.d.comb += [
            keep_tail.addr.eq(own),
            keep_tail.data.opcode.eq(news.opcode),
            keep_tail.data.immediate.eq(news.immediate),
            keep_first.addr.eq(own),
            keep_first.data.eq(news.cycle),
            told.addr.eq(news.flow), keep_told.addr.eq(news.flow),
            tail.addr.eq(due), first.addr.eq(due), failed.addr.eq(due),
            out.flow.eq(news.flow),
            out.opcode.eq(tail.data.opcode),
            out.failed.eq(failed.data),
            out.message.eq(told.data),
            out.bytes.eq(news.bytes),
            out.immediate.eq(tail.data.immediate),
            out.first.eq(first.data),
            out.last.eq(news.cycle),
        ]
        with m.FSM():
            with m.State("Take"):
                m.d.comb += [
                    keep_tail.en.eq(self.i.valid & news.completes),
                    keep_first.en.eq(self.i.valid & news.begins),
                    keep_failed.addr.eq(own),
                    keep_failed.data.eq(1),
                    keep_failed.en.eq(self.i.valid & self.i.payload.failed & ~news.restart),
                ]
                with m.If(self.i.valid & news.restart):
                    m.next = "Clear"
                with m.Elif(self.i.valid & (told.data != news.upto)):
                    m.next = "Read"
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
            with m.State("Read"):
                m.next = "Tell"
            with m.State("Tell"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.comb += [
                        keep_told.data.eq(following),
                        keep_told.en.eq(1),
                        keep_failed.addr.eq(due),
                        keep_failed.en.eq(1),
                        self.i.ready.eq(following == news.upto),
                    ]
                    m.next = "Read"
                    with m.If(self.i.ready):
                        m.next = "Take"
            with m.State("Clear"):
                m.d.comb += [
                    keep_told.en.eq(1),
                    keep_failed.addr.eq(Cat(place, news.flow)),
                    keep_failed.en.eq(1),
                ]
                m.d.sync += place.eq(place + ~place.all())
                with m.If(place.all() & self.i.valid):
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += place.eq(0)
                    m.next = "Take"
        return m
