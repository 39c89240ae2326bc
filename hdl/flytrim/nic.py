# SPDX-License-Identifier: Apache-2.0
"""TrimNic: the endpoint. Frames in; payloads with their records, and everything else, out."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect

from .admission import Admission, meta_layout, meta_width
from .axis import PacketSink, PacketSource, RecordSource, axil_members, axis_members
from .classifier import Classifier
from .control import Control
from .flow_cam import FlowCam
from .flow_hash import FlowHash
from .icrc import IcrcChecker
from .logic import delayed
from .packet import Packet
from .parser import Parser
from .stream import Queue
from .stripper import Stripper
from .telemetry import CYCLE_BITS, FlowCounters, Telemetry
from .truncator import Truncator
from .verdict import Reason

__all__ = ["ADDRESS_WIDTH", "TrimNic"]

#: Bits of a register's byte address.
ADDRESS_WIDTH = 12
#: Beats and records that can be on their way when ``room`` is looked at.
IN_FLIGHT = 4


class TrimNic(wiring.Component):
    """Recognises registered flows, strips their headers and tails, passes all else by.

    Nothing stalls between the receive port and the queues: every block has a fixed latency, so
    that the parts of a frame meet again by construction. While the trim queue is empty and its sink
    ready, the first byte of a payload leaves 7 cycles after the beat that completes the headers was
    accepted, or 7 after the next beat where it shares its beat of output with that; a payload of
    one beat leaves 7 cycles after the frame's last beat. A hashed flow table makes it 10.

    Parameters
    ----------
    config : NicConfig

    Members
    -------
    s_axis_rx_* : frames from the MAC, AXI4-Stream; ``tready`` is always 1
    m_axis_bypass_* : frames that were not trimmed, bit-exact
    m_axis_trim_* : payloads
    m_axis_meta_* : a metadata record a payload
    m_axis_verdict_* : a verdict record a frame; a strobe, there is no ``tready``
    s_axil_* : registers, AXI4-Lite
    irq : high while a bit of ``interrupt_status`` is set that ``interrupt_enable`` lets out
    """

    def __init__(self, config):
        self._config = config
        user = 1 + config.side_width
        super().__init__({
            **axis_members("s_axis_rx", In, config.width, user=user),
            **axis_members("m_axis_bypass", Out, config.width, user=user),
            **axis_members("m_axis_trim", Out, config.width, user=1),
            **axis_members("m_axis_meta", Out, meta_width(config), keep=False),
            **axis_members("m_axis_verdict", Out, 32, keep=False, ready=False),
            **axil_members("s_axil", ADDRESS_WIDTH),
            "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        frame = Packet(config.width, config.side_width)
        # A payload takes the time along at which its frame came, where that is measured.
        stamp = {"stamp": CYCLE_BITS} if config.counters else {}
        payload = data.StructLayout({"packet": Packet(config.width), **stamp})
        meta = meta_layout(config)
        frame_margin = config.max_beats + IN_FLIGHT

        m.submodules.receive = receive = PacketSink(config)
        m.submodules.parser = parser = Parser(config)
        flow_table = (FlowHash if config.hashed else FlowCam)(config.flows)
        m.submodules.flow_table = flow_table
        m.submodules.classifier = classifier = Classifier(config, flow_table.latency)
        m.submodules.stripper = stripper = Stripper(config)
        m.submodules.truncator = truncator = Truncator(config)
        m.submodules.icrc = icrc = IcrcChecker(config)
        m.submodules.admission = admission = Admission(config)
        m.submodules.bypass_queue = bypass_queue = Queue(
            frame, depth=config.queue_beats, margin=frame_margin)
        m.submodules.trim_queue = trim_queue = Queue(
            payload, depth=config.queue_beats, margin=frame_margin)
        m.submodules.meta_queue = meta_queue = Queue(
            meta, depth=config.queue_records, margin=IN_FLIGHT)
        m.submodules.bypass = bypass = PacketSource(config.width, side_width=config.side_width)
        m.submodules.trim = trim = PacketSource(config.width)
        m.submodules.meta = records = RecordSource(meta, meta_width(config))
        m.submodules.control = control = Control(config, ADDRESS_WIDTH)

        self._wire(m, "s_axis_rx", receive)
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
            admission.bypass_room.eq(bypass_queue.room),
            admission.trim_room.eq(trim_queue.room),
            admission.meta_room.eq(meta_queue.room),
        ]
        connect(m, admission.bypass, bypass_queue.i)
        m.d.comb += [
            trim_queue.i.valid.eq(admission.trim.valid),
            trim_queue.i.payload.packet.eq(admission.trim.payload),
        ]
        connect(m, admission.meta, meta_queue.i)
        m.d.comb += [
            bypass_queue.commit.eq(admission.commit), bypass_queue.rewind.eq(admission.rewind),
            trim_queue.commit.eq(1), meta_queue.commit.eq(1),
        ]
        connect(m, bypass_queue.o, bypass.i)
        m.d.comb += [
            trim.i.valid.eq(trim_queue.o.valid),
            trim.i.payload.eq(trim_queue.o.payload.packet),
            trim_queue.o.ready.eq(trim.i.ready),
        ]
        connect(m, meta_queue.o, records.i)
        self._wire(m, "m_axis_bypass", bypass)
        self._wire(m, "m_axis_trim", trim)
        self._wire(m, "m_axis_meta", records)
        m.d.comb += [
            self.m_axis_verdict_tvalid.eq(admission.verdicts.valid),
            self.m_axis_verdict_tdata.eq(admission.verdicts.payload),
        ]

        connect(m, control.flows, flow_table.commands)
        reason = admission.outcomes.payload.reason
        overflow = reason == Reason.OVERFLOW
        m.d.comb += [
            control.flow_status.eq(flow_table.status),
            control.flow_read.eq(flow_table.reads),
            control.flow_found.eq(flow_table.found),
            control.overflow.eq(admission.outcomes.valid & overflow),
            control.damaged.eq(admission.outcomes.valid & (reason >= Reason.OVERSIZE) & ~overflow),
            self.irq.eq(control.irq),
        ]
        self._wire(m, "s_axil", control)
        if config.counters:
            queues = {"trim": trim_queue, "bypass": bypass_queue, "meta": meta_queue}
            self._elaborate_counters(m, parser, flow_table, admission, queues, trim, control)
        return m

    def _elaborate_counters(self, m, parser, flow_table, admission, queues, trim, control):
        m.submodules.flow_counters = flows = FlowCounters(self._config.flows)
        m.submodules.telemetry = telemetry = Telemetry(
            self._config, Parser.latency + flow_table.latency + 1)
        beat = admission.i.payload.beat
        # The first beat of a payload is the one behind a last one.
        starts = Signal(init=1)
        with m.If(trim.i.valid & trim.i.ready):
            m.d.sync += starts.eq(trim.i.payload.last)
        m.d.sync += [
            telemetry.received.valid.eq(parser.o.valid & parser.o.payload.beat.packet.last),
            telemetry.received.payload.eq(parser.o.payload.bytes),
        ]
        m.d.comb += [
            telemetry.outcomes.valid.eq(admission.outcomes.valid),
            telemetry.outcomes.payload.eq(admission.outcomes.payload),
            telemetry.first.eq(admission.i.valid & beat.first),
            queues["trim"].i.payload.stamp.eq(telemetry.stamp),
            telemetry.leaves.valid.eq(trim.i.valid & trim.i.ready & starts),
            telemetry.leaves.payload.eq(queues["trim"].o.payload.stamp),
            *(getattr(telemetry, f"level_{name}").eq(queue.level)
              for name, queue in queues.items()),
            flows.outcomes.valid.eq(admission.outcomes.valid),
            flows.outcomes.payload.eq(admission.outcomes.payload),
            flows.number.eq(flow_table.number),
            flows.restarts.eq(flow_table.restarts),
            control.flow_counters__packets__count.eq(flows.packets),
            control.flow_counters__messages__count.eq(flows.messages),
        ]
        for name, member in control.signature.members.items():
            if name.startswith("counters__"):
                inner, outer = getattr(telemetry, name.removeprefix("counters__")), getattr(
                    control, name)
                m.d.comb += inner.eq(outer) if member.flow is Out else outer.eq(inner)

    def _wire(self, m, prefix, block):
        """Connects this device's ports named ``prefix`` to the same ports of ``block``."""
        for name, member in self.signature.members.items():
            if not name.startswith(f"{prefix}_"):
                continue
            inner = getattr(block, name.replace(prefix, block.prefix, 1))
            outer = getattr(self, name)
            if member.flow is In:
                m.d.comb += inner.eq(outer)
            else:
                m.d.comb += outer.eq(inner)
