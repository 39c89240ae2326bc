# SPDX-License-Identifier: Apache-2.0
"""Completer: what is in memory becomes completions and answers, each once, in order."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .path_completer import PathCompleter
from .records import FLOW_BITS, PSN_BITS, AnswerKind, Completion, Retired

__all__ = ["Answer", "Completer"]


class Answer(data.Struct):
    """What the sender of ``flow`` is to be told; ``kind`` is an :class:`AnswerKind`.

    The latest report of a flow of ``multipath`` goes with it. With ``restart`` it is nothing, and
    what the sender was to be told before is not told.
    """

    restart: 1
    multipath: 1
    flow: FLOW_BITS
    kind: 3
    psn: PSN_BITS
    msn: PSN_BITS


class Completer(wiring.Component):
    """Makes a completion of each message that has ended.

    A write that memory refused fails the message that it is a part of, and in order is answered so.
    What needs no completion takes a cycle, as does what needs one; two completions take two. Those
    of multipath are a :class:`PathCompleter`'s.

    Parameters
    ----------
    flows, paths, window : int
        See :class:`flytrim.reassembly.context_unit.ContextUnit`.

    Members
    -------
    i : stream of :class:`Retired`
    completions : stream of :class:`Completion`, but for their ``phase``
    answers : stream of :class:`Answer`
    """

    def __init__(self, flows, *, paths=0, window=64):
        self._flows, self._paths, self._window = flows, paths, window
        super().__init__({
            "i": In(stream.Signature(Retired)),
            "completions": Out(stream.Signature(Completion)),
            "answers": Out(stream.Signature(Answer)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.failures = failures = memory.Memory(
            shape=1, depth=max(2, self._flows), init=[])
        write, read = failures.write_port(), failures.read_port(domain="comb")
        retired, news = self.i.payload, self.i.payload.news

        # Two messages end one after the other: what was abandoned, then what completes.
        second = Signal()
        free = (~self.completions.valid | self.completions.ready) & (
            ~self.answers.valid | self.answers.ready)
        told, goes = self._tell_paths(m, free)
        step = self.i.valid & free & (goes | ~news.multipath)
        ends = news.abandons | news.completes & ~news.multipath
        over = step & (second | ~(news.abandons & news.completes))
        abandoned = news.abandons & ~second
        refused = retired.failed & ~news.multipath
        # What failed of a message that was abandoned says nothing of the one behind it.
        failed = retired.failed | read.data & ~news.abandons
        m.d.comb += [
            self.i.ready.eq(over),
            read.addr.eq(news.flow),
            write.addr.eq(news.flow),
            write.data.eq(failed & ~news.completes & ~news.restart),
            write.en.eq(over),
        ]
        completion, answer = (Signal.like(port.payload, reset_less=True)
                              for port in (self.completions, self.answers))
        m.d.comb += [self.completions.payload.eq(completion), self.answers.payload.eq(answer)]
        for port in (self.completions, self.answers):
            with m.If(port.ready):
                m.d.sync += port.valid.eq(0)
        with m.If(free):
            m.d.sync += [
                second.eq(step & ~over),
                self.completions.valid.eq(step & ends),
                completion.eq(0),
                completion.flow.eq(news.flow),
                completion.message.eq((news.message + second)[:PSN_BITS]),
                completion.abandoned.eq(abandoned),
                completion.last.eq(news.cycle),
                self.answers.valid.eq(over & (news.restart | news.answerable & (
                    news.answer.any() | refused))),
                answer.restart.eq(news.restart),
                answer.multipath.eq(news.multipath),
                answer.flow.eq(news.flow),
                answer.kind.eq(Mux(refused, AnswerKind.NAK_OPERATION, news.answer)),
                answer.psn.eq(news.psn),
                answer.msn.eq(news.msn),
            ]
            with m.If(~abandoned):
                m.d.sync += [
                    completion.opcode.eq(news.opcode),
                    completion.failed.eq(failed),
                    completion.bytes.eq(news.bytes),
                    completion.immediate.eq(news.immediate),
                    completion.first.eq(news.began),
                ]
            with m.If(told.valid):
                m.d.sync += [self.completions.valid.eq(1), completion.eq(told.payload)]
        return m

    def _tell_paths(self, m, free):
        """The stream of completions of multipath, and whether the packet may be taken, if it is of
        such a flow.
        """
        told = stream.Signature(Completion).create(path=("told",))
        if not self._paths:
            return told, 1
        m.submodules.path_completer = paths = PathCompleter(self._paths, self._window)
        connect(m, paths.o, flipped(told))
        m.d.comb += [
            paths.i.valid.eq(self.i.valid & self.i.payload.news.multipath & free),
            paths.i.payload.eq(self.i.payload),
            told.ready.eq(free),
        ]
        return told, paths.i.ready
