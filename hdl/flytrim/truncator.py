# SPDX-License-Identifier: Apache-2.0
"""Pad truncator: a payload without what follows it."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .context import LENGTH_BITS
from .logic import KEEP, Copies, copies_for
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
    i_soon : in the next cycle ``i`` has an item with data
    length : payload bytes of the frame, sampled with its first item
    limit : the bytes of them that stay where ``limited``, less than ``length``; likewise
    limited : likewise; the same in all its bits, each of which serves a part of the lanes, and the
        last one all else
    damaged : sampled with ``ended``: sets the error flag of the last beat
    o : lane of :class:`Packet`
    ended : one cycle for each frame, with its last beat of payload if it has one
    sent : with ``ended``: bytes of payload that left, fewer than asked for if the frame ended early
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Stripped(config.width), always_ready=True)),
            "i_soon": In(1),
            "length": In(16),
            "limit": In(16),
            "limited": In(1 + copies_for(config.lanes)),
            "damaged": In(1),
            "o": Out(stream.Signature(Packet(config.width), always_ready=True)),
            "ended": Out(1),
            "sent": Out(LENGTH_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, item = self._config.lanes, self.i.payload
        over = self.i.valid & item.end

        # An item with data is taken until the payload has all that it may have.
        begun, next_begun, taken = Signal(attrs=KEEP), Signal(), Signal(attrs=KEEP)
        wanted, next_wanted, take = Signal(init=1), Signal(), Signal()
        more = Signal()
        m.d.comb += [
            next_begun.eq(~over & (begun | taken)),
            next_wanted.eq(over | Mux(taken, more, wanted)),
            take.eq(self.i_soon & next_wanted),
        ]
        m.d.sync += [begun.eq(next_begun), wanted.eq(next_wanted), taken.eq(take)]

        # Whether the limit counts is known late, so all three ends are worked out before.
        rest = Signal.like(self.length, reset_less=True)
        ends = [_End(length, item.count, lanes) for length in (self.length, self.limit, rest)]

        def choose(name, begun=begun, limited=self.limited[-1], part=slice(None)):
            whole, limit, following = (getattr(end, name)[part] for end in ends)
            return Mux(begun, following, Mux(limited, limit, whole))

        beyond = Signal(lanes)
        copies = Copies(m, next_begun, lanes, name="begun", reset=0)
        for n, (copy, part) in enumerate(copies.parts()):
            m.d.comb += beyond[part].eq(choose("beyond", copy, self.limited[n], part))
        beat = Signal(Packet(self._config.width), reset_less=True)
        loads = Copies(m, take, len(beat.data), name="load", reset=0)
        for lane, cleared in enumerate(beyond):
            with m.If(loads.of(8 * lane)):
                m.d.sync += beat.data.word_select(lane, 8).eq(
                    Mux(cleared, 0, item.data.word_select(lane, 8)))

        waiting, before, any_taken = Signal(), Signal(LENGTH_BITS), Signal()
        m.d.comb += more.eq(choose("more"))
        m.d.sync += [self.ended.eq(over), any_taken.eq(begun | taken)]
        with m.If(self.o.valid):
            m.d.sync += waiting.eq(0)
        with m.If(taken):
            m.d.sync += [
                waiting.eq(~beyond[0]),
                rest.eq(choose("rest")),
                beat.count.eq(choose("count")),
                beat.last.eq(~more | item.final),
                before.eq(Mux(begun, before + lanes, 0)),
            ]

        m.d.comb += [
            self.o.valid.eq(waiting & (~beat.last | self.ended)),
            self.o.payload.eq(beat),
            self.o.payload.error.eq(beat.last & self.damaged),
            self.sent.eq(Mux(any_taken, before + beat.count, 0)),
        ]
        return m


class _End:
    """What of an item with ``count`` bytes stays where ``length`` bytes of payload are left.

    Lanes that do not, count, what is left behind the item, and whether that is anything.
    """

    def __init__(self, length, count, lanes):
        self.beyond = ~(thermometer(length, lanes) & thermometer(count, lanes))
        self.count = Mux(length < count, length, count)[:len(count)]
        self.more = length > lanes
        self.rest = Mux(self.more, length - lanes, 0)[:16]
