# SPDX-License-Identifier: Apache-2.0
"""TrimNic: the endpoint. Frames in; payloads with their records, and everything else, out."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect

from .admission import meta_layout, meta_width
from .axis import PacketSource, RecordSource, axil_members, axis_members
from .control import Control
from .packet import Packet
from .stream import Queue
from .telemetry import CYCLE_BITS, FlowCounters, Telemetry
from .trimmer import Trimmer
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
        # A payload takes the time along at which its frame came, where that is measured.
        stamp = {"stamp": CYCLE_BITS} if config.counters else {}
        payload = data.StructLayout({"packet": Packet(config.width), **stamp})
        meta = meta_layout(config)
        frame_margin = config.max_beats + IN_FLIGHT

        m.submodules.trimmer = trimmer = Trimmer(config)
        m.submodules.bypass_queue = bypass_queue = Queue(
            Packet(config.width, config.side_width), depth=config.queue_beats, margin=frame_margin)
        m.submodules.trim_queue = trim_queue = Queue(
            payload, depth=config.queue_beats, margin=frame_margin)
        m.submodules.meta_queue = meta_queue = Queue(
            meta, depth=config.queue_records, margin=IN_FLIGHT)
        m.submodules.bypass = bypass = PacketSource(config.width, side_width=config.side_width)
        m.submodules.trim = trim = PacketSource(config.width)
        m.submodules.meta = records = RecordSource(meta, meta_width(config))
        m.submodules.control = control = Control(config, ADDRESS_WIDTH)

        self._wire(m, "s_axis_rx", trimmer)
        m.d.comb += [
            trimmer.bypass_room.eq(bypass_queue.room),
            trimmer.trim_room.eq(trim_queue.room),
            trimmer.meta_room.eq(meta_queue.room),
            bypass_queue.commit.eq(trimmer.commit), bypass_queue.rewind.eq(trimmer.rewind),
            trim_queue.commit.eq(1), meta_queue.commit.eq(1),
            trim_queue.i.valid.eq(trimmer.trim.valid),
            trim_queue.i.payload.packet.eq(trimmer.trim.payload),
            trim.i.valid.eq(trim_queue.o.valid),
            trim.i.payload.eq(trim_queue.o.payload.packet),
            trim_queue.o.ready.eq(trim.i.ready),
            self.m_axis_verdict_tvalid.eq(trimmer.verdicts.valid),
            self.m_axis_verdict_tdata.eq(trimmer.verdicts.payload),
        ]
        connect(m, trimmer.bypass, bypass_queue.i)
        connect(m, trimmer.meta, meta_queue.i)
        connect(m, bypass_queue.o, bypass.i)
        connect(m, meta_queue.o, records.i)
        self._wire(m, "m_axis_bypass", bypass)
        self._wire(m, "m_axis_trim", trim)
        self._wire(m, "m_axis_meta", records)

        connect(m, control.flows, trimmer.commands)
        reason = trimmer.outcomes.payload.reason
        overflow = reason == Reason.OVERFLOW
        m.d.comb += [
            control.flow_status.eq(trimmer.status),
            control.flow_read.eq(trimmer.reads),
            control.flow_found.eq(trimmer.found),
            control.overflow.eq(trimmer.outcomes.valid & overflow),
            control.damaged.eq(trimmer.outcomes.valid & (reason >= Reason.OVERSIZE) & ~overflow),
            self.irq.eq(control.irq),
        ]
        self._wire(m, "s_axil", control)
        if config.counters:
            queues = {"trim": trim_queue, "bypass": bypass_queue, "meta": meta_queue}
            self._elaborate_counters(m, trimmer, queues, trim, control)
        return m

    def _elaborate_counters(self, m, trimmer, queues, trim, control):
        m.submodules.flow_counters = flows = FlowCounters(self._config.flows)
        m.submodules.telemetry = telemetry = Telemetry(self._config, trimmer.ahead)
        # The first beat of a payload is the one behind a last one.
        starts = Signal(init=1)
        with m.If(trim.i.valid & trim.i.ready):
            m.d.sync += starts.eq(trim.i.payload.last)
        m.d.sync += [
            telemetry.received.valid.eq(trimmer.received.valid),
            telemetry.received.payload.eq(trimmer.received.payload),
        ]
        m.d.comb += [
            telemetry.outcomes.valid.eq(trimmer.outcomes.valid),
            telemetry.outcomes.payload.eq(trimmer.outcomes.payload),
            telemetry.first.eq(trimmer.starts),
            queues["trim"].i.payload.stamp.eq(telemetry.stamp),
            telemetry.leaves.valid.eq(trim.i.valid & trim.i.ready & starts),
            telemetry.leaves.payload.eq(queues["trim"].o.payload.stamp),
            *(getattr(telemetry, f"level_{name}").eq(queue.level)
              for name, queue in queues.items()),
            flows.outcomes.valid.eq(trimmer.outcomes.valid),
            flows.outcomes.payload.eq(trimmer.outcomes.payload),
            flows.number.eq(trimmer.number),
            flows.restarts.eq(trimmer.restarts),
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
