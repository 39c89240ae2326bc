# SPDX-License-Identifier: Apache-2.0
"""Assembler: which record goes into which container."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..packet import Packet
from . import container as c
from .context import PREFIX_WORDS, WORDS_BITS, Item, ToFrame
from .sequences import Sequences

__all__ = ["Assembler"]


class Assembler(wiring.Component):
    """Makes items of records and payloads, and opens and closes containers.

    Combinational. A record of at most a beat takes one cycle; the headers of a longer one take
    their beats of it by themselves, and so does each beat of payload. One container is open at a
    time. It is closed when no record of the size of its last one would fit, when the time since it
    was opened is over, and by a record of another flow or kind, out of turn, or too long for it.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    restart, restart_flow : the flow's sequence numbers begin anew; so does a container
    i_record : stream of :class:`ToFrame`
    i : their payloads, of which all beats come before the record
    room : there is room for what is in flight, and an item
    o : lane of :class:`Item`
    close : the container is closed; not with an item
    dropped : strobe: a record was dropped
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "restart": In(1),
            "restart_flow": In(6),
            "i_record": In(stream.Signature(ToFrame)),
            "i": In(stream.Signature(Packet(config.width))),
            "room": In(1),
            "o": Out(stream.Signature(Item(config), always_ready=True)),
            "close": Out(1),
            "dropped": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        words = self._config.words
        new, beat, item = self.i_record.payload, self.i.payload, self.o.payload

        # What of the record's headers is still to come, and whether the payload fits behind.
        started = Signal()
        kept, kept_words = Signal.like(new.prefix.as_value(), reset_less=True), Signal(3)
        prefix, left = Signal.like(kept), Signal.like(kept_words)
        beat_words = Signal(range(words + 1))
        m.d.comb += [
            prefix.eq(Mux(started, kept, new.prefix.as_value())),
            left.eq(Mux(started, kept_words, new.prefix_words)),
            beat_words.eq((beat.count + (c.WORD - 1)) >> 2),
        ]
        alone, fits, takes, go, ends = (Signal(name=name) for name in
                                        ("alone", "fits", "takes", "go", "ends"))
        m.d.comb += [
            alone.eq(left <= words),
            fits.eq(new.has_payload & beat.last & (left + beat_words <= words)),
            takes.eq(new.has_payload & (new.drop | ~left.any() | fits)),
            go.eq(self.i_record.valid & (~new.has_payload | self.i.valid) & self.room),
            ends.eq(Mux(new.has_payload, takes & beat.last, new.drop | alone)),
            self.i.ready.eq(go & takes),
            self.i_record.ready.eq(go & ends),
            self.dropped.eq(go & ends & new.drop),
            self.o.valid.eq(go & ~new.drop),
            item.ends.eq(ends),
            item.count.eq(Mux(takes, left + beat_words, Mux(alone, left, words))),
            item.data.eq(prefix | Mux(takes, Array(
                (beat.data << 32 * n)[:len(item.data)] for n in range(PREFIX_WORDS + 1))[left],
                0)),
        ]
        with m.If(go):
            # Of a payload of several beats, nothing is left but these.
            m.d.sync += [
                started.eq(~ends),
                kept.eq(Mux(takes, 0, prefix >> 32 * words)),
                kept_words.eq(Mux(takes | alone, 0, left - words)),
            ]
        self._containers(m, started)
        return m

    def _containers(self, m, started):
        new, item = self.i_record.payload, self.o.payload
        record, context = new.record, new.context
        around = c.TAG.size + c.TRAILER.size
        limit = Mux(context.routed, self._config.container_bytes - around - c.ROUTE.size,
                    self._config.container_bytes - around) >> 2

        is_open, full, due = Signal(), Signal(), Signal()
        flow, psn, timer = Signal(6), Signal(24), Signal(32)
        room, last_size = Signal(WORDS_BITS), Signal(WORDS_BITS)
        stale, closing, follows, begins = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            closing.eq(is_open & ~started & (due | stale | (room < last_size))),
            follows.eq(is_open & ~closing & (record.flow == flow) & (new.full == full)
                       & (record.psn == psn) & (new.size <= room)),
            begins.eq(self.o.valid & ~started),
            item.opens.eq(begins & ~follows),
            self.close.eq(closing & ~self.o.valid & self.room),
        ]
        with m.If(self.close):
            m.d.sync += [is_open.eq(0), stale.eq(0)]
        with m.If(begins):
            m.d.sync += [is_open.eq(1), psn.eq(record.psn + 1), last_size.eq(new.size),
                         room.eq(Mux(follows, room, Mux(new.size > limit, new.size, limit))
                                 - new.size)]
        with m.If(item.opens):
            m.d.sync += [flow.eq(record.flow), full.eq(new.full), stale.eq(0),
                         timer.eq(context.flush), due.eq(~context.flush.any())]
        with m.Elif(~due):
            m.d.sync += [timer.eq(timer - 1), due.eq(timer == 1)]
        with m.If(self.restart):
            m.d.sync += stale.eq(1)

        m.submodules.sequences = sequences = Sequences(self._config.flows)
        m.d.comb += [
            sequences.restart.eq(self.restart),
            sequences.restart_flow.eq(self.restart_flow),
            sequences.flow.eq(record.flow),
            sequences.following.eq(sequences.number + 1),
            sequences.write.eq(item.opens),
        ]
        m.d.comb += [item.head[name].eq(context[name]) for name in (
            "lean_id", "routed", "source", "destination", "hop_limit", "dst_mac", "src_mac")]
        m.d.comb += [item.head.psn.eq(record.psn), item.head.sequence.eq(sequences.number),
                     item.head.full.eq(new.full)]
