# SPDX-License-Identifier: Apache-2.0
"""Queue: first in, first out; what is not committed stays hidden and can be taken back."""

import random

import cocotb
import harness
import pytest
from agents import Edges, LaneMonitor, now
from amaranth.hdl import Shape
from bench import config_of_run
from blocks import QUEUE
from pacing import EVERY, FULL_RATE, ticks

from flytrim.packet import Packet


@pytest.mark.model
def test_queue(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 7


class Bench:
    """Writes, commits and rewinds at random, never without room; the expectation is a list."""

    def __init__(self, dut, pacing):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.edges, self.shape = Edges(dut), Packet(config_of_run().width)
        self.width = Shape.cast(self.shape).width
        self.received, self.visible, self.hidden = [], [], []
        self.most = 0
        self._room_then = False
        self.monitor = LaneMonitor(self.edges, "queue__o", self.shape, self.rng, pacing=pacing,
                                   callback=self._receive)
        self.pace = ticks(pacing.source, self.rng)
        self.drive(None, 0, 0)

    def _receive(self, transaction):
        cycle, item = transaction
        number = len(self.received)
        assert number < len(self.visible), f"@ cycle {cycle}: item {number} was never committed"
        assert item.as_bits() == self.visible[number], f"@ cycle {cycle}: item {number} differs"
        self.received.append(cycle)

    def drive(self, item, commit, rewind):
        self.dut.queue__i__valid.value = int(item is not None)
        self.dut.queue__i__payload.value = (self.rng.getrandbits(self.width) if item is None
                                            else item)
        self.dut.queue__commit.value, self.dut.queue__rewind.value = commit, rewind

    async def cycle(self, item=None, commit=0, rewind=0):
        """Drive one cycle, and let the expectation follow."""
        self.drive(item, commit, rewind)
        if rewind:
            self.hidden = []
        elif item is not None:
            self.hidden.append(item)
            if commit:
                self.visible += self.hidden
                self.hidden = []
        await self.edges.wait()
        self.most = max(self.most, len(self.visible) + len(self.hidden) - len(self.received))

    def room(self):
        return bool(self.dut.queue__room.value)


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY)
async def keeps_order_under_random_use(dut, pacing):
    bench = Bench(dut, pacing)
    await bench.edges.start()
    await bench.edges.wait(2)
    for _ in range(4000):
        # ``room`` is of the cycle before; of the margin of three, so many are safe.
        item = bench.rng.getrandbits(bench.width) if bench.room() and next(bench.pace) else None
        full = len(bench.hidden) > QUEUE["depth"] // 2
        rewind = int(bench.rng.random() < 0.05 or full and item is None)
        await bench.cycle(item, int(bench.rng.random() < 0.4), rewind)
    bench.drive(None, 0, 1)
    await bench.edges.wait(100)
    assert len(bench.received) == len(bench.visible) > 500
    assert bench.room()
    if pacing.sink < 1:
        assert bench.most >= QUEUE["depth"] - QUEUE["margin"]


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def empty_queue_passes_an_item_in_one_cycle(dut):
    bench = Bench(dut, FULL_RATE)
    await bench.edges.start()
    await bench.edges.wait(3)
    for gap in (0, 0, 0, 1, 2, 0, 3):
        await bench.cycle(bench.rng.getrandbits(bench.width), commit=1)
        sent = now()
        bench.drive(None, 0, 0)
        await bench.edges.wait(2)
        assert bench.received[-1] == sent + 1
        await bench.edges.wait(gap)


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def full_rate_without_a_bubble(dut):
    bench = Bench(dut, FULL_RATE)
    await bench.edges.start()
    await bench.edges.wait(3)
    for _ in range(100):
        assert bench.room()
        await bench.cycle(bench.rng.getrandbits(bench.width), commit=1)
    bench.drive(None, 0, 0)
    await bench.edges.wait(5)
    assert len(bench.received) == 100
    assert bench.received[-1] - bench.received[0] == 99
