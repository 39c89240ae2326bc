# SPDX-License-Identifier: Apache-2.0
"""AllReduce of simulated hosts over a switch, every element checked bit for bit."""

import contextlib
import functools
import random
from collections import Counter

import numpy as np

from ..model import SwitchModel
from .hosts import Host
from .reference import draw, reduced
from .star import Star, links
from .untimed import ModelFabric

__all__ = ["compiled", "modelled", "run"]

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
        """Hold a host's result against the reduction in the order of the ports."""
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

    def _round(self, number):
        if number not in self._data:
            plan = self._plan
            columns = [draw((np.random.default_rng([plan.seed, number, 0]),
                             np.random.default_rng([plan.seed, number, 1 + node])),
                            plan.elements, plan.dtype) for node in range(plan.nodes)]
            self._data[number] = columns, reduced(columns, plan.op, plan.dtype)
        return self._data[number]


def modelled(plan):
    """The reference model of the switch, with the plan's group started."""
    model = SwitchModel(plan.nodes, slot_bytes=plan.slot_bytes)
    model.configure([plan.group()])
    return ModelFabric(model, plan.nodes, plan.rate)


@contextlib.contextmanager
def compiled(plan, say=None):
    """The compiled switch, with the plan's group started; a context manager."""
    from ..config import SwitchConfig
    from ..driver import Switch
    from ..groups import SwitchFile
    from ..sim.build import build_fabric, device_verilog
    from ..sim.fabric import Fabric

    types = ("fp32", "int32")
    config = SwitchConfig(
        ports=plan.nodes, width=plan.width, window=plan.window, slot_bytes=plan.slot_bytes,
        types=types if plan.dtype in types else (*types, plan.dtype))
    with Fabric(build_fabric(config, device_verilog(config, "switch"), say=say)) as fabric:
        fabric.reset()
        Switch(fabric).configure(SwitchFile(config, (plan.group(),), {}, plan.clock_mhz))
        yield fabric


def run(plan, fabric, progress=None):
    """Run an :class:`~flytrim.fabric.plan.AllReduce` over a switch whose group is started.

    Each host begins at its own time, and a round when it has the result of the one before; it
    waits for no other host but through the switch.

    ``progress`` takes the number of results, a host and round each, that are whole, now and then.

    Returns the figures, a dict that JSON can hold. Raises :class:`~flytrim.fabric.star.Stalled`
    where the simulation does not get on.
    """
    rounds = _Rounds(plan)
    chances = {"loss": plan.loss, "duplicate": plan.duplicate, "reorder": plan.reorder}
    up, down = links(plan.seed, plan.nodes, delay=plan.delay, rate=plan.rate, **chances)
    star = Star(fabric, plan.delay, up, down)
    begun, at_round, ended = star.now, [0] * plan.nodes, [0] * plan.nodes

    def begin(now, node):
        star.hosts[node].reduce(now, rounds.data(at_round[node], node))

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
                    timer=plan.timer, send=star.sender(node), done=done(node))
        star.hosts.append(host)
        star.at(begun + starts.randrange(plan.delay + 1), functools.partial(begin, node=node))
    star.run(lambda: min(at_round) == plan.rounds, _PATIENCE * plan.timer)
    return _figures(plan, rounds, star, up, down, max(ended) - begun)


def _figures(plan, rounds, star, up, down, cycles):
    hosts = [{
        "name": host.name, **_counts(host.counts, ("sent", "retransmitted", "results_again")),
        "up": _link(each_up), "down": _link(each_down)}
        for host, each_up, each_down in zip(star.hosts, up, down, strict=True)]
    both = sum((link.counts for link in (*up, *down)), Counter())
    faults = [fault for host in star.hosts for fault in host.faults]
    ring_bytes, ring_cycles = plan.ring()
    way = {name: sum(link.counts["wire_bytes"] for link in links) / len(links)
           for name, links in (("up", up), ("down", down))}
    seconds = cycles / (plan.clock_mhz * 1e6)
    return {
        "plan": {name: getattr(plan, name) for name in plan.__dataclass_fields__},
        "packets": plan.packets, "timer_cycles": plan.timer,
        "checked_elements": rounds.checked, "differing_elements": rounds.differing,
        "difference": rounds.difference, "frame_faults": len(faults),
        "first_frame_fault": faults[0] if faults else None,
        "cycles": cycles, "microseconds": seconds * 1e6,
        "data_gbps": 8e-9 * plan.bytes * plan.rounds / seconds,
        "network": _counts(both, ("frames", "wire_bytes", "lost", "duplicated", "reordered")),
        "retransmitted": sum(host["retransmitted"] for host in hosts),
        "results_again": sum(host["results_again"] for host in hosts),
        "wire_bytes_a_link": way,
        "ring": {"wire_bytes_a_link": ring_bytes * plan.rounds,
                 "cycles_at_best": ring_cycles * plan.rounds},
        "beats_in": sum(star.beats[0]), "beats_out": sum(star.beats[1]),
        "hosts": hosts,
    }


def _link(link):
    return _counts(link.counts, ("frames", "wire_bytes", "lost", "duplicated", "reordered"))


def _counts(counter, names):
    return {name: counter[name] for name in names}
