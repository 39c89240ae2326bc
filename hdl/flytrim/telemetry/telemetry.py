# SPDX-License-Identifier: Apache-2.0
"""Telemetry: counters by reason, bytes removed, latency, and how full the queues were."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..context import LENGTH_BITS, Outcome
from ..logic import KEEP
from ..verdict import Reason
from .latency import CYCLE_BITS, Latency
from .tally import Tally
from .total import Total

__all__ = ["Telemetry"]

#: Codes of reasons: a place for each.
CODES = 32
QUEUES = ("trim", "bypass", "meta")


class Telemetry(wiring.Component):
    """Counts what strobes out of the data path tell. Nothing in the data path waits for it.

    Each reading is named as its register field in the group ``counters`` of the register
    description, and means what is said there.

    Parameters
    ----------
    config : NicConfig
    ahead : int
        Cycles from the receive port to where frames are stamped.
    queues : collection of str
        Those that there are; of others there is no level, and no reading.

    Members
    -------
    received : lane of lengths in bytes, one a frame that came to its end
    outcomes : lane of :class:`Outcome`
    first, stamp, leaves : see :class:`Latency`
    level_trim, level_bypass, level_meta : items that wait in a queue
    """

    def __init__(self, config, ahead, queues=QUEUES):
        self._ahead = ahead
        depths = {"trim": config.queue_beats, "bypass": config.queue_beats,
                  "meta": config.queue_records}
        self._depths = {queue: depths[queue] for queue in queues}
        super().__init__({
            "received": In(stream.Signature(LENGTH_BITS, always_ready=True)),
            "outcomes": In(stream.Signature(Outcome, always_ready=True)),
            "first": In(1),
            "stamp": Out(CYCLE_BITS),
            "leaves": In(stream.Signature(CYCLE_BITS, always_ready=True)),
            **{f"level_{queue}": In(range(depth + 1)) for queue, depth in self._depths.items()},
            "command__clear": In(1),
            "received_frames__count": Out(64),
            "received_bytes__count": Out(64),
            "header_bytes__count": Out(64),
            "payload_bytes__count": Out(64),
            "cut_bytes__count": Out(64),
            "tail_bytes__count": Out(64),
            **{f"high_water_{queue}__{field}": Out(bits) for queue in queues
               for field, bits in (("most", 16), ("depth_log2", 8))},
            "latency_minimum__cycles": Out(CYCLE_BITS),
            "latency_maximum__cycles": Out(CYCLE_BITS),
            "latency__index": In(4),
            "latency__count": Out(64),
            "reason__index": In(range(CODES)),
            "reason__frames__count": Out(64),
            "reason__bytes__count": Out(64),
        })

    def elaborate(self, platform):
        m = Module()
        self._count_reasons(m)
        self._count_bytes(m)
        self._watch_queues(m)

        m.submodules.latency = latency = Latency(self._ahead)
        connect(m, flipped(self.leaves), latency.leaves)
        m.d.comb += [
            latency.first.eq(self.first),
            self.stamp.eq(latency.stamp),
            latency.clear.eq(self._clear(m, "latency")),
            self.latency_minimum__cycles.eq(latency.minimum),
            self.latency_maximum__cycles.eq(latency.maximum),
            latency.index.eq(self.latency__index),
            self.latency__count.eq(latency.count),
        ]
        return m

    def _clear(self, m, name):
        """The strobe a cycle later, from a register for this one: it has to reach many."""
        clear = Signal(name=f"clear_{name}", attrs=KEEP)
        m.d.sync += clear.eq(self.command__clear)
        return clear

    def _count_reasons(self, m):
        m.submodules.reasons = reasons = Tally(CODES, {"frames": 1, "bytes": LENGTH_BITS})
        event = reasons.i.payload
        m.d.comb += [
            reasons.i.valid.eq(self.outcomes.valid),
            event.row.eq(self.outcomes.payload.reason),
            event.amounts.frames.eq(1),
            event.amounts.bytes.eq(self.outcomes.payload.bytes),
            reasons.clear.eq(self._clear(m, "reasons")),
            reasons.index.eq(self.reason__index),
            self.reason__frames__count.eq(reasons.o.frames),
            self.reason__bytes__count.eq(reasons.o.bytes),
        ]

    def _count_bytes(self, m):
        outcome = self.outcomes.payload
        trimmed, body, left = Signal(), Signal(LENGTH_BITS), Signal(LENGTH_BITS)
        later = Signal.like(outcome)
        tail, counts = Signal(LENGTH_BITS), Signal()
        m.d.sync += [
            trimmed.eq(self.outcomes.valid & (outcome.reason == Reason.NONE)),
            later.eq(outcome),
            body.eq(outcome.bytes - outcome.headers),
            left.eq(outcome.payload + outcome.cut),
            counts.eq(trimmed),
            tail.eq(body - left),
        ]
        for name, amount, valid in (
                ("received_frames", 1, self.received.valid),
                ("received_bytes", self.received.payload, self.received.valid),
                ("header_bytes", later.headers, trimmed),
                ("payload_bytes", later.payload, trimmed),
                ("cut_bytes", later.cut, trimmed),
                ("tail_bytes", tail, counts)):
            m.submodules[name] = total = Total(LENGTH_BITS)
            m.d.comb += [
                total.i.valid.eq(valid),
                total.i.payload.eq(amount),
                total.clear.eq(self.command__clear),
                getattr(self, f"{name}__count").eq(total.o),
            ]

    def _watch_queues(self, m):
        clear = self._clear(m, "queues")
        for queue, depth in self._depths.items():
            level = getattr(self, f"level_{queue}")
            most = Signal.like(level, name=f"most_{queue}")
            m.d.sync += most.eq(Mux(clear | (level > most), level, most))
            m.d.comb += [
                getattr(self, f"high_water_{queue}__most").eq(most),
                getattr(self, f"high_water_{queue}__depth_log2").eq(depth.bit_length() - 1),
            ]
