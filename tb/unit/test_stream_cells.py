# SPDX-License-Identifier: Apache-2.0
"""Cells of streams in Amaranth's own simulator: the queue without gaps, and round robin."""

import random

import harness
import pytest
from amaranth.sim import Simulator

from flytrim.stream import RoundRobin, SteadyQueue

DEPTH, MARGIN = 32, 12


def simulate(component, *benches):
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("taken", [1.0, 0.9, 0.5, 0.2])
def test_items_in_a_row_leave_in_a_row_while_they_are_taken(taken):
    queue, rng = SteadyQueue(16, depth=DEPTH, margin=MARGIN), random.Random(harness.seed())
    items = [rng.getrandbits(16) for _ in range(1500)]
    written, received = [], []
    cycle, ended = 0, []

    async def source(ctx):
        left, at = 0, 0
        while at < len(items):
            # Bursts without a gap, which begin only while all of one has room.
            if not left and ctx.get(queue.room) and rng.random() < 0.3:
                left = min(rng.randrange(1, MARGIN - 1), len(items) - at)
                ended.append(at + left)
            ctx.set(queue.i.valid, bool(left))
            if left:
                ctx.set(queue.i.payload, items[at])
                written.append(cycle)
                at, left = at + 1, left - 1
            await ctx.tick()
        ctx.set(queue.i.valid, 0)

    async def sink(ctx):
        nonlocal cycle
        owed = False
        while len(received) < len(items):
            ready = rng.random() < taken
            ctx.set(queue.o.ready, ready)
            await ctx.delay(1e-9)
            valid = bool(ctx.get(queue.o.valid))
            assert valid or not owed, f"a gap before item {len(received)} in cycle {cycle}"
            owed = False
            if valid and ready:
                received.append(ctx.get(queue.o.payload))
                # The next one of the same burst has been written by now.
                owed = len(received) not in ended
            await ctx.tick()
            cycle += 1

    simulate(queue, source, sink)
    assert received == items


def test_an_empty_queue_passes_an_item_in_one_cycle():
    queue = SteadyQueue(8, depth=DEPTH, margin=MARGIN)

    async def bench(ctx):
        ctx.set(queue.o.ready, 1)
        for item in range(1, 20):
            ctx.set(queue.i.valid, 1)
            ctx.set(queue.i.payload, item)
            await ctx.tick()
            ctx.set(queue.i.valid, 0)
            assert ctx.get(queue.o.valid) and ctx.get(queue.o.payload) == item
            await ctx.tick().repeat(1 + item % 3)

    simulate(queue, bench)


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_round_robin_serves_the_next_behind_the_last_one(count):
    arbiter, rng = RoundRobin(count), random.Random(harness.seed())

    async def bench(ctx):
        last = -1
        for _ in range(500):
            requests, served = rng.getrandbits(count), rng.random() < 0.7
            ctx.set(arbiter.requests, requests)
            ctx.set(arbiter.served, served)
            order = [n % count for n in range(last + 1, last + 1 + count)]
            next_one = next((n for n in order if requests >> n & 1), None)
            assert ctx.get(arbiter.grant) == (0 if next_one is None else 1 << next_one)
            if served and next_one is not None:
                last = next_one
            await ctx.tick()
            if served and next_one is None:
                # Nobody was: what comes behind the last one is as it was, or anybody.
                last = -1

    simulate(arbiter, bench)
