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

__all__ = ["Responder"]

ACKNOWLEDGE = next(code for code, opcode in h.OPCODES.items() if opcode.name == "RC_ACKNOWLEDGE")
#: Beats on their way from the encapsulator when ``room`` is looked at.
IN_FLIGHT = 8


class Responder(wiring.Component):
    """Sends each answer as ACKNOWLEDGE with its AETH, under the headers of its flow.

    Source: InfiniBand Architecture volume 1, 9.7.5. Answers of a flow are merged while they wait;
    the frames leave without a gap.

    Parameters
    ----------
    width, flows : int

    Members
    -------
    i : stream of :class:`Answer`, always ready
    written, flow, headers : strobe: ``headers`` become those of ``flow``; their opcode, ``psn`` and
        ``va`` do not count
    o : stream of frames
    """

    def __init__(self, width, flows):
        self._width, self._flows = width, flows
        super().__init__({
            "i": In(stream.Signature(Answer)),
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

        # The answer waits beside its template, which has been read for it.
        given, taken = Signal(), Signal()
        answer, header = Signal(Answer, reset_less=True), encapsulator.i_header.payload
        syndrome = Array(Const(SYNDROMES.get(kind, 0), 8) for kind in range(1 + max(AnswerKind)))
        m.d.comb += [
            write.addr.eq(self.flow),
            write.data.eq(self.headers),
            write.en.eq(self.written),
            taken.eq(~given | encapsulator.i_header.ready),
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
        with m.If(taken):
            m.d.sync += [given.eq(answers.o.valid), answer.eq(answers.o.payload)]
        return m
