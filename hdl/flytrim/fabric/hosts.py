# SPDX-License-Identifier: Apache-2.0
"""A host that has its data reduced by a switch, over UC, and heals what the network does."""

import zlib
from collections import Counter, deque

from .packets import FrameFault

__all__ = ["Host"]

_PSNS = 1 << 24
#: Windows for which a result's CRC is kept, to hold late copies of it against.
_KEPT_WINDOWS = 4


class Host:
    """Contributes its data packet by packet, and takes the results.

    Packet n of its life has the PSN of the channel's first one plus n, and so has its result. The
    result of n acknowledges contribution n; what is not answered in time is sent again. At most a
    window is in flight: n waits for the result of n less the window.

    Parameters
    ----------
    name : str
        For people.
    out, back : flytrim.fabric.packets.Channel
        Contributions, results.
    payload : int
        Bytes of a packet.
    window : int
        Packets.
    timer : int
        Cycles from when a contribution has left until it is sent again.
    send : callable
        Takes a cycle and a frame, and gives the cycle after which the frame has left.
    done : callable
        Takes a cycle and the bytes of a result, once it is whole.

    Attributes
    ----------
    answered : int
        Results that came, each counted once.
    counts : collections.Counter
        ``sent``, ``retransmitted``, ``results_again``, ``congested``.
    faults : list of str
        What was wrong with frames that came; such a frame is no result.
    """

    def __init__(self, name, out, back, *, payload, window, timer, send, done):
        self.name = name
        self._out, self._back = out, back
        self._payload, self._window, self._timer = payload, window, timer
        self._send, self._done = send, done
        self._waiting = deque()     # payloads that were not yet sent
        self._next = 0              # number of the packet to be sent next
        self._open = {}             # contributions without a result, by number
        self._results = {}          # of the data at hand, by number
        self._checks = {}           # CRCs of results, by number
        self._timers = deque()      # (cycle, number), one for each contribution in flight
        self._first = self._end = 0     # packets of the data at hand
        self.answered = 0
        self.counts, self.faults = Counter(), []

    def reduce(self, now, data):
        """Begin to have ``data`` reduced; no bytes are a barrier. What was before must be done."""
        assert self._first == self._end, f"{self.name} is busy"
        parts = [data[at:at + self._payload] for at in range(0, len(data), self._payload)] or [b""]
        self._first, self._end = self._next, self._next + len(parts)
        self._waiting.extend(parts)
        self._results = {}
        self._fill(now)

    @property
    def deadline(self):
        """The cycle to call :meth:`wake` in; None while nothing is in flight."""
        return self._timers[0][0] if self._timers else None

    @property
    def wants(self):
        """The number of the first result that is missing; None while nothing is in flight."""
        return min(self._open, default=None)

    def wake(self, now):
        """Send again what is not answered in time."""
        while self._timers and self._timers[0][0] <= now:
            _, number = self._timers.popleft()
            if number in self._open:
                self.counts["retransmitted"] += 1
                self._contribute(now, number)

    def receive(self, now, frame):
        """Take a frame that arrived."""
        try:
            packet = self._back.read(frame)
            number = self._number(packet)
        except FrameFault as fault:
            self.faults.append(f"{self.name}, cycle {now}: {fault}")
            return
        self.counts["congested"] += packet.congested
        if number not in self._open:
            self.counts["results_again"] += 1
            return
        del self._open[number]
        self.answered += 1
        self._results[number] = packet.payload
        self._checks[number] = zlib.crc32(packet.payload)
        self._checks.pop(number - _KEPT_WINDOWS * self._window, None)
        self._fill(now)
        if len(self._results) == self._end - self._first:
            data = b"".join(self._results[each] for each in range(self._first, self._end))
            self._first = self._end
            self._done(now, data)

    def _number(self, packet):
        """The number of a result, which must be one that this host waits for, or had."""
        behind = (self._next - 1 - packet.psn + self._back.psn) % _PSNS
        number = self._next - 1 - behind
        if not 0 <= number < self._next:
            raise FrameFault(f"PSN {packet.psn:#x} answers no contribution")
        if packet.immediate:
            raise FrameFault(f"result {number} lacks children {packet.immediate:#x}")
        if number in self._open and len(packet.payload) != len(self._open[number]):
            raise FrameFault(f"result {number} has {len(packet.payload)} bytes, not "
                             f"{len(self._open[number])}")
        if self._checks.get(number, check := zlib.crc32(packet.payload)) != check:
            raise FrameFault(f"result {number} came again with other bytes")
        return number

    def _fill(self, now):
        while self._waiting and self._next - self._window not in self._open:
            self._open[self._next] = self._waiting.popleft()
            self._contribute(now, self._next)
            self._next += 1

    def _contribute(self, now, number):
        self.counts["sent"] += 1
        left = self._send(now, self._out.frame(self._open[number],
                                               (self._out.psn + number) % _PSNS))
        self._timers.append((left + self._timer, number))
