# SPDX-License-Identifier: Apache-2.0
"""Hosts around a compiled switch: no message comes before its time, and none is lost on the way."""

from types import SimpleNamespace

import pytest
from crossed import crossed_verilog

from flytrim.fabric.star import Stalled, Star, links
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


def play(**options):
    config = SimpleNamespace(ports=PORTS, width=64)
    with Fabric(build_fabric(config, crossed_verilog(PORTS, 64))) as fabric:
        fabric.reset()
        star = Star(fabric, DELAY, *links("seed", PORTS, delay=DELAY, rate=RATE, **options))
        star.hosts += [Player(f"host {port}", star.sender(port)) for port in range(PORTS)]
        star.at(100, star.hosts[0].throw)
        star.at(117, star.hosts[3].throw)
        star.run(lambda: star.hosts[1].answered == star.hosts[2].answered == BALLS, 10_000)
        return star


def test_a_message_takes_two_links_and_the_switch():
    star = play()
    # Over a link, into the switch to the last beat, through a queue's memory, out, over a link.
    wire, beats, latency = (len(FRAME) + 24) // RATE, len(FRAME) // 8, 2
    hop = 2 * (wire + DELAY) + beats + latency + beats
    there, back = star.hosts[1].times, star.hosts[0].times
    assert there == [100 + hop + 2 * hop * n for n in range(BALLS)]
    assert back == [100 + 2 * hop * (n + 1) for n in range(BALLS - 1)]
    assert star.hosts[2].times == [117 + hop + 2 * hop * n for n in range(BALLS)]
    assert [star.beats[0][port] for port in (1, 0, 3, 2)] == list(star.beats[1])


def test_a_run_repeats_and_a_lost_message_stalls_it():
    assert play(reorder=3).hosts[0].times == play(reorder=3).hosts[0].times
    with pytest.raises(Stalled, match="no result came since cycle"):
        play(loss=0.5)
