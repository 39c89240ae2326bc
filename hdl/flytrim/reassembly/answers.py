# SPDX-License-Identifier: Apache-2.0
"""Answers: what each sender is told, merged while it waits to be sent."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Fifo, Queue
from .completer import Answer
from .contexts import Contexts
from .records import FLOW_BITS, PSN_BITS, AnswerKind

__all__ = ["Answers"]

#: Answers between the table and the sink.
AHEAD = 4


class _Pending(data.Struct):
    """What a flow's sender is to be told; ``listed`` while the flow waits for its turn."""

    listed: 1
    multipath: 1
    kind: 3
    psn: PSN_BITS
    msn: PSN_BITS


class Answers(wiring.Component):
    """Keeps for each flow the one answer that says most, and lets the flows have turns.

    An acknowledgement stands for all before it. A NAK waits until something has come in its place:
    that a duplicate is acknowledged again does not take it back. That an operation failed is told
    whatever comes behind it.

    An answer a cycle comes in, always; answers leave in the cycles between.

    Parameters
    ----------
    flows : int

    Members
    -------
    i : stream of :class:`Answer`, always ready
    o : stream of :class:`Answer`
    """

    def __init__(self, flows):
        self._flows = flows
        super().__init__({
            "i": In(stream.Signature(Answer)),
            "o": Out(stream.Signature(Answer)),
        })

    def elaborate(self, platform):
        m = Module()
        depth = 1 << max(2, (self._flows - 1).bit_length())
        m.submodules.table = table = Contexts(_Pending, self._flows)
        m.submodules.waiting = waiting = Queue(FLOW_BITS, depth=depth, margin=1)
        m.submodules.out = out = Fifo(Answer, AHEAD)

        # A turn is for what comes in, or else for the flow that has waited longest, if there is
        # room for its answer behind those on their way.
        going = Signal(range(AHEAD + 1))
        comes, tells = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(1),
            comes.eq(self.i.valid),
            tells.eq(waiting.o.valid & ~comes & (going != AHEAD)),
            waiting.o.ready.eq(tells),
            table.number.eq(waiting.o.payload),
        ]
        with m.If(comes):
            m.d.comb += table.number.eq(self.i.payload.flow)
        turns = Signal(data.ArrayLayout(data.StructLayout(
            {"comes": 1, "tells": 1, "answer": Answer}), Contexts.latency))
        m.d.sync += [
            turns[0].comes.eq(comes),
            turns[0].tells.eq(tells),
            turns[0].answer.eq(self.i.payload),
            turns[1].eq(turns[0]),
        ]
        with m.If(tells):
            m.d.sync += turns[0].answer.flow.eq(waiting.o.payload)

        turn, answer = turns[1], turns[1].answer
        pending, new = _Pending(table.word), _Pending(table.changed)
        naks = pending.kind >= AnswerKind.NAK_SEQUENCE
        keeps = ~answer.restart & ((pending.kind == AnswerKind.NAK_OPERATION)
                                   | (answer.kind == AnswerKind.AGAIN) & naks)
        m.d.comb += [
            table.change.eq(turn.comes | turn.tells),
            new.eq(pending),
            waiting.i.valid.eq(turn.comes & ~pending.listed & ~answer.restart),
            waiting.i.payload.eq(answer.flow),
            waiting.commit.eq(1),
            out.i.valid.eq(turn.tells & pending.kind.any()),
            out.i.payload.flow.eq(answer.flow),
            *(out.i.payload[name].eq(pending[name])
              for name in ("multipath", "kind", "psn", "msn")),
        ]
        with m.If(turn.tells):
            m.d.comb += [new.listed.eq(0), new.kind.eq(AnswerKind.NONE)]
        with m.Elif(~keeps):
            m.d.comb += [
                new.listed.eq(pending.listed | ~answer.restart),
                new.multipath.eq(answer.multipath),
                new.kind.eq(answer.kind),
                new.psn.eq(answer.psn),
                new.msn.eq(answer.msn),
            ]
            with m.If(answer.restart):
                m.d.comb += new.kind.eq(AnswerKind.NONE)
        m.d.sync += going.eq(going + tells - (turn.tells & ~pending.kind.any())
                             - (out.o.valid & out.o.ready))
        m.d.comb += [
            self.o.valid.eq(out.o.valid),
            self.o.payload.eq(out.o.payload),
            out.o.ready.eq(self.o.ready),
        ]
        return m
