# SPDX-License-Identifier: Apache-2.0
"""Hosts around one or several switches: time goes on in steps that no message can cross."""

import heapq
from collections import namedtuple

from .links import Link
from .topology import Peer

__all__ = ["Network", "Stalled"]


#: Hosts that a sentence names.
_TOLD = 4

#: Both ways of a connection.
_Ways = namedtuple("_Ways", "up down")


class Stalled(Exception):
    """The simulation does not get on, or a switch broke a rule; one sentence says where."""


class Network:
    """Switches with a host or another switch at each of their ports.

    What leaves a switch within a step reaches its host a delay of a link later at the soonest, and
    what that host then sends reaches a switch another one later. So a step is twice the delay of a
    link, or the delay itself where switches are connected to each other.

    Parameters
    ----------
    fabrics : list of flytrim.sim.fabric.Fabric or flytrim.fabric.untimed.ModelFabric
        The switches, ready for traffic, all in the same cycle.
    edges : dict of Peer to flytrim.fabric.wiring.Edge
        Which child is at which port of which switch; the parent of a switch is at the port behind
        its last child.
    seed : int or str
        Of what links do.
    delay : int
        Cycles that a link delays, at least.
    link : dict
        Further options of each :class:`Link`.

    Attributes
    ----------
    now : int
        Cycle up to which the switches have been run.
    beats : list of (tuple, tuple)
        Beats that entered and left each switch, by port.
    links : dict of Peer to (Link, Link)
        Of each child, up to its switch and down from there.
    hosts : list of Host
        To be filled in by whoever makes them, in their order; :meth:`sender` gives them their way
        out.
    """

    def __init__(self, fabrics, edges, seed, *, delay, **link):
        self._fabrics, self._delay = fabrics, delay
        self.links = {child: _Ways(*(Link(f"{seed} {way} {child.name}", delay=delay, **link)
                                     for way in ("up", "down"))) for child in edges}
        self._step = delay if any(child.kind == "switch" for child in edges) else 2 * delay
        # By what a switch sends, out of a port: the link, and who is at its end.
        self._out = {}
        self._edges = edges
        for child, edge in edges.items():
            ways = self.links[child]
            self._out[edge.device, edge.port] = ways.down, child, self._parent_port(child)
            if child.kind == "switch":
                self._out[child.number, self._parent_port(child)] = (
                    ways.up, Peer("switch", edge.device), edge.port)
        self._order = 0
        self._events, self._entering = [], []
        hosts = sum(child.kind == "host" for child in edges)
        self._wakes = [None] * hosts
        self.hosts = []
        self._take([fabric.run(0) for fabric in fabrics])

    def sender(self, node):
        """A host's ``send``: a frame into its link to the switch."""
        child = Peer("host", node)
        edge, link = self._edges[child], self.links[child].up

        def send(now, frame):
            left, arrivals = link.send(now, frame)
            for arrival in arrivals:
                self._push(self._entering, arrival, (edge.device, edge.port), frame)
            return left
        return send

    def at(self, cycle, action):
        """Call ``action(cycle)`` in its turn."""
        self._push(self._events, cycle, None, action)

    def run(self, finished, patience):
        """Run until ``finished()``.

        Raises :class:`Stalled` where no host gets a new result for ``patience`` cycles, and for
        what the ports of a switch do wrong.
        """
        answered, since = None, self.now
        while not finished():
            until = self.now + self._step
            self._work(until - self._delay)
            if finished():
                return
            while self._entering and self._entering[0][0] < until:
                cycle, _, (device, port), frame = heapq.heappop(self._entering)
                self._fabrics[device].send(port, frame, cycle)
            self._take([fabric.run(until) for fabric in self._fabrics])
            if (total := sum(host.answered for host in self.hosts)) != answered:
                answered, since = total, self.now
            elif self.now - since > patience:
                raise Stalled(self._stalled(since))

    def _parent_port(self, child):
        """The port of a switch that its parent is at; None of a host."""
        if child.kind == "host":
            return None
        return sum(edge.device == child.number for edge in self._edges.values())

    def _take(self, all_ran):
        for ran in all_ran:
            if ran.faults:
                raise Stalled(f"the switch breaks a rule of its ports: {ran.faults[0]}")
        self.now = all_ran[0].cycle
        self.beats = [(ran.beats_in, ran.beats_out) for ran in all_ran]
        for device, ran in enumerate(all_ran):
            for left in ran.frames:
                link, peer, port = self._out[device, left.port]
                _, arrivals = link.send(left.last + 1, left.frame)
                for arrival in arrivals:
                    if peer.kind == "host":
                        self._push(self._events, arrival, peer.number, left.frame)
                    else:
                        self._push(self._entering, arrival, (peer.number, port), left.frame)

    def _work(self, horizon):
        """Let hosts do what they do before a cycle."""
        while self._events and self._events[0][0] < horizon:
            cycle, _, node, what = heapq.heappop(self._events)
            if node is None:
                what(cycle)
            elif what is None:
                self._wakes[node] = None
                self.hosts[node].wake(cycle)
            else:
                self.hosts[node].receive(cycle, what)
            self._set_alarms()

    def _set_alarms(self):
        """An event for each host's next timer, where there is none as early."""
        for node, host in enumerate(self.hosts):
            deadline, wake = host.deadline, self._wakes[node]
            if deadline is not None and (wake is None or deadline < wake):
                self._wakes[node] = deadline
                self._push(self._events, deadline, node, None)

    def _stalled(self, since):
        waiting = [f"{host.name} waits for result {host.wants}" for host in self.hosts
                   if host.wants is not None]
        faults = [host.faults[0] for host in self.hosts if host.faults]
        return (f"no result came since cycle {since:,}: "
                f"{', '.join(waiting[:_TOLD]) or 'no host waits for one'}"
                + (f"; a frame is no result: {faults[0]}" if faults else ""))

    def _push(self, heap, cycle, place, what):
        self._order += 1
        heapq.heappush(heap, (cycle, self._order, place, what))
