# SPDX-License-Identifier: Apache-2.0
"""Hosts around one switch: time goes on in steps that no message can cross."""

import heapq

from .links import Link

__all__ = ["Stalled", "Star", "links"]


#: Hosts that a sentence names.
_TOLD = 4


class Stalled(Exception):
    """The simulation does not get on, or the switch broke a rule; one sentence says where."""


class Star:
    """A switch with a host at each of its ports.

    A step is twice the delay of a link. What leaves the switch within a step reaches its host a
    delay later at the soonest, and what that host then sends reaches the switch another one later:
    in the next step.

    Parameters
    ----------
    fabric : flytrim.sim.fabric.Fabric or flytrim.fabric.untimed.ModelFabric
        The switch, ready for traffic.
    delay : int
        Cycles that a link delays, at least.
    up, down : list of Link
        From each host to the switch, and back.

    Attributes
    ----------
    now : int
        Cycle up to which the switch has been run.
    beats : (tuple, tuple)
        Beats that entered and left the switch, by port.
    hosts : list of Host
        To be filled in by whoever makes them, in the order of the ports; :meth:`sender` gives them
        their way out.
    """

    def __init__(self, fabric, delay, up, down):
        self._fabric, self._delay, self._up, self._down = fabric, delay, up, down
        self._order = 0
        self._events, self._entering = [], []
        self._wakes = [None] * len(up)
        self.hosts = []
        self.now = fabric.run(0).cycle
        self.beats = (0,) * len(up), (0,) * len(up)

    def sender(self, port):
        """A host's ``send``: a frame into its link to the switch."""
        def send(now, frame):
            left, arrivals = self._up[port].send(now, frame)
            for arrival in arrivals:
                self._push(self._entering, arrival, port, frame)
            return left
        return send

    def at(self, cycle, action):
        """Call ``action(cycle)`` in its turn."""
        self._push(self._events, cycle, None, action)

    def run(self, finished, patience):
        """Run until ``finished()``.

        Raises :class:`Stalled` where no host gets a new result for ``patience`` cycles, and for
        what the switch's ports do wrong.
        """
        answered, since = None, self.now
        while not finished():
            self._work(self.now + self._delay)
            if finished():
                return
            until = self.now + 2 * self._delay
            while self._entering and self._entering[0][0] < until:
                cycle, _, port, frame = heapq.heappop(self._entering)
                self._fabric.send(port, frame, cycle)
            self._take(self._fabric.run(until))
            if (total := sum(host.answered for host in self.hosts)) != answered:
                answered, since = total, self.now
            elif self.now - since > patience:
                raise Stalled(self._stalled(since))

    def _take(self, ran):
        if ran.faults:
            raise Stalled(f"the switch breaks a rule of its ports: {ran.faults[0]}")
        self.now, self.beats = ran.cycle, (ran.beats_in, ran.beats_out)
        for left in ran.frames:
            _, arrivals = self._down[left.port].send(left.last + 1, left.frame)
            for arrival in arrivals:
                self._push(self._events, arrival, left.port, left.frame)

    def _work(self, horizon):
        """Let hosts do what they do before a cycle."""
        while self._events and self._events[0][0] < horizon:
            cycle, _, port, what = heapq.heappop(self._events)
            if port is None:
                what(cycle)
            elif what is None:
                self._wakes[port] = None
                self.hosts[port].wake(cycle)
            else:
                self.hosts[port].receive(cycle, what)
            self._set_alarms()

    def _set_alarms(self):
        """An event for each host's next timer, where there is none as early."""
        for port, host in enumerate(self.hosts):
            deadline, wake = host.deadline, self._wakes[port]
            if deadline is not None and (wake is None or deadline < wake):
                self._wakes[port] = deadline
                self._push(self._events, deadline, port, None)

    def _stalled(self, since):
        waiting = [f"{host.name} waits for result {host.wants}" for host in self.hosts
                   if host.wants is not None]
        faults = [host.faults[0] for host in self.hosts if host.faults]
        return (f"no result came since cycle {since:,}: "
                f"{', '.join(waiting[:_TOLD]) or 'no host waits for one'}"
                + (f"; a frame is no result: {faults[0]}" if faults else ""))

    def _push(self, heap, cycle, port, what):
        self._order += 1
        heapq.heappush(heap, (cycle, self._order, port, what))


def links(seed, count, **options):
    """(up, down) of so many hosts; ``options`` are those of :class:`Link`."""
    return tuple([Link(f"{seed} {way} {port}", **options) for port in range(count)]
                 for way in ("up", "down"))
