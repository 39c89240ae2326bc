# SPDX-License-Identifier: Apache-2.0
"""Port: what every receive port of a device has, up to where payloads go different ways."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .admission import meta_layout
from .axis import axil_members, axis_members, wire
from .context import VerdictRecord
from .control import Control
from .packet import Packet
from .stream import Queue
from .telemetry import CYCLE_BITS, FlowCounters, Telemetry
from .trimmer import Trimmer
from .verdict import Reason

__all__ = ["ADDRESS_WIDTH", "IN_FLIGHT", "Port"]

#: Bits of a register's byte address.
ADDRESS_WIDTH = 12
#: Beats and records that can be on their way when ``room`` is looked at.
IN_FLIGHT = 4


class Port(wiring.Component):
    """A :class:`Trimmer`, the queue of what it passes by, its registers and its counters.

    Parameters
    ----------
    config : NicConfig
    whole : bool
        Frames leave by ``bypass`` only when all of them has come, and then without a gap; payloads
        do not wait in queues, which are then not measured. So it is in a switch.

    Members
    -------
    axis_* : frames from the MAC, AXI4-Stream; ``tready`` is always 1
    axil_* : registers, AXI4-Lite
    irq : the interrupt
    bypass : stream of frames that are not trimmed
    trim, meta : lanes of payloads, and of a record beside the last beat of each
    trim_room, meta_room : there is room for a longest payload, and a record
    level_trim, level_meta : items that wait behind them
    stamp, leaves : a payload takes ``stamp`` along with its first beat and gives it back as that
        leaves, see :class:`~flytrim.telemetry.Telemetry`; absent where that is not measured
    verdicts : lane of :class:`VerdictRecord`, one a frame
    """

    prefix = "axis"

    def __init__(self, config, whole=False):
        self._config, self._whole = config, whole
        frame = Packet(config.width, config.side_width)

        def lane(shape):
            return stream.Signature(shape, always_ready=True)

        self._measured = config.counters and not whole
        measured = {} if not self._measured else {
            "level_trim": In(range(config.queue_beats + 1)),
            "level_meta": In(range(config.queue_records + 1)),
            "stamp": Out(CYCLE_BITS),
            "leaves": In(lane(CYCLE_BITS)),
        }
        super().__init__({
            **axis_members("axis", In, config.width, user=1 + config.side_width),
            **axil_members("axil", ADDRESS_WIDTH),
            "irq": Out(1),
            "bypass": Out(stream.Signature(frame)),
            "trim": Out(lane(Packet(config.width))),
            "meta": Out(lane(meta_layout(config))),
            "trim_room": In(1),
            "meta_room": In(1),
            "verdicts": Out(lane(VerdictRecord)),
            **measured,
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.trimmer = trimmer = Trimmer(config)
        m.submodules.bypass_queue = queue = Queue(
            Packet(config.width, config.side_width), depth=config.queue_beats,
            margin=config.max_beats + IN_FLIGHT)
        m.submodules.control = control = Control(config, ADDRESS_WIDTH)

        wire(m, self, "axis", trimmer)
        wire(m, self, "axil", control)
        for name in ("trim", "meta", "verdicts"):
            connect(m, getattr(trimmer, name), flipped(getattr(self, name)))
        connect(m, trimmer.bypass, queue.i)
        connect(m, queue.o, flipped(self.bypass))
        connect(m, control.flows, trimmer.commands)
        outcome = trimmer.outcomes
        overflow = outcome.payload.reason == Reason.OVERFLOW
        m.d.comb += [
            trimmer.bypass_room.eq(queue.room),
            trimmer.trim_room.eq(self.trim_room),
            trimmer.meta_room.eq(self.meta_room),
            queue.commit.eq(trimmer.commit & (trimmer.bypass.payload.last | (not self._whole))),
            queue.rewind.eq(trimmer.rewind),
            control.flow_status.eq(trimmer.status),
            control.flow_read.eq(trimmer.reads),
            control.flow_found.eq(trimmer.found),
            control.overflow.eq(outcome.valid & overflow),
            control.damaged.eq(outcome.valid & (outcome.payload.reason >= Reason.OVERSIZE)
                               & ~overflow),
            self.irq.eq(control.irq),
        ]
        if config.counters:
            self._elaborate_counters(m, trimmer, queue, control)
        return m

    def _elaborate_counters(self, m, trimmer, queue, control):
        m.submodules.flow_counters = flows = FlowCounters(self._config.flows)
        queues = ("trim", "bypass", "meta") if self._measured else ("bypass",)
        m.submodules.telemetry = telemetry = Telemetry(self._config, trimmer.ahead, queues)
        m.d.sync += [
            telemetry.received.valid.eq(trimmer.received.valid),
            telemetry.received.payload.eq(trimmer.received.payload),
        ]
        m.d.comb += [
            telemetry.outcomes.valid.eq(trimmer.outcomes.valid),
            telemetry.outcomes.payload.eq(trimmer.outcomes.payload),
            telemetry.first.eq(trimmer.starts),
            telemetry.level_bypass.eq(queue.level),
            flows.outcomes.valid.eq(trimmer.outcomes.valid),
            flows.outcomes.payload.eq(trimmer.outcomes.payload),
            flows.number.eq(trimmer.number),
            flows.restarts.eq(trimmer.restarts),
            control.flow_counters__packets__count.eq(flows.packets),
            control.flow_counters__messages__count.eq(flows.messages),
        ]
        if self._measured:
            m.d.comb += [
                self.stamp.eq(telemetry.stamp),
                telemetry.leaves.valid.eq(self.leaves.valid),
                telemetry.leaves.payload.eq(self.leaves.payload),
                telemetry.level_trim.eq(self.level_trim),
                telemetry.level_meta.eq(self.level_meta),
            ]
        for name, member in telemetry.signature.members.items():
            if f"counters__{name}" in control.signature.members:
                inner, outer = getattr(telemetry, name), getattr(control, f"counters__{name}")
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
