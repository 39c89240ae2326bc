# SPDX-License-Identifier: Apache-2.0
"""Multipath: packets that come in any order, each placed by its distance from the first missing."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..logic import delayed
from .contexts import Contexts
from .message_place import REACH_BITS, MessagePlace
from .records import BYTES_BITS, FLOW_BITS, PSN_BITS, AnswerKind, Fate
from .run_length import RunLength
from .turn import Decided, Report, Turn

__all__ = ["Multipath"]

#: 256, the least payload of a packet that is not the last.
LEAST = 8


class _Frontier(data.Struct):
    """The first packet that is missing: its number, where it stands in which message, where that
    begins.
    """

    missing: PSN_BITS
    packet: PSN_BITS
    message: PSN_BITS
    home: BYTES_BITS


class Multipath(wiring.Component):
    """Decides on each packet by the marks of its flow, and finds how far the flow has come.

    A packet of the window whose mark is not set is taken if its opcode and length are those of its
    place in its message; it is written there, whatever the opcode, and a RETH must say the same.
    One that would be written elsewhere counts as come, and fails its message.

    The window moves ``latency`` + 2 cycles behind the packet that moves it: what comes beyond it
    before is out of the window. A sender that waits for an answer never finds out. All else is
    exact, a packet a cycle, of one flow or of many. Nothing stalls. Between the start of a flow and
    its packets before and behind are to be as many cycles.

    Parameters
    ----------
    flows : int
    window : int
        Packets of a window at most, a power of two.

    Members
    -------
    number : of the flow of what comes in ``i`` two cycles later
    i : lane of :class:`Turn`, of flows of multipath
    o : lane of :class:`Decided`
    reports : lane of :class:`Report`, with ``o``
    """

    # Cycles behind ``i`` of each step.
    _REACH, _PLACED = 2, 2 + MessagePlace.latency
    _MARK = _PLACED + 2
    _RUN = _MARK + RunLength.latency
    _FOUND = _RUN + 1 + MessagePlace.latency
    #: From ``i`` to ``o``.
    latency = _FOUND + 1

    def __init__(self, flows, window):
        self._flows, self._window = flows, window
        super().__init__({
            "number": In(FLOW_BITS),
            "i": In(stream.Signature(Turn, always_ready=True)),
            "o": Out(stream.Signature(Decided, always_ready=True)),
            "reports": Out(stream.Signature(Report(window), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.frontiers = frontiers = memory.Memory(
            shape=_Frontier, depth=max(2, self._flows), init=[])
        m.submodules.marks = marks = Contexts(self._window, self._flows)
        m.submodules.place = place = MessagePlace()
        m.submodules.run = run = RunLength(self._window)
        m.submodules.found = found = MessagePlace()
        write, read = frontiers.write_port(), frontiers.read_port()
        frontier = Signal(_Frontier, reset_less=True)
        m.d.comb += read.addr.eq(self.number)
        m.d.sync += frontier.eq(read.data)

        pipe = [self.i.valid], [self.i.payload], [frontier]

        def at(cycle):
            """Whether there is a turn, the turn, and its frontier, so many cycles behind ``i``."""
            while len(pipe[0]) <= cycle:
                for steps, name in zip(pipe, ("valid", "turn", "frontier"), strict=True):
                    steps.append(delayed(m, steps[-1], 1, name=name, reset=name == "valid"))
            return [steps[cycle] for steps in pipe]

        # How far it is ahead of the first missing packet, and from the start of that one's message.
        ahead = Signal(PSN_BITS)
        m.d.sync += ahead.eq(self.i.payload.number - frontier.missing)
        _, turn, then = at(1)
        behind, far, reach = Signal(), Signal(), Signal(REACH_BITS)
        m.d.sync += [
            behind.eq(ahead[-1]),
            far.eq(~ahead[-1] & (ahead > turn.paths.last)),
            reach.eq(then.packet + ahead),
        ]
        valid, turn, then = at(self._REACH)
        m.d.comb += self._divides(place, valid, turn, then, reach)

        # Its message, its place there, and what it must be to belong there.
        _, turn, then = at(self._PLACED)
        spot = place.o.payload
        first, last = ~spot.packet.any(), spot.packet == turn.paths.packets - 1
        message, belongs = Signal(PSN_BITS), Signal()
        home, within, offset = Signal(BYTES_BITS), Signal(BYTES_BITS), Signal(BYTES_BITS)
        m.d.sync += [
            message.eq(then.message + spot.count),
            belongs.eq((turn.kind.starts == first) & (turn.kind.ends == last)
                       & (turn.length == Mux(last, turn.paths.tail_bytes,
                                             1 << LEAST << turn.paths.mtu))),
            home.eq(spot.home),
            within.eq(spot.packet << LEAST << turn.paths.mtu),
            offset.eq(home + within),
        ]

        # The mark.
        m.d.comb += marks.number.eq(turn.flow)
        valid, turn, then = at(self._MARK)
        bits = ceil_log2(self._window)
        slot, phase = turn.number[:bits], turn.number[bits]
        beyond, early = (delayed(m, bit, self._MARK - self._REACH, name=name)
                         for bit, name in ((far, "far"), (behind, "behind")))
        sound = delayed(m, belongs, 1, name="belongs")
        is_marked = marks.word.bit_select(slot, 1) == phase
        packet, duplicate, taken = Signal(), Signal(), Signal()
        m.d.comb += [
            packet.eq(valid & ~turn.start & ~turn.refused),
            duplicate.eq(early | ~beyond & is_marked),
            taken.eq(packet & ~duplicate & ~beyond & sound),
            marks.changed.eq(marks.word),
            marks.change.eq(taken | valid & turn.start),
            run.i.valid.eq(valid),
            run.i.payload.marks.eq(marks.changed),
            run.i.payload.number.eq(then.missing),
        ]
        with m.If(turn.start):
            m.d.comb += marks.changed.eq(-1)
        with m.Elif(taken):
            m.d.comb += marks.changed.bit_select(slot, 1).eq(phase)

        # What becomes of it.
        fate, room = Signal(Fate), Signal(BYTES_BITS)
        counts, answers = Signal(), Signal()
        m.d.sync += [
            room.eq(turn.bytes - offset),
            counts.eq(taken),
            answers.eq(packet & turn.kind.reliable & ~turn.kind.response),
            fate.eq(turn.reason),
        ]
        with m.If(packet):
            m.d.sync += fate.eq(Mux(duplicate, Fate.DUPLICATE, Mux(
                beyond, Fate.OUT_OF_WINDOW, Mux(sound, Fate.PLACED, Fate.SEQUENCE))))
        _, turn, _ = at(self._MARK + 1)
        strays = counts & turn.kind.reth & turn.length.any() & ~(
            turn.reachable & (turn.write_room == room))
        decided = Signal(Decided)
        news = decided.news
        m.d.comb += [
            decided.write.eq(counts & ~strays & turn.length.any()),
            decided.lost.eq(strays),
            decided.room.eq(room),
            decided.length.eq(turn.length),
            news.restart.eq(turn.start),
            news.flow.eq(turn.flow),
            news.fate.eq(Mux(strays, Fate.BOUNDS, fate)),
            news.multipath.eq(1),
            news.begins.eq(counts & turn.kind.starts),
            news.completes.eq(counts & turn.kind.ends),
            news.message.eq(delayed(m, message, 2, name="message")),
            news.bytes.eq(turn.paths.message_bytes),
            news.opcode.eq(turn.opcode),
            news.immediate.eq(turn.immediate),
            news.cycle.eq(turn.cycle),
            news.answerable.eq(answers),
            news.answer.eq(Mux(fate == Fate.DUPLICATE, AnswerKind.AGAIN, Mux(
                counts & turn.ack_request, AnswerKind.ACK, AnswerKind.NONE))),
        ]

        # How far all this has brought the flow.
        _, _, then = at(self._RUN)
        onward = Signal(REACH_BITS)
        m.d.sync += onward.eq(then.packet + run.o.payload)
        valid, turn, then = at(self._RUN + 1)
        m.d.comb += self._divides(found, valid, turn, then, onward)
        valid, turn, then = at(self._FOUND)
        new, report, length = Signal(_Frontier), self.reports.payload, delayed(
            m, run.o.payload, self._FOUND - self._RUN, name="length")
        with m.If(~turn.start):
            m.d.comb += [
                new.missing.eq(then.missing + length),
                new.packet.eq(found.o.payload.packet),
                new.message.eq(then.message + found.o.payload.count),
                new.home.eq(found.o.payload.home),
            ]
        # What is beyond the packets in a row.
        past_some, bitmap = Signal(self._window), Signal(self._window)
        few = ceil_log2(self._window) // 2
        m.d.sync += [
            past_some.eq(run.present >> (run.o.payload >> few << few)),
            bitmap.eq(past_some >> delayed(m, run.o.payload[:few], 1, name="few")),
        ]

        out = Signal(Decided, reset_less=True)
        told = delayed(m, decided, self._FOUND - self._MARK - 1, name="decided")
        m.d.comb += [
            write.addr.eq(turn.flow),
            write.data.eq(new),
            write.en.eq(valid),
        ]
        m.d.sync += [
            self.o.valid.eq(valid),
            out.eq(told),
            report.flow.eq(turn.flow),
            report.psn.eq(turn.psn - turn.number + new.missing - 1),
            report.msn.eq(new.message),
            report.bitmap.eq(delayed(m, bitmap, self._FOUND - self._RUN - 2, name="bitmap")),
        ]
        m.d.comb += [
            self.reports.valid.eq(self.o.valid),
            self.o.payload.eq(out),
            self.o.payload.news.upto.eq(report.msn),
            self.o.payload.news.msn.eq(report.msn),
            self.o.payload.news.psn.eq(report.psn),
        ]
        return m

    @staticmethod
    def _divides(place, valid, turn, frontier, reach):
        given = place.i.payload
        return [
            place.i.valid.eq(valid),
            given.reach.eq(reach),
            given.home.eq(frontier.home),
            given.stride.eq(turn.stride),
            given.paths.eq(turn.paths),
        ]
