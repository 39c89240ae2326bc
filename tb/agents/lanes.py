# SPDX-License-Identifier: Apache-2.0
"""Amaranth streams at a block's ports: lanes without ``ready``, and streams with it.

Payloads are packed and unpacked by the block's own Amaranth shapes.
"""

from collections import deque

from amaranth.hdl import Shape
from cocotb.triggers import Event
from cocotb_bus.monitors import Monitor
from pacing import FULL_RATE, ticks

from .clock import now
from .rules import StallRules

__all__ = ["LaneMonitor", "LaneSource", "beats_of"]


def beats_of(frame, lanes):
    """Fields of a ``Packet`` for each beat of a frame, side band and error left at 0."""
    for start in range(0, len(frame), lanes):
        part = frame[start:start + lanes]
        yield {"data": int.from_bytes(part, "little"), "count": len(part),
               "last": int(start + lanes >= len(frame))}


class LaneSource:
    """Drives items into ``<prefix>__valid`` and ``__payload``; random bits while not valid.

    An item is a value for the shape: a dict of fields, or an int of its bits. ``cycles`` lists when
    each was taken. Other ports of the block can be driven in the cycle of an item; they keep their
    value until another item sets it. Items of which ``announced`` is true are told by
    ``<prefix>_soon`` a cycle ahead.
    """

    def __init__(self, edges, prefix, shape, rng, *, pacing=FULL_RATE, announced=None):
        self._edges, self._shape, self._rng = edges, shape, rng
        self._valid, self._payload = (getattr(edges.dut, f"{prefix}__{name}")
                                      for name in ("valid", "payload"))
        self._ready = getattr(edges.dut, f"{prefix}__ready", None)
        self._announced, self._coming = announced, (None, {})
        self._soon = getattr(edges.dut, f"{prefix}_soon") if announced else None
        self._width = Shape.cast(shape).width
        self._pace = ticks(pacing.source, rng)
        self._queue, self._offered, self._idle = deque(), None, Event()
        self.cycles = []
        self._valid.value = 0
        if self._soon is not None:
            self._soon.value = 0
        edges.every(self._step)

    def send(self, item, **beside):
        """Queue an item; None is a cycle without one. ``beside`` is other ports' values."""
        self._queue.append((item, beside))
        self._idle.clear()

    async def idle(self):
        """Until everything queued was taken."""
        await self._idle.wait()

    @property
    def waiting(self):
        """Items queued and not offered."""
        return len(self._queue)

    def _step(self):
        if self._edges.in_reset:
            return
        if self._offered is not None:
            if self._ready is not None and not self._ready.value:
                return
            self.cycles.append(now())
        coming = self._queue.popleft() if self._queue and next(self._pace) else (None, {})
        if self._announced:
            coming, self._coming = self._coming, coming
            item = self._coming[0]
            self._soon.value = item is not None and self._announced(item)
        self._offered, beside = coming
        for name, value in beside.items():
            getattr(self._edges.dut, name).value = value
        if self._offered is None:
            self._valid.value = 0
            self._payload.value = self._rng.getrandbits(self._width)
            if not self._queue and self._coming[0] is None:
                self._idle.set()
        else:
            self._valid.value = 1
            self._payload.value = (self._offered if isinstance(self._offered, int)
                                   else self._shape.const(self._offered).as_bits())


class LaneMonitor(Monitor):
    """Receives (cycle, item) from a lane or stream; an item is a ``data.Const``, or an int.

    Where the port has a ``ready``, it drives that at the rate of the pacing.
    """

    def __init__(self, edges, prefix, shape, rng=None, *, pacing=FULL_RATE, **options):
        self.name, self._shape, self._edges = prefix, shape, edges
        self._valid, self._payload = (getattr(edges.dut, f"{prefix}__{name}")
                                      for name in ("valid", "payload"))
        self._ready = getattr(edges.dut, f"{prefix}__ready", None)
        self._waits, self._pace = pacing.waits, ticks(pacing.sink, rng)
        self._rules, self._level = StallRules(prefix), int(self._ready is None)
        if self._ready is not None:
            self._ready.value = 0
        super().__init__(**options)

    def _monitor_recv(self):
        return self._edges.monitor(self._sample)

    def _sample(self):
        if self._edges.in_reset:
            self._rules.reset()
            return
        valid, level = bool(self._valid.value), self._level
        bits = int(self._payload.value) if valid else None
        self._rules.sample(valid, level, bits)
        if self._ready is not None:
            following = int(valid and not level if self._waits else next(self._pace))
            if following != level:
                self._ready.value = self._level = following
        if valid and level:
            self._recv((now(), self._shape.from_bits(bits)
                        if hasattr(self._shape, "from_bits") else bits))
