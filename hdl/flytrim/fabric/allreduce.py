# SPDX-License-Identifier: Apache-2.0
"""AllReduce of simulated hosts over switches, every element checked bit for bit."""

import contextlib
import functools
import random
from collections import Counter

import numpy as np

from ..model import SwitchModel
from .hosts import Host
from .network import Network
from .reference import draw, reduced
from .topology import Peer
from .untimed import ModelFabric

__all__ = ["compiled", "modelled", "run"]

_OF_LINKS = ("frames", "wire_bytes", "lost", "duplicated", "reordered")
#: Timers that may run out before a simulation without a new result is given up.
_PATIENCE = 100


class _Rounds:
    """The data of each round, and what it must give; kept while a host is in that round."""

    def __init__(self, plan):
        self._plan = plan
        self._data, self._left = {}, Counter()
        self.checked = self.differing = 0
        self.difference = None

    def data(self, number, node):
        """The bytes that a host contributes."""
        return self._round(number)[0][node].tobytes()

    def check(self, number, node, result):
        """Hold a host's result against the reduction in the order of the ports of each switch."""
        expected = self._round(number)[1]
        found = np.frombuffer(result, expected.dtype)
        self.checked += len(expected)
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            self.differing += len(wrong)
            if self.difference is None:
                at, digits = wrong[0], 2 * expected.itemsize
                self.difference = (f"host {node}, round {number}, element {at}: "
                                   f"0x{found[at]:0{digits}x}, not 0x{expected[at]:0{digits}x}")
        self._left[number] += 1
        if self._left[number] == self._plan.nodes:
            del self._data[number]

    def _reduced(self, device, columns):
        """What a switch has of all hosts below it."""
        plan = self._plan
        return reduced([
            columns[peer.number] if peer.kind == "host" else self._reduced(peer.number, columns)
            for peer in plan.devices[device].children], plan.op, plan.dtype)

    def _round(self, number):
        if number not in self._data:
            plan = self._plan
            columns = [draw((np.random.default_rng([plan.seed, number, 0]),
                             np.random.default_rng([plan.seed, number, 1 + node])),
                            plan.elements, plan.dtype) for node in range(plan.nodes)]
            self._data[number] = columns, self._reduced(len(plan.devices) - 1, columns)
        return self._data[number]


def modelled(plan):
    """Reference models of a plan's switches, with its group started."""
    fabrics = []
    for number in range(len(plan.devices)):
        model = SwitchModel(plan.ports, slot_bytes=plan.slot_bytes)
        model.configure([plan.group(number)])
        fabrics.append(ModelFabric(model, plan.ports, plan.rate, plan.resend(number)))
    return fabrics


@contextlib.contextmanager
def compiled(plan, say=None):
    """A plan's switches, compiled, with its group started; a context manager."""
    from ..config import SwitchConfig
    from ..driver import Switch
    from ..groups import SwitchFile
    from ..sim.build import build_fabric, device_verilog
    from ..sim.fabric import Fabric

    types = ("fp32", "int32")
    config = SwitchConfig(
        ports=plan.ports, width=plan.width, window=plan.window, slot_bytes=plan.slot_bytes,
        types=types if plan.dtype in types else (*types, plan.dtype))
    program = build_fabric(config, device_verilog(config, "switch"), say=say)
    with contextlib.ExitStack() as stack:
        fabrics = [stack.enter_context(Fabric(program)) for _ in plan.devices]
        for number, fabric in enumerate(fabrics):
            fabric.reset()
            Switch(fabric).configure(
                SwitchFile(config, (plan.group(number),), {}, plan.clock_mhz))
        # Registers took a time of their own at each.
        latest = max(fabric.run(0).cycle for fabric in fabrics)
        for fabric in fabrics:
            fabric.run(latest)
        yield fabrics


def run(plan, fabrics, progress=None):
    """Run an :class:`~flytrim.fabric.plan.AllReduce` over its switches, whose group is started.

    Each host begins at its own time, and a round when it has the result of the one before; it
    waits for no other host but through a switch.

    ``progress`` takes the number of results, a host and round each, that are whole, now and then.

    Returns the figures, a dict that JSON can hold. Raises :class:`~flytrim.fabric.network.Stalled`
    where the simulation does not get on.
    """
    rounds = _Rounds(plan)
    network = Network(fabrics, plan.edges, plan.seed, delay=plan.delay, rate=plan.rate,
                      loss=plan.loss, duplicate=plan.duplicate, reorder=plan.reorder)
    begun, at_round, ended = network.now, [0] * plan.nodes, [0] * plan.nodes

    def begin(now, node):
        network.hosts[node].reduce(now, rounds.data(at_round[node], node))

    def done(node):
        def whole(now, data):
            rounds.check(at_round[node], node, data)
            at_round[node] += 1
            ended[node] = now
            if at_round[node] < plan.rounds:
                begin(now, node)
            if progress:
                progress(sum(at_round))
        return whole

    starts = random.Random(f"{plan.seed} starts")
    for node in range(plan.nodes):
        out, back = plan.channels(node)
        host = Host(f"host {node}", out, back, payload=plan.payload, window=plan.window,
                    timer=plan.timer, send=network.sender(node), done=done(node))
        network.hosts.append(host)
        network.at(begun + starts.randrange(plan.delay + 1), functools.partial(begin, node=node))
    network.run(lambda: min(at_round) == plan.rounds, _PATIENCE * plan.timer)
    return _figures(plan, rounds, network, max(ended) - begun)


def _figures(plan, rounds, network, cycles):
    hosts = [{"name": host.name, **_counts(host.counts, ("sent", "retransmitted", "results_again")),
              **_ways(network.links[Peer("host", node)])}
             for node, host in enumerate(network.hosts)]
    uplinks = [{"name": child.name, "parent": plan.devices[child.number].parent.name, **_ways(ways)}
               for child, ways in network.links.items() if child.kind == "switch"]
    both = sum((link.counts for ways in network.links.values() for link in ways), Counter())
    faults = [fault for host in network.hosts for fault in host.faults]
    ring_bytes, ring_cycles = plan.ring()
    way = {name: sum(host[name]["wire_bytes"] for host in hosts) / len(hosts)
           for name in ("up", "down")}
    seconds = cycles / (plan.clock_mhz * 1e6)
    return {
        "plan": {name: getattr(plan, name) for name in plan.__dataclass_fields__},
        "packets": plan.packets, "timer_cycles": plan.timer,
        "checked_elements": rounds.checked, "differing_elements": rounds.differing,
        "difference": rounds.difference, "frame_faults": len(faults),
        "first_frame_fault": faults[0] if faults else None,
        "cycles": cycles, "microseconds": seconds * 1e6,
        "data_gbps": 8e-9 * plan.bytes * plan.rounds / seconds,
        "network": _counts(both, _OF_LINKS),
        "retransmitted": sum(host["retransmitted"] for host in hosts),
        "results_again": sum(host["results_again"] for host in hosts),
        "wire_bytes_a_link": way,
        "ring": {"wire_bytes_a_link": ring_bytes * plan.rounds,
                 "cycles_at_best": ring_cycles * plan.rounds},
        **{name: sum(sum(each[n]) for each in network.beats)
           for n, name in enumerate(("beats_in", "beats_out"))},
        "hosts": hosts, "uplinks": uplinks,
    }


def _ways(ways):
    """What was counted on the two links of a child."""
    return {name: _counts(link.counts, _OF_LINKS) for name, link in ways._asdict().items()}


def _counts(counter, names):
    return {name: counter[name] for name in names}
