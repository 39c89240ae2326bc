# SPDX-License-Identifier: Apache-2.0
"""Sifter: the beats of a container that have records."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from . import container as c
from .context import WORDS_BITS, Announced, Useful
from .receiver import Stored

__all__ = ["Sifter"]


class Sifter(wiring.Component):
    """Takes a beat a cycle, and passes on those that have words of records. Latency 1 cycle.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    i_container : stream of :class:`Announced`
    i : their beats
    room : there is room for what is in flight, and a beat
    o : lane of :class:`Useful`
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i_container": In(stream.Signature(Announced)),
            "i": In(stream.Signature(Stored(config))),
            "room": In(1),
            "o": Out(stream.Signature(Useful(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        config, words, container = self._config, self._config.words, self.i_container.payload
        head = (c.CARRIAGE.size * config.ethernet + c.TAG.size) // c.WORD
        routed_head = head + c.ROUTE.size // c.WORD

        # Words to the first record, from this beat's first, and words of records from there on.
        started, given = Signal(), Signal()
        kept_skip, kept_rest = Signal(range(routed_head + 1)), Signal(WORDS_BITS)
        skip, rest = Signal.like(kept_skip), Signal.like(kept_rest)
        here, useful, go, all_given = Signal(range(words + 1)), Signal(), Signal(), Signal()
        out = Signal(Useful(config), reset_less=True)
        m.d.comb += [
            skip.eq(Mux(started, kept_skip, Mux(container.routed, routed_head, head))),
            rest.eq(Mux(started, kept_rest, container.words)),
            here.eq(words - skip if routed_head < words else Mux(skip < words, words - skip, 0)),
            useful.eq(here.any() & rest.any()),
            all_given.eq(rest <= here),
            go.eq(self.i.valid & self.i_container.valid & self.room),
            self.i.ready.eq(go),
            self.i_container.ready.eq(go & self.i.payload.last),
            self.o.payload.eq(out),
        ]
        m.d.sync += self.o.valid.eq(go & useful)
        with m.If(go):
            m.d.sync += [
                started.eq(~self.i.payload.last),
                given.eq(~self.i.payload.last & (given | useful)),
                kept_skip.eq(0 if routed_head < words else Mux(here.any(), 0, skip - words)),
                kept_rest.eq(Mux(all_given, 0, rest - here)),
                out.data.eq(self.i.payload.data),
                out.first.eq(~given),
                out.last.eq(all_given),
                out.start.eq(skip),
                out.container.eq(container),
            ]
        return m
