# SPDX-License-Identifier: Apache-2.0
"""Hosts around compiled switches: no message comes before its time, and none is lost on the way."""

import contextlib
from types import SimpleNamespace

import pytest
from crossed import crossed_verilog

from flytrim.fabric.network import Network, Stalled
from flytrim.fabric.topology import Peer
from flytrim.fabric.wiring import Edge
from flytrim.sim.build import build_fabric
from flytrim.sim.fabric import Fabric

pytestmark = pytest.mark.model

PORTS, DELAY, RATE, BALLS = 4, 50, 8, 20
FRAME = bytes(range(80))


class Player:
    """Throws what it gets back, a number of times, and notes when."""

    deadline = wants = None

    def __init__(self, name, send):
        self.name, self._send, self.times, self.faults = name, send, [], []

    @property
    def answered(self):
        return len(self.times)

    def throw(self, now):
        self._send(now, FRAME)

    def receive(self, now, frame):
        assert frame == FRAME
        self.times.append(now)
        if len(self.times) < BALLS:
            self.throw(now)


def play(places, throws, awaited, **options):
    """A network of hosts at (switch, port); child 0 of switch 1 is switch 0, if there is one."""
    config = SimpleNamespace(ports=PORTS, width=64)
    edges = {Peer("host", node): Edge(Peer("host", node), *place, None, None)
             for node, place in enumerate(places)}
    devices = 1 + max(device for device, _ in places)
    if devices > 1:
        edges[Peer("switch", 0)] = Edge(Peer("switch", 0), 1, 0, None, None)
    program = build_fabric(config, crossed_verilog(PORTS, 64))
    with contextlib.ExitStack() as stack:
        fabrics = [stack.enter_context(Fabric(program)) for _ in range(devices)]
        for fabric in fabrics:
            fabric.reset()
        network = Network(fabrics, edges, "seed", delay=DELAY, rate=RATE, **options)
        network.hosts += [Player(f"host {node}", network.sender(node))
                          for node in range(len(places))]
        for cycle, node in throws:
            network.at(cycle, network.hosts[node].throw)
        network.run(lambda: all(network.hosts[node].answered == BALLS for node in awaited), 10_000)
        return network


def star(**options):
    return play([(0, port) for port in range(PORTS)], [(100, 0), (117, 3)], (1, 2), **options)


# Over a link; into a switch to the last beat, through a queue's memory, out.
LINK, SWITCH = (len(FRAME) + 24) // RATE + DELAY, 2 * len(FRAME) // 8 + 2


def test_a_message_takes_two_links_and_the_switch():
    network, hop = star(), 2 * LINK + SWITCH
    there, back = network.hosts[1].times, network.hosts[0].times
    assert there == [100 + hop + 2 * hop * n for n in range(BALLS)]
    assert back == [100 + 2 * hop * (n + 1) for n in range(BALLS - 1)]
    assert network.hosts[2].times == [117 + hop + 2 * hop * n for n in range(BALLS)]
    (taken, given), = network.beats
    assert [taken[port] for port in (1, 0, 3, 2)] == list(given)


def test_a_message_between_switches_takes_their_link_too():
    # Switch 0 has its parent behind its one child.
    network, hop = play([(0, 0), (1, 1)], [(100, 0)], (1,)), 3 * LINK + 2 * SWITCH
    assert network.hosts[1].times == [100 + hop + 2 * hop * n for n in range(BALLS)]
    assert network.hosts[0].times == [100 + 2 * hop * (n + 1) for n in range(BALLS - 1)]
    up, down = network.links[Peer("switch", 0)]
    assert (up.counts["frames"], down.counts["frames"]) == (BALLS, BALLS - 1)


def test_a_run_repeats_and_a_lost_message_stalls_it():
    assert star(reorder=3).hosts[0].times == star(reorder=3).hosts[0].times
    with pytest.raises(Stalled, match="no result came since cycle"):
        star(loss=0.5)
