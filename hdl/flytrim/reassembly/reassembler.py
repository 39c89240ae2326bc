# SPDX-License-Identifier: Apache-2.0
"""Reassembler: payloads and their records in; memory, completions and answers out."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axis import axi_members, wire
from ..context import MetaRecord
from ..packet import Packet
from ..stream import Queue
from .completer import Answer, Completer
from .context_unit import ContextUnit
from .memory_port import MemoryPort
from .records import Command, Completion, Fate, Job
from .ring import INDEX_BITS, CompletionRing
from .turn import Report
from .writer import MOST_OUTSTANDING, Writer

__all__ = ["Reassembler"]

#: Jobs that wait for the memory.
JOBS = 64
#: Completions that wait to be read.
COMPLETIONS = 32
#: Sources of writes by ID.
PAYLOADS, RING = range(2)


class Reassembler(wiring.Component):
    """Writes the payloads of good packets to their places in the buffers of their flows.

    A payload is held until its record says that it is good; while it goes to memory, the next one
    may come. A packet, a beat and a burst a cycle.

    Parameters
    ----------
    config : NicConfig
    paths, window : int
        See :class:`ContextUnit`.

    Members
    -------
    commands : stream of :class:`Command`
    payload : stream of payloads
    meta : stream of :class:`flytrim.context.MetaRecord`, one a packet, no later than 2 longest
        packets behind its payload
    outstanding : bursts less one that may be on their way
    completions : stream of :class:`Completion`, while the ring is not enabled
    ring_* : see :class:`CompletionRing`
    answers, reports : stream of :class:`Answer` and lane of :class:`Report`, see
        :class:`flytrim.reassembly.responder.Responder`
    fates : strobe of what became of a packet, by :class:`Fate`, as it is in memory
    gap : strobe: a gap was found
    axi_* : AXI4 master that writes
    """

    def __init__(self, config, *, paths=0, window=64):
        self._config, self._paths, self._window = config, paths, window
        super().__init__({
            "commands": In(stream.Signature(Command)),
            "payload": In(stream.Signature(Packet(config.width))),
            "meta": In(stream.Signature(MetaRecord)),
            "outstanding": In(range(MOST_OUTSTANDING)),
            "completions": Out(stream.Signature(Completion)),
            "answers": Out(stream.Signature(Answer)),
            "reports": Out(stream.Signature(Report(window), always_ready=True)),
            "fates": Out(len(Fate)),
            "gap": Out(1),
            "ring_enable": In(1),
            "ring_base": In(64),
            "ring_last": In(INDEX_BITS),
            "ring_consumer": In(INDEX_BITS),
            "ring_producer": Out(INDEX_BITS),
            "ring_irq": Out(1),
            "ring_refused": Out(1),
            **axi_members("axi", config.width, ids=1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.buffer = buffer = Queue(
            Packet(config.width), depth=1 << (2 * config.max_beats - 1).bit_length(), margin=2)
        m.submodules.context_unit = unit = ContextUnit(
            config.flows, paths=self._paths, window=self._window)
        m.submodules.jobs = jobs = Queue(Job, depth=JOBS, margin=unit.latency + 2)
        m.submodules.writer = writer = Writer(config.width)
        m.submodules.memory_port = port = MemoryPort(config.width, 2)
        m.submodules.completer = completer = Completer(
            config.flows, paths=self._paths, window=self._window)
        m.submodules.completion_queue = completions = Queue(
            Completion, depth=COMPLETIONS, margin=2)
        m.submodules.ring = ring = CompletionRing(config.width)

        connect(m, flipped(self.commands), unit.commands)
        connect(m, flipped(self.meta), unit.i)
        connect(m, unit.o, jobs.i)
        connect(m, jobs.o, writer.i)
        connect(m, buffer.o, writer.beats)
        connect(m, writer.o, completer.i)
        connect(m, completer.answers, flipped(self.answers))
        connect(m, unit.reports, flipped(self.reports))
        for source, number in ((writer, PAYLOADS), (ring, RING)):
            connect(m, source.bursts, port.bursts[number])
            connect(m, source.words, port.words[number])
            connect(m, port.answers[number], source.answers)
        wire(m, self, "axi", port)
        retired = writer.o
        m.d.comb += [
            buffer.i.valid.eq(self.payload.valid & buffer.room),
            buffer.i.payload.eq(self.payload.payload),
            buffer.commit.eq(1),
            self.payload.ready.eq(buffer.room),
            unit.room.eq(jobs.room),
            jobs.commit.eq(1),
            writer.outstanding.eq(self.outstanding),
            completions.i.valid.eq(completer.completions.valid & completions.room),
            completions.i.payload.eq(completer.completions.payload),
            completions.commit.eq(1),
            completer.completions.ready.eq(completions.room),
            ring.i.valid.eq(completions.o.valid),
            ring.i.payload.eq(completions.o.payload),
            self.completions.valid.eq(completions.o.valid & ~self.ring_enable),
            self.completions.payload.eq(completions.o.payload),
            completions.o.ready.eq(ring.i.ready | self.completions.valid & self.completions.ready),
            *(getattr(ring, name).eq(getattr(self, f"ring_{name}"))
              for name in ("enable", "base", "last", "consumer")),
            *(getattr(self, f"ring_{name}").eq(getattr(ring, name))
              for name in ("producer", "irq", "refused")),
        ]
        told = retired.valid & retired.ready & ~retired.payload.news.restart
        m.d.sync += self.gap.eq(told & retired.payload.news.gap)
        for fate in Fate:
            m.d.sync += self.fates[fate].eq(told & (retired.payload.news.fate == fate))
        return m
