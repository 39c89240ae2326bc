# SPDX-License-Identifier: Apache-2.0
"""Responder: acknowledgements of RC as frames."""

from amaranth import Array, Cat, Const, Module, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .. import headers as h
from ..encapsulator import Encapsulator
from ..group import Template
from ..packet import Packet
from ..stream import SteadyQueue
from .answers import Answers
from .completer import Answer
from .records import FLOW_BITS, SYNDROMES, AnswerKind
from .turn import Report

__all__ = ["Responder"]

ACKNOWLEDGE = next(code for code, opcode in h.OPCODES.items() if opcode.name == "RC_ACKNOWLEDGE")
#: Beats on their way from the encapsulator when ``room`` is looked at.
IN_FLIGHT = 8


class Responder(wiring.Component):
    """Sends each answer as ACKNOWLEDGE with its AETH, under the headers of its flow.

    Source: InfiniBand Architecture volume 1, 9.7.5. Answers of a flow are merged while they wait;
    the frames leave without a gap.

    To a flow of multipath the latest report is sent, which says all that an older one did. The PSN
    is that of the last packet before the first missing one, and the payload a bit for each packet
    from that one on, the first in bit 0 of the first byte: it is set if the packet has come.

    Parameters
    ----------
    width, flows : int
    paths, window : int
        See :class:`flytrim.reassembly.context_unit.ContextUnit`.

    Members
    -------
    i : stream of :class:`Answer`, always ready
    reports : lane of :class:`Report`, each before the answer that asks for it
    written, flow, headers : strobe: ``headers`` become those of ``flow``; their opcode, ``psn`` and
        ``va`` do not count
    o : stream of frames
    """

    def __init__(self, width, flows, *, paths=0, window=64):
        self._width, self._flows, self._paths, self._window = width, flows, paths, window
        super().__init__({
            "i": In(stream.Signature(Answer)),
            "reports": In(stream.Signature(Report(window), always_ready=True)),
            "written": In(1),
            "flow": In(FLOW_BITS),
            "headers": In(Template),
            "o": Out(stream.Signature(Packet(width))),
        })

    def elaborate(self, platform):
        m = Module()
        longest = -(-h.MAX_HEADER_BYTES // (self._width // 8))
        margin = longest + IN_FLIGHT
        m.submodules.answers = answers = Answers(self._flows)
        m.submodules.templates = templates = memory.Memory(
            shape=Template, depth=max(2, self._flows), init=[])
        m.submodules.encapsulator = encapsulator = Encapsulator(self._width)
        m.submodules.frames = frames = SteadyQueue(
            Packet(self._width), depth=1 << (2 * margin - 1).bit_length(), margin=margin)
        write, read = templates.write_port(), templates.read_port()
        connect(m, flipped(self.i), answers.i)
        connect(m, encapsulator.o, frames.i)
        connect(m, frames.o, flipped(self.o))

        # The answer waits beside its template and report, which have been read for it.
        given, taken = Signal(), Signal()
        report, sending = self._report(m, answers.o, encapsulator.i, taken)
        answer, header = Signal(Answer, reset_less=True), encapsulator.i_header.payload
        syndrome = Array(Const(SYNDROMES.get(kind, 0), 8) for kind in range(1 + max(AnswerKind)))
        m.d.comb += [
            write.addr.eq(self.flow),
            write.data.eq(self.headers),
            write.en.eq(self.written),
            taken.eq((~given | encapsulator.i_header.ready) & ~sending),
            answers.o.ready.eq(taken),
            read.addr.eq(answers.o.payload.flow),
            read.en.eq(taken),
            encapsulator.room.eq(frames.room),
            encapsulator.i_header.valid.eq(given),
            header.header.eq(read.data),
            header.header.opcode.eq(ACKNOWLEDGE),
            header.psn.eq(answer.psn),
            header.immediate.eq(Cat(answer.msn, syndrome[answer.kind])),
        ]
        with m.If(answer.multipath):
            m.d.comb += [
                header.psn.eq(report.psn),
                header.immediate.eq(Cat(report.msn, syndrome[answer.kind])),
                header.length.eq(self._window // 8),
            ]
        with m.If(taken):
            m.d.sync += [given.eq(answers.o.valid), answer.eq(answers.o.payload)]
        with m.Elif(encapsulator.i_header.ready):
            m.d.sync += given.eq(0)
        return m

    def _report(self, m, answers, beats, taken):
        """The report for the answer that is ``taken``, and whether some of it is still to be sent
        as ``beats``.
        """
        report = Report(self._window)
        if not self._paths:
            return report.const({}), 0
        m.submodules.reports = reports = memory.Memory(
            shape=report, depth=max(2, self._paths), init=[])
        write, read = reports.write_port(), reports.read_port()
        lanes = self._width // 8
        count = -(-self._window // self._width)
        sends, at = Signal(), Signal(range(max(2, count)))
        last = at == count - 1
        bits = Cat(read.data.bitmap, Const(0, count * self._width - self._window))
        m.d.comb += [
            write.addr.eq(self.reports.payload.flow),
            write.data.eq(self.reports.payload),
            write.en.eq(self.reports.valid),
            read.addr.eq(answers.payload.flow),
            read.en.eq(taken),
            beats.valid.eq(sends),
            beats.payload.data.eq(bits.word_select(at, self._width)),
            beats.payload.count.eq(min(lanes, self._window // 8)),
            beats.payload.last.eq(last),
        ]
        with m.If(taken):
            m.d.sync += [sends.eq(answers.valid & answers.payload.multipath), at.eq(0)]
        with m.Elif(beats.ready):
            m.d.sync += [sends.eq(sends & ~last), at.eq(at + 1)]
        return read.data, sends & ~(last & beats.ready)
