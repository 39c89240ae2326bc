# SPDX-License-Identifier: Apache-2.0
"""Counters against a dict: every cycle, the same row again, to their ends, cleared, reset."""

import random
from collections import defaultdict

import cocotb
import harness
import pytest
from agents import Edges
from amaranth.hdl import Shape
from blocks import AHEAD, COUNTED_FLOWS, TALLY, TOTAL

from flytrim.context import Outcome
from flytrim.verdict import Reason

LIMIT = {"timeout_time": 0.5, "timeout_unit": "ms"}
#: Cycles until what was told can be read.
SETTLES = 8
ROWS, FULL = TALLY["rows"], (1 << TALLY["width"]) - 1


@pytest.mark.model
def test_counters(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 8


class Bench:
    def __init__(self, dut):
        self.dut, self.edges = dut, Edges(dut)
        self.rng = random.Random(cocotb.RANDOM_SEED)
        for name in ("tally__i__valid", "tally__clear", "total__i__valid", "total__clear",
                     "flow_counters__outcomes__valid", "flow_counters__restarts",
                     "latency__first", "latency__leaves__valid", "latency__clear"):
            getattr(dut, name).value = 0

    async def start(self):
        await self.edges.start()
        return self

    def drive(self, **values):
        for name, value in values.items():
            getattr(self.dut, name).value = value

    def read(self, name, part=slice(None)):
        return int(getattr(self.dut, name).value)


class TallyBench(Bench):
    """A dict of what each row has counted, by the counters of :data:`blocks.TALLY`."""

    def __init__(self, dut):
        super().__init__(dut)
        self.rows = defaultdict(lambda: (0, 0))

    async def cycle(self, row=None, amount=0, clear=0):
        """One cycle, perhaps with an event; an event beside a clear counts before it."""
        self.drive(tally__i__valid=int(row is not None), tally__clear=clear,
                   tally__i__payload=self.rng.getrandbits(9) if row is None
                   else row | 1 << 3 | amount << 4)
        if row is not None:
            frames, size = self.rows[row]
            self.rows[row] = min(frames + 1, FULL), min(size + amount, FULL)
        if clear:
            self.rows.clear()
        await self.edges.wait()

    async def rest(self, cycles=SETTLES):
        for _ in range(cycles):
            await self.cycle()

    async def row(self, row):
        """What a row reads."""
        self.drive(tally__index=row)
        await self.rest(3)
        value = self.read("tally__o")
        return value & FULL, value >> TALLY["width"]

    async def check(self):
        await self.rest()
        for row in range(ROWS):
            assert await self.row(row) == self.rows[row], f"row {row}"


@cocotb.test(**LIMIT)
@cocotb.parametrize(rows=[1, 2, 3, ROWS], rate=[0.5, 1.0])
async def every_event_counts_once_in_its_row(dut, rows, rate):
    bench = await TallyBench(dut).start()
    for _ in range(6):
        for _ in range(80):
            row = bench.rng.randrange(rows) if bench.rng.random() < rate else None
            await bench.cycle(row, bench.rng.randrange(4))
        await bench.check()
        await bench.cycle(clear=1)


@cocotb.test(**LIMIT)
async def a_counter_stops_at_its_largest_value(dut):
    bench = await TallyBench(dut).start()
    for amount in (31, 1, 0, 31):
        for _ in range(100):
            await bench.cycle(0, amount)
            await bench.cycle(bench.rng.randrange(2), bench.rng.randrange(2))
        await bench.check()
    assert bench.rows[0] == (FULL, FULL)
    await bench.cycle(clear=1)
    await bench.cycle(0, 3)
    await bench.check()
    assert bench.rows[0] == (1, 3)


@cocotb.test(**LIMIT)
async def a_reader_sees_only_what_was(dut):
    """Under full load a row reads what it was in one of the last cycles, both counters alike."""
    bench = await TallyBench(dut).start()
    await bench.rest()
    was = [dict.fromkeys(range(ROWS), (0, 0))] * (SETTLES + 3)
    asked, moving = [0, 0, 0], 0
    for cycle in range(3000):
        index = bench.rng.randrange(3)
        bench.drive(tally__index=index)
        asked = [*asked[1:], index]
        # Behind a clear events in flight may stand on either side of it.
        clear = int(cycle % 500 == 499)
        row = None if 480 < cycle % 500 < 500 else bench.rng.randrange(3)
        await bench.cycle(row, bench.rng.randrange(2), clear)
        was = [*was[1:], {row: bench.rows[row] for row in range(ROWS)}]
        value = bench.read("tally__o")
        found = value & FULL, value >> TALLY["width"]
        row = asked[0]
        assert found in [each[row] for each in was], (
            f"cycle {cycle}: row {row} reads {found}, was {[each[row] for each in was]}")
        moving += found != was[-1][row]
    assert moving > 500


@cocotb.test(**LIMIT)
@cocotb.parametrize(events=[1, 20])
async def reset_clears_at_once_whatever_is_in_flight(dut, events):
    """Also where the first event of a row is written as reset comes."""
    bench = await TallyBench(dut).start()
    for gap in range(12):
        for cycles in (1, 2):
            for _ in range(events):
                await bench.cycle(bench.rng.randrange(2), 3)
            await bench.rest(gap)
            await bench.edges.reset(cycles)
            bench.rows.clear()
            for _ in range(gap):
                await bench.cycle(bench.rng.randrange(2), 1)
            await bench.check()


@cocotb.test(**LIMIT)
async def a_clear_that_follows_a_clear_clears(dut):
    bench = await TallyBench(dut).start()
    for between in range(SETTLES):
        for _ in range(5):
            await bench.cycle(bench.rng.randrange(ROWS), 7)
        await bench.rest()
        await bench.cycle(clear=1)
        await bench.rest(between)
        await bench.cycle(clear=1)
        await bench.check()


@cocotb.test(**LIMIT)
async def a_total_adds_up_and_stops(dut):
    bench = await Bench(dut).start()
    total, largest = 0, (1 << TOTAL["width"]) - 1
    for step in range(2000):
        valid, amount = bench.rng.random() < 0.7, bench.rng.randrange(2 if step % 400 < 300 else 32)
        bench.drive(total__i__valid=int(valid), total__i__payload=amount)
        total = min(total + valid * amount, largest)
        await bench.edges.wait()
        if step % 50 == 49:
            bench.drive(total__i__valid=0)
            await bench.edges.wait(4)
            assert bench.read("total__o") == total
        if step % 400 == 399:
            assert total == largest
            bench.drive(total__clear=1)
            await bench.edges.wait()
            bench.drive(total__clear=0)
            total = 0


@cocotb.test(**LIMIT)
async def flows_count_from_their_restart_on(dut):
    bench = await Bench(dut).start()
    counted = defaultdict(lambda: [0, 0])
    number, held = 0, 0
    for step in range(4000):
        # A number is restarted, perhaps, once it has stood while what was in flight of it landed.
        held += 1
        restarts = held == SETTLES and bench.rng.random() < 0.3
        flow = bench.rng.randrange(3 if step % 2000 < 1000 else COUNTED_FLOWS)
        outcome = {"reason": bench.rng.choice((Reason.NONE, Reason.NONE, Reason.ICRC)),
                   "flow": flow, "hit": 1, "ends_message": bench.rng.getrandbits(1)}
        valid = bench.rng.random() < 0.9 and (flow != number or held > SETTLES)
        bits = Outcome.const({**outcome, "reason": int(outcome["reason"])}).as_bits()
        bench.drive(flow_counters__outcomes__valid=int(valid),
                    flow_counters__outcomes__payload=bits if valid
                    else bench.rng.getrandbits(Shape.cast(Outcome).width),
                    flow_counters__number=number, flow_counters__restarts=int(restarts))
        if valid and outcome["reason"] is Reason.NONE:
            counted[flow][0] += 1
            counted[flow][1] += outcome["ends_message"]
        if restarts:
            counted.pop(number, None)
        await bench.edges.wait()
        if held == 2 * SETTLES:
            # Beside traffic of this very flow: what is told now is read later.
            shown = list(counted[number])
            bench.drive(flow_counters__outcomes__valid=0)
            await bench.edges.wait(SETTLES)
            found = [bench.read(f"flow_counters__{name}") for name in ("packets", "messages")]
            assert found == shown, f"step {step}, flow {number}"
            number, held = bench.rng.randrange(COUNTED_FLOWS), 0


@cocotb.test(**LIMIT)
async def latencies_are_measured_and_sorted(dut):
    bench = await Bench(dut).start()
    await bench.edges.wait(3)
    for _ in range(3):
        latencies = []
        for bits in (*range(16), *range(16), 23):
            bench.drive(latency__first=1)
            await bench.edges.wait()
            bench.drive(latency__first=0)
            await bench.edges.wait()
            # The stamp of the frame holds; a payload that is said to have come so much before.
            stamp = bench.read("latency__stamp")
            behind = bench.rng.randrange(1 << bits, 2 << bits) - 1
            latencies.append((behind + AHEAD + 2) % (1 << 24))
            bench.drive(latency__leaves__valid=1,
                        latency__leaves__payload=(stamp - behind) % (1 << 24))
            await bench.edges.wait()
            bench.drive(latency__leaves__valid=0, latency__leaves__payload=stamp)
        await bench.edges.wait(SETTLES)
        assert bench.read("latency__minimum") == min(latencies)
        assert bench.read("latency__maximum") == max(latencies)
        for bucket in range(16):
            bench.drive(latency__index=bucket)
            await bench.edges.wait(3)
            assert bench.read("latency__count") == sum(
                min(each.bit_length() - 1, 15) == bucket for each in latencies), bucket
        bench.drive(latency__clear=1)
        await bench.edges.wait()
        bench.drive(latency__clear=0)
        await bench.edges.wait(2)
        assert bench.read("latency__minimum") == (1 << 24) - 1
        assert bench.read("latency__maximum") == 0
