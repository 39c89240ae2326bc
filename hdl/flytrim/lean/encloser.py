# SPDX-License-Identifier: Apache-2.0
"""Encloser: a tag before a container's records, a trailer behind them."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..crc_run import CrcRun
from ..logic import delayed, select
from ..packet import Packet, reverse_bytes
from . import container as c
from .context import Beat

__all__ = ["Encloser"]

_TAG_WORDS, _ROUTE_WORDS, _TRAILER_WORDS = (each.size // c.WORD for each in (
    c.TAG, c.ROUTE, c.TRAILER))
_CARRIAGE_WORDS = c.CARRIAGE.size // c.WORD
#: Words that a frame of 60 bytes has before the trailer.
_LEAST = 60 // c.WORD - _TRAILER_WORDS


class Encloser(wiring.Component):
    """Makes a container of each row of beats, a beat a cycle, and never stalls behind ``i``.

    All that stands before the records is whole words, so that beats are turned by one of two
    numbers of words. Latency 4 cycles from a beat to the one with its first word.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    i : stream of :class:`Beat`
    room : there is room for what is in flight, and a beat
    o : lane of the containers, with what carries them
    """

    latency = 1 + CrcRun.latency

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Beat(config))),
            "room": In(1),
            "o": Out(stream.Signature(Packet(config.width), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        config, words = self._config, self._config.words
        new = self.i.payload
        ahead = [_CARRIAGE_WORDS * config.ethernet + _TAG_WORDS + routed * _ROUTE_WORDS
                 for routed in (0, 1)]
        least = _LEAST if config.ethernet else 0

        # The number of the beat, up to the first that the head does not concern any more.
        rows = -(-max(*ahead, least + 1) // words)
        number = Signal(range(rows + 1))
        starts, kept_routed, routed = Signal(), Signal(), Signal()
        # Words from the beat's first to the trailer, where that is known; of the trailer, the CRC
        # may stand alone in the last beat.
        trailer, tail = (Signal(range(max(2 * words, least + 1)), name=name)
                         for name in ("trailer", "tail"))
        taken_all, split, known = Signal(), Signal(), Signal()
        takes, go, ends = Signal(), Signal(), Signal()
        turned_by = Mux(routed, *(n % words for n in reversed(ahead)))
        behind = turned_by + new.count
        leads = [Cat(Const(0, 1), *(number == row for row in range(n // words))).any()
                 for n in ahead]
        rest = Array(max(0, least - row * words) for row in range(rows + 1))[number]
        m.d.comb += [
            starts.eq(number == 0),
            routed.eq(Mux(starts, new.head.routed, kept_routed)),
            takes.eq(~taken_all & ~Mux(routed, *reversed(leads))),
            go.eq(self.room & (taken_all | self.i.valid)),
            self.i.ready.eq(go & takes),
            known.eq(~split & (taken_all | takes & new.last)),
            trailer.eq(Mux(taken_all, tail, Mux(behind > rest, behind, rest))),
            ends.eq(split | known & (trailer + _TRAILER_WORDS <= words)),
        ]
        counts = Signal(32)
        kept_counts = Signal.like(counts, reset_less=True)
        m.d.comb += counts.eq(Mux(taken_all, kept_counts, Cat(
            reverse_bytes(new.records), reverse_bytes((new.size << 2)[:16]))))
        with m.If(go):
            m.d.sync += [
                number.eq(Mux(ends, 0, Mux(number == rows, number, number + 1))),
                kept_routed.eq(routed),
                kept_counts.eq(counts),
                taken_all.eq(~ends & (taken_all | takes & new.last)),
                split.eq(~ends & known & (trailer == words - 1)),
                tail.eq(trailer - words),
            ]

        # The beat: head, what came before of the records, what comes now, counts.
        head, masked_head = self._head(new.head)
        turned = Mux(routed, *(new.data.rotate_left(32 * (n % words)) for n in reversed(ahead)))
        turned, held = turned & takes.replicate(config.width), Signal(config.width, reset_less=True)
        beat, masked = (Signal(config.width, name=name, reset_less=True)
                        for name in ("beat", "masked"))
        with m.If(go):
            m.d.sync += held.eq(turned)
        for slot in range(words):
            part = slice(32 * slot, 32 * slot + 32)
            earlier = Mux(routed, *(int(slot < n % words) for n in reversed(ahead)))
            body = (Mux(earlier, held[part] & ~starts.replicate(32), turned[part])
                    | counts & (known & (trailer == slot)).replicate(32))
            rows_here = range(slot, len(head), words)
            for target, source in ((beat, head), (masked, masked_head)):
                m.d.sync += target[part].eq(body | select(
                    (number == row // words, source[row]) for row in rows_here))

        # Its CRC, three cycles later.
        m.submodules.crc = crc = CrcRun(config.width, c.CRC32C)
        flags = Signal(data.StructLayout({
            "valid": 1, "first": 1, "last": 1, "split": 1, "end": range(words + 1)}))
        m.d.sync += [
            flags.valid.eq(go),
            flags.first.eq(starts),
            flags.last.eq(ends),
            flags.split.eq(split),
            flags.end.eq(Mux(split, 0, trailer + 1)),
        ]
        m.d.comb += [crc.data.eq(masked), crc.first.eq(flags.first),
                     crc.hold.eq(~flags.valid | flags.split), crc.end.eq(flags.end)]
        whole = delayed(m, beat, CrcRun.latency, name="beat")
        late = delayed(m, flags, CrcRun.latency, name="flags", reset=True)
        packet = self.o.payload
        m.d.comb += [
            self.o.valid.eq(late.valid),
            packet.last.eq(late.last),
            packet.count.eq(Mux(late.last, (late.end + 1) << 2, config.lanes)),
            packet.data.eq(Cat(
                whole[32 * slot:32 * slot + 32]
                | crc.crc & (late.last & (late.end == slot)).replicate(32)
                for slot in range(words))),
        ]
        return m

    def _head(self, head):
        """The words before the records as they are sent, and as the CRC takes them."""
        carriage = Cat(reverse_bytes(head.dst_mac), reverse_bytes(head.src_mac),
                       *(reverse_bytes(Const(value, 16)) for value in (c.ETHERTYPE, c.SUBTYPE)))
        flags = Cat(head.full, head.routed, Const(0, 2))
        tag = Cat(flags, Const(c.VERSION, 4), reverse_bytes(head.lean_id), reverse_bytes(head.psn),
                  reverse_bytes(head.sequence))
        devices = reverse_bytes(Cat(head.destination, head.source))
        route, masked_route = (Cat(devices, hops) & head.routed.replicate(32)
                               for hops in (head.hop_limit, Const(0, 8)))
        parts = [(carriage, Const(0, len(carriage)))] if self._config.ethernet else []
        parts += [(tag, tag ^ 0xFFFF_FFFF), (route, masked_route)]
        return [[whole[bit:bit + 32] for bit in range(0, len(whole), 32)]
                for whole in map(Cat, zip(*parts, strict=True))]
