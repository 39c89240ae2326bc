# SPDX-License-Identifier: Apache-2.0
"""Trimmer: one receive port, from the MAC to what is written into the queues behind it."""

from amaranth import Module, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .admission import Admission, meta_layout
from .axis import PacketSink, axis_members
from .classifier import Classifier
from .context import LENGTH_BITS, FlowRecord, Outcome, VerdictRecord
from .flow_cam import FlowCam, FlowCommand
from .flow_hash import FlowHash
from .icrc import IcrcChecker
from .logic import delayed
from .packet import Packet
from .parser import Parser
from .stripper import Stripper
from .truncator import Truncator

__all__ = ["Trimmer"]


class Trimmer(wiring.Component):
    """Recognises registered flows, strips their headers and tails; where to, others decide.

    Nothing stalls here: every block has a fixed latency, so that the parts of a frame meet again by
    construction. What leaves is for queues that have room, or is lost with the whole of its frame.

    Parameters
    ----------
    config : NicConfig

    Members
    -------
    axis_* : frames from the MAC, AXI4-Stream; ``tready`` is always 1
    commands, status, number, restarts, reads, found : of the flow table
    bypass_room, trim_room, meta_room : of the queues, for a longest frame and what is on its way
    bypass, commit, rewind : to the queue of what is not trimmed; a frame counts from ``commit`` on
    trim : lane of payloads
    meta : lane of records, one beside the last beat of each payload
    verdicts : lane of :class:`VerdictRecord`, one a frame
    outcomes : lane of :class:`Outcome`, beside ``verdicts``
    received : lane of bytes, a frame's as it has come in
    starts : strobe: a frame's first beat, ``ahead`` cycles after it was accepted

    Attributes
    ----------
    ahead : int
        Cycles from the receive port to ``bypass`` and ``trim``.
    """

    prefix = "axis"

    def __init__(self, config):
        self._config = config
        self._table = FlowHash if config.hashed else FlowCam
        self.ahead = Parser.latency + self._table.latency + 1
        frame = Packet(config.width, config.side_width)
        super().__init__({
            **axis_members("axis", In, config.width, user=1 + config.side_width),
            "commands": In(stream.Signature(FlowCommand)),
            "status": Out(unsigned(4)),
            "number": Out(unsigned(16)),
            "restarts": Out(1),
            "reads": Out(1),
            "found": Out(FlowRecord),
            "bypass_room": In(1),
            "trim_room": In(1),
            "meta_room": In(1),
            "bypass": Out(stream.Signature(frame, always_ready=True)),
            "commit": Out(1),
            "rewind": Out(1),
            "trim": Out(stream.Signature(Packet(config.width), always_ready=True)),
            "meta": Out(stream.Signature(meta_layout(config), always_ready=True)),
            "verdicts": Out(stream.Signature(VerdictRecord, always_ready=True)),
            "outcomes": Out(stream.Signature(Outcome, always_ready=True)),
            "received": Out(stream.Signature(LENGTH_BITS, always_ready=True)),
            "starts": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.receive = receive = PacketSink(config)
        m.submodules.parser = parser = Parser(config)
        m.submodules.flow_table = flow_table = self._table(config.flows)
        m.submodules.classifier = classifier = Classifier(config, flow_table.latency)
        m.submodules.stripper = stripper = Stripper(config)
        m.submodules.truncator = truncator = Truncator(config)
        m.submodules.icrc = icrc = IcrcChecker(config)
        m.submodules.admission = admission = Admission(config)

        for name, member in self.signature.members.items():
            if name.startswith(self.prefix):
                inner, outer = getattr(receive, name), getattr(self, name)
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        connect(m, receive.o, parser.i)
        # What the classifier takes longer than three cycles, for a larger table, the others wait.
        wait = flow_table.latency - FlowCam.latency
        valid = delayed(m, parser.o.valid, wait, name="valid", reset=True)
        payload = delayed(m, parser.o.payload, wait, name="payload")
        soon = delayed(m, parser.o_soon, wait, name="soon", reset=True)
        m.d.comb += [
            classifier.i.valid.eq(parser.o.valid), classifier.i.payload.eq(parser.o.payload),
            stripper.i.valid.eq(valid), stripper.i.payload.eq(payload), stripper.i_soon.eq(soon),
            icrc.i.valid.eq(valid), icrc.i.payload.eq(payload),
        ]
        connect(m, classifier.keys, flow_table.i)
        connect(m, flow_table.o, classifier.lookups)
        if not config.hashed:
            m.d.comb += flow_table.key_again.eq(parser.o.payload.key_again)
        m.d.comb += truncator.i_soon.eq(stripper.o_soon)
        connect(m, stripper.o, truncator.i)
        m.d.comb += [
            truncator.length.eq(classifier.length), truncator.limit.eq(classifier.limit),
            truncator.limited.eq(classifier.limited),
            truncator.damaged.eq(admission.damaged),
        ]
        connect(m, classifier.o, admission.i)
        connect(m, truncator.o, admission.payload)
        m.d.comb += [
            admission.decision.eq(classifier.decision),
            admission.ended.eq(truncator.ended),
            admission.sent.eq(truncator.sent),
            admission.icrc_good.eq(icrc.good),
            *(getattr(admission, room).eq(getattr(self, room))
              for room in ("bypass_room", "trim_room", "meta_room")),
            self.commit.eq(admission.commit),
            self.rewind.eq(admission.rewind),
            self.received.valid.eq(parser.o.valid & parser.o.payload.beat.packet.last),
            self.received.payload.eq(parser.o.payload.bytes),
            self.starts.eq(classifier.o.valid & classifier.o.payload.beat.first),
        ]
        for name in ("bypass", "trim", "meta", "verdicts", "outcomes"):
            connect(m, getattr(admission, name), flipped(getattr(self, name)))

        connect(m, flipped(self.commands), flow_table.commands)
        m.d.comb += [getattr(self, name).eq(getattr(flow_table, name))
                     for name in ("status", "number", "restarts", "reads", "found")]
        return m
