# SPDX-License-Identifier: Apache-2.0
"""In order: packets whose PSNs must follow one another, with messages of any length."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .contexts import Contexts
from .kinds import FAMILIES
from .records import BYTES_BITS, CYCLE_BITS, FLOW_BITS, PSN_BITS, AnswerKind, Fate
from .turn import Decided, Turn

__all__ = ["InOrder"]


class _State(data.Struct):
    """Of a flow. ``room`` is left behind the last packet of the message that has begun, ``home``
    where the next SEND begins, ``next_home`` at the one behind that; ``told`` since a gap was.
    """

    expected: PSN_BITS
    message: PSN_BITS
    inside: 1
    told: 1
    family: len(FAMILIES)
    room: BYTES_BITS
    home: BYTES_BITS
    next_home: BYTES_BITS
    bytes: BYTES_BITS
    began: CYCLE_BITS


class InOrder(wiring.Component):
    """Decides on each packet by its flow's state, and brings that forward.

    RC: the next PSN is taken, one before it a duplicate; one beyond it is a gap, told once until
    the next PSN has come. A packet that may not be where it is is told and its PSN waited for. A
    READ response behind a gap may be a FIRST or ONLY, with which the message goes on.
    UC and UD: a PSN beyond the next one is taken, too, but abandons the message that had begun; so
    does a packet that may not be where it is.

    Latency 1 cycle, a packet a cycle, of one flow or of many; nothing stalls.

    Parameters
    ----------
    flows : int

    Members
    -------
    number : of the flow of what comes in ``i`` two cycles later
    i : lane of :class:`Turn`
    o : lane of :class:`Decided`
    """

    #: From ``i`` to ``o``.
    latency = 1

    def __init__(self, flows):
        self._flows = flows
        super().__init__({
            "number": In(FLOW_BITS),
            "i": In(stream.Signature(Turn, always_ready=True)),
            "o": Out(stream.Signature(Decided, always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.states = states = Contexts(_State, self._flows)
        turn, kind = self.i.payload, self.i.payload.kind
        state, new = _State(states.word), _State(states.changed)

        # Where the PSN stands, and which of these a packet of this transport may do.
        distance = (turn.psn - state.expected)[:PSN_BITS]
        behind, gap, due = Signal(), Signal(), Signal()
        m.d.comb += [
            behind.eq(distance[-1]),
            gap.eq(distance.any() & ~behind),
            due.eq(~behind & ~(gap & kind.reliable)),
        ]
        # A gap ends what had begun, unless it is repaired.
        inside = state.inside & ~gap
        goes_on = inside & (~kind.starts | kind.response)
        wrong, fits = Signal(), Signal()
        room, rest = Signal(BYTES_BITS), Signal(BYTES_BITS + 1)
        m.d.comb += [
            wrong.eq(Mux(goes_on, kind.family != state.family,
                         ~kind.starts | inside & kind.reliable)),
            room.eq(Mux(goes_on, state.room, Mux(kind.reth, turn.write_room, state.home))),
            rest.eq(room - turn.length),
            fits.eq(Mux(goes_on | ~kind.reth, ~rest[-1],
                        turn.reachable & ~rest[-1] | kind.ends & ~turn.length.any())),
        ]
        packet = self.i.valid & ~turn.start & ~turn.refused
        placed, ends, abandons = Signal(), Signal(), Signal()
        m.d.comb += [
            placed.eq(packet & due & ~wrong & fits),
            ends.eq(placed & kind.ends),
            abandons.eq(packet & due & ~kind.reliable & state.inside & ~(goes_on & placed)),
            states.number.eq(self.number),
            states.change.eq(packet & ~behind | self.i.valid & turn.start),
        ]

        count = Mux(goes_on, state.bytes, 0) + turn.length
        began = Mux(goes_on, state.began, turn.cycle)
        message, advanced = Signal(PSN_BITS), Signal(PSN_BITS)
        m.d.comb += [
            message.eq(state.message + abandons),
            advanced.eq(message + ends),
            new.eq(state),
        ]
        with m.If(turn.start):
            m.d.comb += [
                new.eq(0),
                new.expected.eq(turn.psn),
                new.home.eq(turn.bytes),
                new.next_home.eq(_behind(turn, turn.bytes)),
            ]
        with m.Elif(placed):
            m.d.comb += [
                new.expected.eq(turn.psn + 1),
                new.message.eq(advanced),
                new.inside.eq(~kind.ends),
                new.told.eq(0),
                new.family.eq(kind.family),
                new.room.eq(rest),
                new.bytes.eq(count),
                new.began.eq(began),
            ]
            with m.If(kind.ends & ~kind.write):
                m.d.comb += [
                    new.home.eq(Mux(turn.stride.any(), state.next_home, rest)),
                    new.next_home.eq(_behind(turn, state.next_home)),
                ]
        with m.Elif(kind.reliable):
            m.d.comb += new.told.eq(1)
        with m.Else():
            m.d.comb += [
                new.expected.eq(turn.psn + 1),
                new.message.eq(message),
                new.inside.eq(0),
            ]

        out, news = self.o.payload, self.o.payload.news
        m.d.sync += [
            self.o.valid.eq(self.i.valid),
            out.write.eq(placed & turn.length.any()),
            out.room.eq(room),
            out.length.eq(turn.length),
            news.restart.eq(turn.start),
            news.flow.eq(turn.flow),
            news.gap.eq(packet & gap & ~(kind.reliable & state.told)),
            news.abandons.eq(abandons),
            news.completes.eq(ends),
            news.message.eq(state.message),
            news.bytes.eq(count),
            news.opcode.eq(turn.opcode),
            news.immediate.eq(turn.immediate),
            news.began.eq(began),
            news.cycle.eq(turn.cycle),
            news.answerable.eq(packet & kind.reliable & ~kind.response),
            news.msn.eq(advanced),
            news.psn.eq(state.expected),
            news.answer.eq(AnswerKind.NONE),
        ]
        with m.If(turn.start | turn.refused):
            m.d.sync += news.fate.eq(turn.reason)
        with m.Elif(behind):
            m.d.sync += [news.fate.eq(Fate.DUPLICATE), news.psn.eq(state.expected - 1),
                         news.answer.eq(AnswerKind.AGAIN)]
        with m.Elif(~due):
            m.d.sync += [news.fate.eq(Fate.OUT_OF_WINDOW), news.answer.eq(
                Mux(state.told, AnswerKind.NONE, AnswerKind.NAK_SEQUENCE))]
        with m.Elif(wrong):
            m.d.sync += [news.fate.eq(Fate.SEQUENCE), news.answer.eq(AnswerKind.NAK_INVALID)]
        with m.Elif(~fits):
            m.d.sync += [news.fate.eq(Fate.BOUNDS), news.answer.eq(AnswerKind.NAK_ACCESS)]
        with m.Else():
            m.d.sync += [news.fate.eq(Fate.PLACED), news.answer.eq(
                Mux(turn.ack_request, AnswerKind.ACK, AnswerKind.NONE))]
        return m


def _behind(turn, home):
    """The room where the SEND behind the one with ``home`` begins, if a flow has a stride."""
    return Mux((turn.stride << 1) > home, turn.bytes, home - turn.stride)
