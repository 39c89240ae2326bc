# SPDX-License-Identifier: Apache-2.0
"""TrimSwitch against its model, frame by frame: networks that misbehave, and software that acts."""

import contextlib
import random

import harness
import pytest
from switched import CONFIG, Switched, contribution, numbers, player, random_group

from flytrim.driver import Switch
from flytrim.fabric import OPS, AllReduce, run
from flytrim.groups import SwitchFile
from flytrim.sim.fabric import Fabric

WINDOW = 8


def any_contribution(rng, group, child, offset):
    """A packet of this offset; mostly of the length that others of it have."""
    step = 4 if group.dtype in ("fp32", "int32") else 2
    of_all = random.Random(f"{group.name} {group.op} {offset}")
    size = step * of_all.choice((0, 1, 1, 2, 3, 7, 16, CONFIG.slot_bytes // step))
    if rng.random() < 0.02:
        size = rng.choice((size + step, 15, CONFIG.slot_bytes + 4))
    fields = {"icrc": b"nope"} if rng.random() < 0.03 else {}
    return contribution(child, offset, numbers(rng, size, group.dtype), rng, **fields)


@pytest.mark.parametrize("run", range(6))
def test_frame_by_frame(switch_program, run):
    rng = player(f"{harness.seed()} {run}")
    groups = [random_group(number, rng, window=WINDOW, roles=True) for number in range(2)]
    routes = {port: rng.randrange(CONFIG.ports) for port in range(CONFIG.ports)
              if rng.random() < 0.8}
    done, results = [0, 0], 0
    with Switched(switch_program, groups, routes) as both:
        for _ in range(400):
            number = rng.randrange(2)
            group, chance = both.groups[number], rng.random()
            if chance < 0.03:
                waiting = [*both.model.unfinished(number), done[number], done[number] - 1]
                both.command("flush", number, rng.choice(waiting) % (1 << 24))
            elif chance < 0.035:
                both.command("start_group", number, group)
                both.command("stop_group", number)
                both.command("stop_group", number)
                both.groups[number] = group = random_group(
                    number, rng, window=WINDOW, roles=True, dtype=group.dtype,
                    ports=sorted(member.port for member in group.members))
                done[number] = 0
                for member in group.members:
                    both.command("set_template", member.port, number, member.header)
                both.command("start_group", number, group)
            elif chance < 0.07:
                port = rng.randrange(CONFIG.ports)
                both.send(port, rng.randbytes(rng.randrange(1, 200)), "junk",
                          error=rng.random() < 0.2)
            else:
                child, offset = _next(rng, both, number, done[number])
                results += bool(both.send(
                    child.port, any_contribution(rng, group, child, offset),
                    f"group {number}, offset {offset}", error=rng.random() < 0.01))
            both.settle()
            finished = both.model.finished
            while finished(number, done[number]):
                done[number] += 1
        both.check_counters()
    assert results > 50


def _next(rng, both, number, done):
    """(child, offset) of a packet: often one that is waited for, else somewhere about there."""
    group = both.groups[number]
    waiting = both.model.unfinished(number)
    if waiting and rng.random() < 0.5:
        offset = rng.choice([*waiting])
        port = rng.choice(waiting[offset])
        return next(member for member in group.members if member.port == port), offset
    reach = WINDOW if rng.random() < 0.9 else 3 * WINDOW
    return rng.choice(group.members), done + rng.randrange(-reach // 2, reach)


@contextlib.contextmanager
def around(program, plan):
    """Switches that reduce the group of a plan."""
    with contextlib.ExitStack() as stack:
        fabrics = [stack.enter_context(Fabric(program)) for _ in plan.devices]
        switches = [Switch(fabric) for fabric in fabrics]
        for number, (fabric, switch) in enumerate(zip(fabrics, switches, strict=True)):
            fabric.reset()
            switch.configure(SwitchFile(CONFIG, (plan.group(number),), {}, 250))
        latest = max(fabric.run(0).cycle for fabric in fabrics)
        for fabric in fabrics:
            fabric.run(latest)
        yield fabrics, switches


def plan(**options):
    return AllReduce(**{"nodes": CONFIG.ports, "width": CONFIG.width, "payload": CONFIG.slot_bytes,
                        "window": CONFIG.window, "seed": harness.seed(), **options})


HARD = {"loss": 0.1, "duplicate": 0.1, "reorder": 4}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", CONFIG.types)
def test_all_reduce_over_a_bad_network(switch_program, op, dtype):
    rounds = plan(op=op, dtype=dtype, bytes=3000, rounds=4, **HARD)
    with around(switch_program, rounds) as (fabrics, [switch]):
        figures = run(rounds, fabrics)
        counters = switch.counters()
    assert figures["difference"] is None and figures["frame_faults"] == 0
    assert figures["checked_elements"] == CONFIG.ports * 4 * 3000 // (
        4 if dtype in ("fp32", "int32") else 2)
    assert figures["retransmitted"] > 0 and figures["results_again"] > 0
    for port in counters.ports:
        assert port.contributions == port.results == 4 * rounds.packets
        assert port.out_of_window == port.bounds == 0 and port.duplicates > 0


def test_a_barrier(switch_program):
    rounds = plan(bytes=0, rounds=30, **HARD)
    with around(switch_program, rounds) as (fabrics, _):
        figures = run(rounds, fabrics)
    assert figures["frame_faults"] == 0 and figures["retransmitted"] > 0


@pytest.mark.parametrize(("nodes", "topology", "radix"), [
    (8, "tree", 3), (4, "tree", 2), (4, "ring", 2), (2, "ring", 2)])
def test_all_reduce_over_switches_below_switches(switch_program, nodes, topology, radix):
    rounds = plan(nodes=nodes, topology=topology, radix=radix, bytes=1500, rounds=4, **HARD)
    with around(switch_program, rounds) as (fabrics, switches):
        figures = run(rounds, fabrics)
        counters = [switch.counters() for switch in switches]
    assert figures["difference"] is None and figures["frame_faults"] == 0
    assert figures["checked_elements"] == nodes * 4 * 1500 // 4
    assert all(uplink["up"]["lost"] and uplink["down"]["lost"] for uplink in figures["uplinks"])
    for device, counted in zip(rounds.devices, counters, strict=True):
        for port in counted.ports[:len(device.ports)]:
            assert port.contributions == port.results == 4 * rounds.packets
            assert port.out_of_window == port.bounds == 0


def test_a_barrier_over_switches_below_switches(switch_program):
    rounds = plan(nodes=8, topology="tree", radix=2, bytes=0, rounds=30, **HARD)
    with around(switch_program, rounds) as (fabrics, _):
        figures = run(rounds, fabrics)
    assert figures["frame_faults"] == 0 and figures["retransmitted"] > 0
