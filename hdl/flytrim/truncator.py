# SPDX-License-Identifier: Apache-2.0
"""Pad truncator: a payload without what follows it."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .context import LENGTH_BITS
from .packet import Packet, thermometer
from .stripper import Stripped

__all__ = ["Truncator"]


class Truncator(wiring.Component):
    """Ends each payload after ``length`` bytes, or ``limit`` bytes where ``limited``.

    The last beat is held until the frame has ended, so that it can carry a flag for what shows only
    then. A frame that ends early ends its payload early; a payload of no bytes has no beat.
    Latency 1 cycle, but for the last beat, which leaves with ``ended``, 1 cycle behind the item
    with ``end``.

    Members
    -------
    i : lane of :class:`Stripped`
    length : payload bytes of the frame, sampled with its first item
    limit : the bytes of them that stay where ``limited``, less than ``length``; likewise
    limited : likewise, and held until the frame's last item
    damaged : sampled with ``ended``: sets the error flag of the last beat
    o : lane of :class:`Packet`
    ended : one cycle for each frame, with its last beat of payload if it has one
    sent : with ``ended``: bytes of payload that left, fewer than asked for if the frame ended early
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Stripped(config.width), always_ready=True)),
            "length": In(16),
            "limit": In(32),
            "limited": In(1),
            "damaged": In(1),
            "o": Out(stream.Signature(Packet(config.width), always_ready=True)),
            "ended": Out(1),
            "sent": Out(LENGTH_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, item = self._config.lanes, self.i.payload

        # Whether the limit counts is known late, so both ends are worked out before it is asked.
        whole = self._end(m, "whole", self.length)
        limit = self._end(m, "limit", self.limit)
        keep, count, last = (Mux(self.limited, short, long)
                             for short, long in zip(limit, whole, strict=True))

        beat = Signal(Packet(self._config.width), reset_less=True)
        waiting, sent = Signal(), Signal(LENGTH_BITS)
        has_data = Signal()
        m.d.comb += has_data.eq(self.i.valid & (count > 0))

        m.d.sync += self.ended.eq(self.i.valid & item.end)
        with m.If(self.o.valid):
            m.d.sync += waiting.eq(0)
        with m.If(self.ended):
            m.d.sync += sent.eq(0)
        kept = Signal(lanes)
        m.d.comb += kept.eq(keep)
        with m.If(has_data):
            m.d.sync += [
                waiting.eq(1),
                beat.data.eq(item.data & Cat(bit.replicate(8) for bit in kept)),
                beat.count.eq(count),
                beat.last.eq(last),
                sent.eq(Mux(item.first, 0, sent) + count),
            ]

        m.d.comb += [
            self.o.valid.eq(waiting & (~beat.last | self.ended)),
            self.o.payload.eq(beat),
            self.o.payload.error.eq(beat.last & self.damaged),
            self.sent.eq(sent),
        ]
        return m

    def _end(self, m, name, length):
        """What of the present item stays of a payload of ``length`` bytes: lanes, count, last."""
        lanes, item = self._config.lanes, self.i.payload
        following, left = Signal(len(length), name=f"{name}_following"), Signal.like(length)
        m.d.comb += left.eq(Mux(item.first, length, following))
        with m.If(self.i.valid & (item.count > 0)):
            m.d.sync += following.eq(Mux(left > lanes, left - lanes, 0))
        return (thermometer(left, lanes) & thermometer(item.count, lanes),
                Mux(left < item.count, left, item.count), (left <= lanes) | item.final)
