# SPDX-License-Identifier: Apache-2.0
"""Flow CAM: looks up at full rate, refuses what it must, and changes in one step."""

import random

import cocotb
import harness
import pytest
from agents import Edges, LaneMonitor, LaneSource, now
from bench import config_of_run
from pacing import FULL_RATE

from flytrim.context import FlowContext, FlowKey, Lookup
from flytrim.flow_cam import FlowCommand, FlowOperation, FlowStatus

KEY_FIELDS = [name for name, _ in FlowKey.as_shape()]


@pytest.mark.model
def test_flow_cam(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 2


class Table:
    """The contract, as a dict: number to (key, context)."""

    def __init__(self, flows):
        self.flows, self.entries = flows, {}

    def copy(self):
        other = Table(self.flows)
        other.entries = dict(self.entries)
        return other

    def command(self, operation, number, key, context):
        """Run a command; gives the status."""
        if not operation:
            return FlowStatus.UNKNOWN
        if number >= self.flows:
            return FlowStatus.BAD_NUMBER
        if (operation == FlowOperation.INSERT) == (number in self.entries):
            return (FlowStatus.OCCUPIED if operation == FlowOperation.INSERT else FlowStatus.EMPTY)
        if operation == FlowOperation.DELETE:
            del self.entries[number]
            return FlowStatus.DONE
        for other, (there, options) in self.entries.items():
            if there == key and not (operation == FlowOperation.REPLACE and other == number):
                same = all(options[name] == context[name]
                           for name in ("check_vlan", "vlan", "check_sport", "sport"))
                return FlowStatus.DUPLICATE if same else FlowStatus.OVERLAP
        self.entries[number] = key, context
        return FlowStatus.DONE

    def lookup(self, key):
        """Bits of the answer."""
        known = any(there["dport"] == key["dport"] for there, _ in self.entries.values())
        for number, (there, context) in self.entries.items():
            if there == key:
                return Lookup.const({"dport_known": known, "hit": 1, "flow": number,
                                     "context": context}).as_bits()
        return Lookup.const({"dport_known": known}).as_bits()


def random_fields(shape, rng):
    return {name: rng.getrandbits(shape.from_bits(0).shape()[name].width)
            for name, _ in shape.as_shape()}


class Bench:
    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.edges, self.table = Edges(dut), Table(config_of_run().flows)
        self.keys = LaneSource(self.edges, "cam__i", FlowKey, self.rng)
        self.commands = LaneSource(self.edges, "cam__commands", FlowCommand, self.rng)
        self.monitor = LaneMonitor(self.edges, "cam__o", Lookup, self.rng, pacing=FULL_RATE,
                                   callback=lambda got: self.answers.append(got))
        self.answers, self.asked = [], []
        # A small pool, so that keys meet again; neighbours differ in one bit.
        self.pool = [random_fields(FlowKey, self.rng) for _ in range(6)]
        for key in self.pool[:6]:
            name = self.rng.choice(KEY_FIELDS)
            self.pool.append({**key, name: key[name] ^ 1})

    async def ask(self, tables):
        """One cycle with a lookup in it, that the table answers in one of these states."""
        if not self.keys.waiting:
            key = self.rng.choice(self.pool)
            self.keys.send(key)
            self.asked.append((key, tables))
        await self.edges.wait()

    async def run(self, operation, number, key, context):
        """A command under full-rate lookups, whose answers may be of before or after."""
        before = self.table.copy()
        expected = self.table.command(operation, number, key, context)
        tables = (before, self.table.copy())
        for _ in range(self.rng.randrange(4)):
            await self.ask(tables)
        self.commands.send({"operation": operation, "flow": number, "key": key,
                            "context": context})
        start, done = now(), len(self.commands.cycles)
        while len(self.commands.cycles) == done or not self.dut.cam__commands__ready.value:
            await self.ask(tables)
            assert now() - start < self.table.flows + 20, "the command does not end"
        status = int(self.dut.cam__status.value)
        assert status == expected, f"operation {operation} on {number}: {FlowStatus(status)!r}"
        return expected

    async def check(self):
        await self.keys.idle()
        await self.edges.wait(5)
        assert len(self.answers) == len(self.asked)
        state = None
        for number, ((key, tables), (cycle, answer), taken) in enumerate(
                zip(self.asked, self.answers, self.keys.cycles, strict=True)):
            assert cycle - taken == 2, f"lookup {number}: latency {cycle - taken}"
            if tables is not state:
                state, allowed = tables, [0, 1]
            agrees = [n for n in allowed if tables[n].lookup(key) == answer.as_bits()]
            assert agrees, (f"lookup {number} @ cycle {cycle}: {answer!r} is of no state of the "
                            f"table, or of one already left")
            # Once only the later state fits, the earlier one must not come back.
            if agrees == [1]:
                allowed = [1]


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def random_commands_under_lookups(dut):
    bench = Bench(dut)
    await bench.edges.start()
    seen = set()
    for _ in range(400):
        operation = bench.rng.choice((0, 1, 1, 1, 2, 2, 3))
        number = bench.rng.choice((*range(4), *range(4), bench.table.flows - 1,
                                   bench.table.flows, 0xFFFF))
        context = random_fields(FlowContext, bench.rng)
        if bench.rng.random() < 0.5:
            context |= {"check_vlan": 0, "vlan": 0, "check_sport": 0, "sport": 0}
        seen.add(await bench.run(operation, number, bench.rng.choice(bench.pool), context))
    assert seen == set(FlowStatus)
    await bench.check()


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def holds_as_many_flows_as_it_says(dut):
    bench = Bench(dut)
    await bench.edges.start()
    bench.pool = [{**random_fields(FlowKey, bench.rng), "qpn": n} for n in range(bench.table.flows)]
    for number, key in enumerate(bench.pool):
        context = random_fields(FlowContext, bench.rng)
        assert await bench.run(FlowOperation.INSERT, number, key, context) == FlowStatus.DONE
    tables = (bench.table, bench.table)
    for _ in range(4 * bench.table.flows):
        await bench.ask(tables)
    await bench.check()
