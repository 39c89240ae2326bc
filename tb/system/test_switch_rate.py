# SPDX-License-Identifier: Apache-2.0
"""Line rate and latency of a switch: a beat a cycle in and out at every port, at every size."""

import harness
import pytest
from switched import CONFIG, Switched, contribution, player, random_group

from flytrim.model import Header
from flytrim.reduction import sum_latency
from flytrim.sim.fabric import SinkMode

#: Cycles from the last beat of the last contribution to the first one of the result, beside those
#: of the sum itself.
LATENCY = 20


def plain(group):
    """The group with results whose headers are as long as those of contributions."""
    return type(group)(group.name, tuple(
        type(child)(child.flow, child.port, Header(
            src_mac=1, dst_mac=2, src="10.0.0.254", dst="10.0.0.1", dqpn=9), child.start_psn)
        for child in group.children), **{name: getattr(group, name) for name in (
            "op", "dtype", "nan", "window", "base")})


def feed(both, rng, numbers, packets, size, start):
    """Contributions of groups back to back at all their ports from one cycle on; beats of each."""
    beats = dict.fromkeys(range(CONFIG.ports), 0)
    for offset in range(packets):
        for number in numbers:
            for child in both.groups[number].children:
                data = contribution(child, offset, rng.randbytes(size), rng, tos=2,
                                    opcode="UC_SEND_ONLY", minimum=0)
                both.send(child.port, data, f"group {number}, offset {offset}", cycle=start)
                beats[child.port] += -(-max(60, len(data)) // CONFIG.lanes)
    return beats


def spans(ran):
    """Cycles from the first beat that left each port to the last one."""
    found = {}
    for left in ran.frames:
        first, last = found.get(left.port, (left.first, left.last))
        found[left.port] = min(first, left.first), max(last, left.last)
    return {port: last - first + 1 for port, (first, last) in found.items()}


@pytest.mark.parametrize("size", [4, 8, 12, 16, 60, 64, 68, 252, 256])
def test_one_group_over_all_ports_has_a_beat_a_cycle(switch_program, size):
    rng = player(harness.seed())
    group = plain(random_group(0, rng, window=CONFIG.window, ports=range(CONFIG.ports),
                               op="sum", dtype="fp32"))
    with Switched(switch_program, [group], {}) as both:
        start = both.fabric.run(0).cycle + 100
        beats = feed(both, rng, [0], 3 * CONFIG.window, size, start)
        assert spans(both.settle()) == beats
        both.check_counters()


def test_groups_on_halves_have_a_beat_a_cycle_at_once(switch_program):
    rng = player(harness.seed())
    groups = [plain(random_group(number, rng, window=16, ports=ports, dtype="fp32"))
              for number, ports in enumerate(((0, 1), (2, 3)))]
    with Switched(switch_program, groups, {}) as both:
        start = both.fabric.run(0).cycle + 100
        beats = feed(both, rng, [0, 1], 3 * CONFIG.window, 64, start)
        assert spans(both.settle()) == beats
        both.check_counters()


def test_groups_that_share_ports_take_turns(switch_program):
    """All of the rate is used, and none waits for another one to be over."""
    rng = player(harness.seed())
    groups = [plain(random_group(number, rng, window=8, ports=ports, dtype="fp32"))
              for number, ports in enumerate(((0, 1, 2, 3), (0, 1), (2, 3), (1, 2)))]
    with Switched(switch_program, groups, {}) as both:
        start = both.fabric.run(0).cycle + 100
        beats = feed(both, rng, range(4), 8, 256, start)
        ran = both.settle()
        both.check_counters()
    assert max(spans(ran).values()) <= max(beats.values()) + 100
    assert len(ran.frames) == 8 * 10


def test_latency(switch_program, record_property):
    rng = player(harness.seed())
    group = plain(random_group(0, rng, window=8, ports=range(CONFIG.ports), dtype="fp32"))
    sums = sum_latency(CONFIG)
    found = {}
    with Switched(switch_program, [group], {}) as both:
        for offset, size in enumerate((4, 8, 64, 256, 0)):
            now = both.fabric.run(0).cycle
            for place, child in enumerate(group.children):
                data = contribution(child, offset, rng.randbytes(size), rng, tos=2,
                                    opcode="UC_SEND_ONLY", minimum=0)
                cycle = now + 100 * (place + 1)
                both.send(child.port, data, f"offset {offset}", cycle=cycle)
            end = cycle + -(-len(data) // CONFIG.lanes) - 1
            firsts = {left.first - end for left in both.settle().frames}
            assert len(firsts) == 1
            found[size] = firsts.pop()
    record_property("latency", f"last beat in to first beat out, by payload: {found}, of which "
                               f"{sums} are the sum's")
    assert max(found.values()) <= LATENCY + sums


def test_sinks_that_stall_lose_nothing(switch_program):
    rng = player(harness.seed())
    groups = [random_group(number, rng, window=8, ports=ports)
              for number, ports in enumerate(((0, 1, 2, 3), (0, 3), (1, 2)))]
    routes = {0: 1, 1: 1, 2: 3, 3: 0}
    for mode, rate in ((SinkMode.RANDOM, 128), (SinkMode.RANDOM, 200), (SinkMode.AFTER_VALID, 0)):
        with Switched(switch_program, groups, routes) as both:
            for port in range(CONFIG.ports):
                both.fabric.sink(port, mode, rate=rate, seed=1 + rng.getrandbits(16))
            for offset in range(40):
                for number, group in enumerate(groups):
                    for child in rng.sample(group.children, len(group.children)):
                        both.send(child.port, contribution(
                            child, offset, random_bytes(offset, child), rng), f"{number} {offset}")
                        if rng.random() < 0.3:
                            both.send(child.port, rng.randbytes(rng.randrange(14, 300)), "other")
                if offset % 4 == 3:
                    both.settle()
            both.settle()
            both.check_counters()


def random_bytes(offset, child):
    """A payload whose length all children of an offset share."""
    size = 4 * (1 + offset * 7 % 40)
    return player(f"{offset} {child.port}").randbytes(size)
