# SPDX-License-Identifier: Apache-2.0
"""AXI4-Stream with flat port names: source, sink, and monitors for packets and records."""

from collections import deque
from dataclasses import dataclass, field

from cocotb.triggers import Event
from cocotb_bus.monitors import BusMonitor
from pacing import FULL_RATE, ticks

from .clock import now
from .rules import BeatRules, StallRules

__all__ = ["AxisMonitor", "AxisSink", "AxisSource", "Frame", "RecordMonitor", "VerdictMonitor"]


@dataclass
class Frame:
    """A frame that enters or leaves. The cycles are those of its first and last transfer.

    One that is not ``ended`` enters without a last beat. Where frames are compared, data, error
    flag and side band count.
    """

    data: bytes
    error: bool = False
    side: int = 0
    first_cycle: int | None = field(default=None, compare=False)
    last_cycle: int | None = field(default=None, compare=False)
    ended: bool = field(default=True, compare=False)

    def __repr__(self):
        return (f"Frame({len(self.data)} bytes {self.data[:64].hex()}, error={self.error}, "
                f"side={self.side:#x}, cycles {self.first_cycle} to {self.last_cycle})")


class AxisSource:
    """Drives frames into a receive port, whose ``tready`` must be 1 in every cycle.

    Whatever the receiver must not look at is random: everything while ``tvalid`` is low, bytes
    beyond ``tkeep``, the error flag before the last beat, the side band after the first.

    Attributes
    ----------
    accepted : frames whose last beat was taken
    beats : beats taken
    held : nothing is offered, also within a frame
    """

    def __init__(self, edges, prefix, rng, *, pacing=FULL_RATE):
        self._edges, self._where = edges, prefix
        self._data, self._keep, self._valid, self._ready, self._last, self._user = (
            getattr(edges.dut, f"{prefix}_{name}")
            for name in ("tdata", "tkeep", "tvalid", "tready", "tlast", "tuser"))
        self._width, self._lanes = len(self._data), len(self._keep)
        self._user_width = len(self._user)
        self._rng, self._pace = rng, ticks(pacing.source, rng)
        self._queue, self._beats = deque(), deque()
        self._offered, self._idle = None, Event()
        self.accepted, self.beats, self.held = [], 0, False
        self._drive_junk()
        edges.every(self._step)

    def send(self, frame):
        """Queue a :class:`Frame`; it follows the one before it without a gap."""
        self._queue.append(frame)
        self._idle.clear()

    async def idle(self):
        """Until everything queued was accepted."""
        await self._idle.wait()

    def abort(self):
        """Forget everything queued, the frame that is on its way included."""
        self._queue.clear()
        self._beats.clear()
        self._offered = None
        self._drive_junk()
        self._idle.set()

    @property
    def waiting(self):
        """Frames queued and not begun."""
        return len(self._queue)

    def _drive_junk(self):
        bits = self._rng.getrandbits
        self._valid.value = 0
        self._data.value = bits(self._width)
        self._keep.value = bits(self._lanes)
        self._last.value = bits(1)
        self._user.value = bits(self._user_width)

    def _drive(self, beat):
        self._valid.value = 1
        self._data.value, self._keep.value, self._last.value, self._user.value = beat[1:]

    def _cut(self, frame):
        """Beats of a frame, as (frame, tdata, tkeep, tlast, tuser)."""
        lanes, junk = self._lanes, self._rng.getrandbits
        for start in range(0, len(frame.data), lanes):
            part = frame.data[start:start + lanes]
            last = frame.ended and start + lanes >= len(frame.data)
            word = int.from_bytes(part, "little")
            if free := self._width - 8 * len(part):
                word |= junk(free) << 8 * len(part)
            error = int(frame.error) if last else junk(1)
            side = frame.side if not start else junk(self._user_width) >> 1
            yield frame, word, (1 << len(part)) - 1, int(last), side << 1 | error

    def _step(self):
        if self._edges.in_reset:
            # What is offered in reset is not taken, so it is offered on behind it, without a gap.
            if self._offered is not None:
                return
        elif not self._ready.value:
            raise AssertionError(f"{self._where} @ cycle {now()}: tready is 0")
        elif self._offered is not None:
            self._count(self._offered)
        if not self._beats and self._queue:
            self._beats.extend(self._cut(self._queue.popleft()))
        if self._beats and not self.held and next(self._pace):
            self._offered = self._beats.popleft()
            self._drive(self._offered)
        else:
            if self._offered is not None or self._beats:
                self._drive_junk()
            self._offered = None
            if not self._beats:
                self._idle.set()

    def _count(self, beat):
        frame, last = beat[0], beat[3]
        self.beats += 1
        if frame.first_cycle is None:
            frame.first_cycle = now()
        if last:
            frame.last_cycle = now()
            self.accepted.append(frame)


class AxisSink:
    """Drives ``tready`` of a transmit port; ``stalled`` holds it low."""

    def __init__(self, edges, prefix, rng, *, pacing=FULL_RATE):
        self._valid, self._ready = (getattr(edges.dut, f"{prefix}_{name}")
                                    for name in ("tvalid", "tready"))
        self._waits, self._pace, self._level = pacing.waits, ticks(pacing.sink, rng), 0
        self.stalled = False
        self._ready.value = 0
        edges.every(self._step)

    def _step(self):
        if self.stalled:
            following = 0
        elif self._waits:
            # A transfer that was taken in this cycle says nothing of the next one.
            following = int(not self._level and bool(self._valid.value))
        else:
            following = int(next(self._pace))
        if following != self._level:
            self._ready.value = self._level = following


class _Monitor(BusMonitor):
    """Samples a stream at each edge; forgets a packet that a reset cut off."""

    def __init__(self, edges, prefix, **options):
        self._edges, self._rules = edges, StallRules(prefix)
        super().__init__(edges.dut, prefix, edges.dut.clk, case_insensitive=False, **options)

    def _monitor_recv(self):
        self._payload = [getattr(self.bus, name) for name in self._signals
                         if name not in ("tvalid", "tready")]
        self._valid, self._ready = self.bus.tvalid, getattr(self.bus, "tready", None)
        return self._edges.monitor(self._sample)

    def _sample(self):
        if self._edges.in_reset:
            self._rules.reset()
            self._forget()
        elif not self._valid.value:
            self._rules.sample(False, True, None)
        else:
            bits = tuple(int(signal.value) for signal in self._payload)
            ready = self._ready is None or bool(self._ready.value)
            self._rules.sample(True, ready, bits)
            if ready:
                self._beat(bits)

    def _beat(self, bits):
        """A beat was transferred; what it means is the subclass's to say."""

    def _forget(self):
        """A reset cut off what had come of a packet."""


class AxisMonitor(_Monitor):
    """Collects :class:`Frame` from a port with ``tkeep``, ``tlast`` and ``tuser``."""

    _signals = ["tdata", "tkeep", "tlast", "tuser", "tvalid", "tready"]

    def __init__(self, edges, prefix, **options):
        self._lanes = BeatRules(prefix, len(getattr(edges.dut, f"{prefix}_tkeep")))
        self._forget()
        super().__init__(edges, prefix, **options)

    def _forget(self):
        self._parts, self._side, self._first = [], 0, None

    def _beat(self, bits):
        data, keep, last, user = bits
        if not self._parts:
            self._side, self._first = user >> 1, now()
        self._parts.append(self._lanes.bytes(data, self._lanes.count(keep), last))
        if last:
            frame = Frame(b"".join(self._parts), bool(user & 1), self._side, self._first, now())
            self._forget()
            self._recv(frame)


class RecordMonitor(_Monitor):
    """Collects the ``tdata`` of a port with one beat a record, as int."""

    _signals = ["tdata", "tvalid", "tready"]

    def _beat(self, bits):
        self._recv(bits[0])


class VerdictMonitor(RecordMonitor):
    """The same for a strobe, which has no ``tready``."""

    _signals = ["tdata", "tvalid"]
