# SPDX-License-Identifier: Apache-2.0
"""Groups of a switch beside each other: stragglers, aborts, restarts, resets, what is forwarded."""

import dataclasses
import math
import struct

import harness
import numpy as np
import pytest
import roce
from switched import CONFIG, Stuck, Switched, contribution, player, random_group

from flytrim.driver import TableError
from flytrim.sim.fabric import SinkMode

ALL = range(CONFIG.ports)


def give(both, rng, number, offset, ports=None, size=64):
    """Contributions of an offset at some of the group's ports."""
    group = both.groups[number]
    for child in group.children:
        if ports is None or child.port in ports:
            both.send(child.port, contribution(child, offset, rng.randbytes(size), rng),
                      f"group {number}, offset {offset}")


def test_sixteen_groups_of_which_one_waits_for_ever(switch_program):
    rng = player(harness.seed())
    groups = [random_group(number, rng, window=2) for number in range(16)]
    groups[5] = random_group(5, rng, window=2, ports=ALL)
    with Switched(switch_program, groups, {}) as both:
        for offset in range(12):
            for number in rng.sample(range(16), 16):
                # One child of the sixth group never sends.
                give(both, rng, number, offset, ALL[:-1] if number == 5 else None)
            both.settle()
        both.check_counters()
        for number in range(16):
            results = both.switch.group_counters(number).results
            assert results == (0 if number == 5 else 12)


def test_a_straggler_is_told_once_and_flushed(switch_program):
    rng = player(harness.seed())
    groups = [random_group(number, rng, window=4, ports=ALL, timeout=timeout)
              for number, timeout in enumerate((2000, 0, 2000))]
    with Switched(switch_program, groups, {}) as both:
        give(both, rng, 0, 3, (0, 2))
        give(both, rng, 1, 0, (1,))
        both.settle()
        assert both.switch.straggler() is None
        both.fabric.run(both.fabric.run(0).cycle + 5000)
        found = both.switch.straggler()
        assert (found.group, found.offset, found.ports) == (0, 3, (1, 3))
        # It is told once, and the group without a timeout never.
        both.fabric.run(both.fabric.run(0).cycle + 5000)
        assert both.switch.straggler() is None
        # Two that wait at a time: the second is told when software has seen the first.
        give(both, rng, 2, 0, (0, 1, 2))
        give(both, rng, 2, 1, (3,))
        both.settle()
        both.fabric.run(both.fabric.run(0).cycle + 9000)
        told = [both.switch.straggler()]
        both.fabric.run(both.fabric.run(0).cycle + 9000)
        told.append(both.switch.straggler())
        assert sorted((each.group, each.offset, each.ports) for each in told) == [
            (2, 0, (3,)), (2, 1, (0, 1, 2))]
        # An offset that shares the slot does not wait.
        assert both.command("flush", 0, 3 + 2 * 4) == "bad_offset"
        # Flushed, the results go out without them; what comes late gets them again.
        assert both.command("flush", 0, 3) == "done"
        both.settle()
        give(both, rng, 0, 3)
        assert len(both.settle().frames) == 4
        assert both.command("flush", 0, 3) == "bad_offset"
        assert both.command("flush", 1, 1) == "bad_offset"
        both.check_counters()


def test_a_slot_that_was_aborted_is_told_and_heals(switch_program):
    rng = player(harness.seed())
    group = random_group(0, rng, window=4, ports=ALL, dtype="fp32")
    with Switched(switch_program, [group], {}) as both:
        give(both, rng, 0, 2, (0, 1, 2), size=64)
        give(both, rng, 0, 2, (3,), size=60)
        assert not both.settle().frames
        found = both.switch.aborted()
        assert (found.group, found.offset, found.cause) == (0, 2, "lengths")
        give(both, rng, 0, 1, size=18)
        assert not both.settle().frames
        assert both.switch.aborted().offset == 1
        # All of them count anew.
        give(both, rng, 0, 2, size=64)
        assert len(both.settle().frames) == 4
        assert both.switch.aborted() is None
        both.check_counters()


def test_a_host_that_restarts_restarts_its_group_alone(switch_program):
    rng = player(harness.seed())
    groups = [random_group(number, rng, window=4, ports=ALL) for number in range(2)]
    with Switched(switch_program, groups, {}) as both:
        for life in range(20):
            for offset in range(6):
                give(both, rng, 0, offset)
                give(both, rng, 1, 6 * life + offset)
                both.settle()
            # Some that nobody will ever complete.
            give(both, rng, 0, 6, (0, 3))
            both.settle()
            both.command("stop_group", 0)
            # Of one beat and of several: each is turned away in a way of its own.
            give(both, rng, 0, 7, size=8 if life % 2 else 64)
            both.settle()
            both.groups[0] = group = dataclasses.replace(groups[0], children=tuple(
                dataclasses.replace(child, start_psn=rng.getrandbits(24))
                for child in groups[0].children))
            both.command("start_group", 0, group)
        both.check_counters()


def test_commands_that_cannot_be(switch_program):
    rng = player(harness.seed())
    groups = [random_group(number, rng, window=4, ports=ALL) for number in range(2)]
    with Switched(switch_program, groups, {}) as both:
        assert both.command("start_group", 0, groups[0]) == "running"
        assert both.command("stop_group", 1) == "done"
        assert both.command("stop_group", 1) == "stopped"
        assert both.command("flush", 1, 0) == "stopped"
        with pytest.raises((TableError, ValueError)):
            both.switch.stop_group(CONFIG.groups)
        give(both, rng, 0, 0)
        both.settle()


def test_a_port_that_is_no_member_contributes_nothing(switch_program):
    rng = player(harness.seed())
    group = random_group(0, rng, window=4, ports=ALL)
    members = dataclasses.replace(group, children=group.children[:2])
    stranger = group.children[2]
    with Switched(switch_program, [members], {}) as both:
        both.model.insert_flow(stranger.port, 0, stranger.flow)
        both.switch.port(stranger.port).insert_flow(0, stranger.flow)
        for offset in range(6):
            both.send(stranger.port, contribution(stranger, offset, bytes(64), rng), "stranger")
            give(both, rng, 0, offset)
            both.settle()
        both.check_counters()
        assert both.switch.counters().ports[stranger.port].contributions == 0


def test_reset_in_the_middle(switch_program):
    rng = player(harness.seed())
    groups = [random_group(0, rng, window=16, ports=ALL)]
    for cycles in (1, 7, 30, 53, 61, 80, 200):
        with Switched(switch_program, groups, {0: 1}) as both:
            for offset in range(16):
                give(both, rng, 0, offset, size=128)
            both.fabric.send(0, rng.randbytes(300))
            both.fabric.run(both.fabric.run(0).cycle + cycles)
            both.fabric.reset()
            both.fabric.run(both.fabric.run(0).cycle + 10)
        # After it the device knows nothing, and works when it is told again.
        with Switched(switch_program, groups, {0: 1}) as both:
            give(both, rng, 0, 0)
            both.send(0, rng.randbytes(300), "other")
            assert len(both.settle().frames) == 5


def test_results_are_read_by_others(switch_program):
    """By Scapy, and the ICRC by the oracle."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1Q, Ether

    rng = player(harness.seed())
    seen = set()
    for _ in range(12):
        group = random_group(0, rng, window=8, ports=ALL, op="sum", dtype="fp32")
        with Switched(switch_program, [group], {}) as both:
            for offset, size in enumerate((0, 4, 8, 60, 256)):
                give(both, rng, 0, offset, size=size)
            for left in both.settle().frames:
                header = group.children[left.port].header
                packet = Ether(left.frame)
                assert packet.src == "02:00:00:00:00:fe"
                assert (Dot1Q in packet) == (header.vlan is not None)
                layer = packet[IPv6 if header.src.version == 6 else IP]
                assert (layer.src, layer.dst) == (str(header.src), str(header.dst))
                assert packet[UDP].dport == 4791 and packet[UDP].chksum == 0
                if IP in packet:
                    sent = layer.chksum
                    del layer.chksum
                    assert IP(bytes(layer)).chksum == sent
                _, end = roce.datagram_span(left.frame)
                assert left.frame[end - 4:end] == roce.icrc(left.frame)
                assert not any(left.frame[end:])
                seen.add((header.src.version, header.vlan is not None, header.opcode))
    assert len(seen) > 12


@pytest.mark.parametrize("many", [1, 3])
def test_results_and_what_is_forwarded_share_a_port(switch_program, many):
    """Frame by frame: neither keeps the other off; nothing is lost while there is room."""
    rng = player(harness.seed())
    group = random_group(0, rng, window=32, ports=(0, 1), dtype="fp32")
    with Switched(switch_program, [group], {2: 0, 3: 0} if many == 3 else {2: 0}) as both:
        start = both.fabric.run(0).cycle + 50
        for offset in range(24):
            for child in group.children:
                both.send(child.port, contribution(child, offset, bytes(64), rng), "result",
                          cycle=start)
            for port in (2, 3) if many == 3 else (2,):
                both.send(port, rng.randbytes(120), "other", cycle=start)
        frames = [left for left in both.settle().frames if left.port == 0]
    kinds = np.array([len(left.frame) == 120 for left in sorted(frames, key=lambda x: x.first)])
    # While both wait, no more than a turn of each source passes between two results.
    until = np.flatnonzero(~kinds)[-1]
    runs = np.diff(np.flatnonzero(~kinds[:until + 1]))
    assert runs.max() <= many + 1


@pytest.mark.parametrize("flag, x, y", [
    ("inexact", 1, 1e-9), ("overflow", 3e38, 3e38), ("invalid", math.inf, -math.inf)])
def test_results_of_both_halves_at_a_time_are_counted_each(switch_program, flag, x, y):
    rng = player(harness.seed())
    groups = [random_group(number, rng, window=8, ports=ports, op="sum", dtype="fp32")
              for number, ports in enumerate(((0, 1), (2, 3)))]
    with Switched(switch_program, groups, {}) as both:
        start = both.fabric.run(0).cycle + 200
        for offset in range(5):
            for group in groups:
                for child, number in zip(group.children, (x, y), strict=True):
                    both.send(child.port, contribution(
                        child, offset, struct.pack("<f", number), rng, opcode="UC_SEND_ONLY"),
                        f"offset {offset}", cycle=start + 100 * offset)
        both.settle()
        assert getattr(both.switch.counters(), flag) == 10


def test_commands_between_do_not_spoil_the_count_of_slots_in_use(switch_program):
    rng = player(harness.seed())
    groups = [random_group(number, rng, window=8, ports=ALL) for number in range(3)]
    with Switched(switch_program, groups, {}) as both:
        for number in range(3):
            for offset in range(5):
                give(both, rng, number, offset, (number,))
        both.settle()
        for number in [0] * 20 + [2] * 20:
            assert both.command("flush", number, 100) == "bad_offset"
        both.fabric.run(both.fabric.run(0).cycle + 1000)
        found = both.switch.counters()
        assert (found.in_use, found.most_in_use) == (15, 15)


def test_a_group_goes_on_without_the_child_whose_port_is_stuck(switch_program):
    rng = player(harness.seed())
    group = random_group(0, rng, window=16, ports=ALL, dtype="int32")
    with Switched(switch_program, [group], {}) as both:
        stuck = Stuck(both, rng, 1)
        # More than the queues of the port hold, and all told of by the same port.
        first = stuck.give(0, range(16), CONFIG.slot_bytes, last=0)
        assert 0 < len(stuck.left()) < len(first) * 3 // 4
        both.command("stop_group", 0)
        both.groups[0] = group = dataclasses.replace(group, children=tuple(
            child for child in group.children if child.port != 1))
        both.command("start_group", 0, group)
        leaves = stuck.give(0, range(16), 64, last=0)
        assert sorted(stuck.left()) == sorted(leaves)


def test_slots_of_a_group_that_was_stopped_serve_another_one_at_once(switch_program):
    rng = player(harness.seed())
    groups = [random_group(number, rng, window=16, ports=ALL, dtype="int32") for number in (0, 1)]
    groups[1] = dataclasses.replace(groups[1], base=groups[0].base)
    with Switched(switch_program, groups[:1], {}) as both:
        for child in groups[1].children:
            for side in (both.model, both.switch):
                side.set_template(child.port, 1, child.header)
            both.model.insert_flow(child.port, 1, child.flow)
            both.switch.port(child.port).insert_flow(1, child.flow)
        both.groups.append(groups[1])
        stuck = Stuck(both, rng, 1)
        first = stuck.give(0, range(16), CONFIG.slot_bytes, last=0)
        both.command("stop_group", 0)
        both.command("start_group", 1, groups[1])
        # While results of the first group still wait, payloads of the other come in their place.
        leaves = stuck.give(1, range(16), CONFIG.slot_bytes, last=0)
        both.fabric.sink(1, SinkMode.ALWAYS)
        found = stuck.left()
        # Of the first group all that has not gone is lost; all of the second one are there.
        assert set(leaves) <= set(found) and len(found) < len(first) + len(leaves)
        assert set(found) <= {*first, *leaves}
        assert both.switch.group_counters(1).results == 16


def test_no_result_leaves_under_the_headers_of_a_later_life(switch_program):
    rng = player(harness.seed())
    groups = [random_group(0, rng, window=16, ports=ALL, dtype="int32") for _ in range(2)]
    with Switched(switch_program, groups[:1], {}) as both:
        stuck = Stuck(both, rng, 1)
        first = stuck.give(0, range(20), 64, last=0)
        stuck.run(5000)
        both.command("stop_group", 0)
        both.groups[0] = groups[1]
        for child in groups[1].children:
            both.command("set_template", child.port, 0, child.header)
        # Some of what waits for the port gets its headers before the group starts, some behind.
        both.fabric.sink(1, SinkMode.RANDOM, rate=128)
        stuck.run(rng.randrange(100))
        both.fabric.sink(1, SinkMode.RANDOM, rate=0)
        both.command("start_group", 0, groups[1])
        both.fabric.sink(1, SinkMode.ALWAYS)
        stuck.run(5000)
        assert any(left.error for left in stuck.ran)
        assert set(stuck.left()) <= set(first)
        leaves = stuck.give(0, range(4), 64, last=0)
        assert sorted(stuck.left()) == sorted(leaves)


@pytest.mark.parametrize("size", [0, 4, CONFIG.slot_bytes])
def test_results_wait_for_a_port_that_is_stuck_and_none_is_lost(switch_program, size):
    rng = player(harness.seed())
    group = random_group(0, rng, window=32, ports=(0, 1), dtype="int32")
    with Switched(switch_program, [group], {}) as both:
        stuck = Stuck(both, rng, 1)
        leaves = stuck.give(0, range(250), size, last=0)
        both.fabric.sink(1, SinkMode.ALWAYS)
        found = stuck.left()
        # What came behind that which waits was out of the window.
        results = both.switch.group_counters(0).results
        assert 0 < results < 250
        assert sorted(found) == sorted(leaves[:2 * results])


def test_every_packet_of_a_slot_that_waits_is_told_anew(switch_program):
    rng = player(harness.seed())
    group = random_group(0, rng, window=2, ports=ALL, timeout=500)
    with Switched(switch_program, [group], {}) as both:
        for offset in range(12):
            missing = rng.sample(ALL, 2)
            give(both, rng, 0, offset, [port for port in ALL if port not in missing])
            both.settle()
            both.fabric.run(both.fabric.run(0).cycle + 2000)
            found = both.switch.straggler()
            assert (found.offset, found.ports) == (offset, tuple(sorted(missing)))
            give(both, rng, 0, offset, missing)
            both.settle()
