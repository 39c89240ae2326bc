# SPDX-License-Identifier: Apache-2.0
"""TrimNic: the endpoint. Frames in; payloads with their records, and everything else, out."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect

from .admission import meta_layout, meta_width
from .axis import PacketSource, RecordSource, axil_members, axis_members, wire
from .packet import Packet
from .port import ADDRESS_WIDTH, IN_FLIGHT, Port
from .stream import Queue
from .telemetry import CYCLE_BITS

__all__ = ["TrimNic"]


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

        m.submodules.port = port = Port(config)
        m.submodules.trim_queue = trim_queue = Queue(
            payload, depth=config.queue_beats, margin=config.max_beats + IN_FLIGHT)
        m.submodules.meta_queue = meta_queue = Queue(
            meta, depth=config.queue_records, margin=IN_FLIGHT)
        m.submodules.bypass = bypass = PacketSource(config.width, side_width=config.side_width)
        m.submodules.trim = trim = PacketSource(config.width)
        m.submodules.meta = records = RecordSource(meta, meta_width(config))

        wire(m, self, "s_axis_rx", port)
        wire(m, self, "s_axil", port, "axil")
        connect(m, port.bypass, bypass.i)
        connect(m, port.meta, meta_queue.i)
        connect(m, meta_queue.o, records.i)
        m.d.comb += [
            port.trim_room.eq(trim_queue.room),
            port.meta_room.eq(meta_queue.room),
            trim_queue.commit.eq(1), meta_queue.commit.eq(1),
            trim_queue.i.valid.eq(port.trim.valid),
            trim_queue.i.payload.packet.eq(port.trim.payload),
            trim.i.valid.eq(trim_queue.o.valid),
            trim.i.payload.eq(trim_queue.o.payload.packet),
            trim_queue.o.ready.eq(trim.i.ready),
            self.m_axis_verdict_tvalid.eq(port.verdicts.valid),
            self.m_axis_verdict_tdata.eq(port.verdicts.payload),
            self.irq.eq(port.irq),
        ]
        wire(m, self, "m_axis_bypass", bypass)
        wire(m, self, "m_axis_trim", trim)
        wire(m, self, "m_axis_meta", records)

        if config.counters:
            # The first beat of a payload is the one behind a last one.
            starts = Signal(init=1)
            with m.If(trim.i.valid & trim.i.ready):
                m.d.sync += starts.eq(trim.i.payload.last)
            m.d.comb += [
                trim_queue.i.payload.stamp.eq(port.stamp),
                port.leaves.valid.eq(trim.i.valid & trim.i.ready & starts),
                port.leaves.payload.eq(trim_queue.o.payload.stamp),
                port.level_trim.eq(trim_queue.level),
                port.level_meta.eq(meta_queue.level),
            ]
        return m
