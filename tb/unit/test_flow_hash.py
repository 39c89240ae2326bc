# SPDX-License-Identifier: Apache-2.0
"""Hashed flow table: behaves as the CAM does, while entries move, and up to the last room."""

import itertools
import json
import math
import os
import random

import blocks as blocks_top
import cocotb
import harness
import pytest
from agents import PERIOD_NS
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from flow_table import (
    FlowTableBench,
    Table,
    command_bits,
    random_bits,
    random_commands,
    random_key,
)
from pacing import EVERY

from flytrim.context import FlowContext, FlowKey, Lookup
from flytrim.flow_cam import FlowOperation, FlowStatus
from flytrim.flow_hash import FlowHash
from flytrim.place_hash import BANKS, PlaceHash

#: Entries that find room for sure, as a share of the flows.
LOAD = 0.9
INSERT, REPLACE, DELETE = FlowOperation.INSERT, FlowOperation.REPLACE, FlowOperation.DELETE


@pytest.mark.model
def test_flow_hash(blocks, width):
    model, parameters = blocks
    # The table is the same at every width: one that it stands beside is enough for the most.
    select, count = ("small", 6) if width == 64 else ("small_random", 2)
    assert harness.run(model, __name__, select=select, parameters=parameters) == count


def pytest_generate_tests(metafunc):
    if "flows" in metafunc.fixturenames:
        all_widths = "1024" in metafunc.config.getoption("--widths").split(",")
        metafunc.parametrize("flows", (4096, 65536) if all_widths else (4096,))


@pytest.mark.model
def test_flow_hash_load(flows):
    model = harness.build(blocks_top.hash_verilog(flows), blocks_top.TOP)
    assert harness.run(model, __name__, select="large", parameters={"flows": flows}) >= len(KEYS)


def small_bench(dut, **options):
    flows, ports = blocks_top.HASH["flows"], blocks_top.HASH["ports"]
    return FlowTableBench(dut, "hash", lambda: Table(flows, ports), latency=FlowHash.latency,
                          patience=3000, **options)


def of_few_ports(rng, count):
    """Random keys of as many ports as the small table takes."""
    ports = [rng.getrandbits(16) for _ in range(blocks_top.HASH["ports"])]
    return [random_key(rng, dport=rng.choice(ports)) for _ in range(count)]


def of_one_digest(rng, count):
    """Keys that may stand in the same places, whatever these are: their digests are equal."""
    size = FlowKey.as_shape().size
    digest = PlaceHash(size, 1).digest
    addresses = range(FlowKey.as_shape()["src"].offset, FlowKey.as_shape()["dport"].offset)
    basis, differences = {}, []
    for bit in addresses:
        column = sum(each << n for n, each in
                     enumerate(digest([int(n == bit) for n in range(size)])))
        difference = 1 << bit
        while column and column.bit_length() in basis:
            other, its = basis[column.bit_length()]
            column, difference = column ^ other, difference ^ its
        if column:
            basis[column.bit_length()] = column, difference
        else:
            differences.append(difference)
    key = random_bits(FlowKey, rng)
    return [key ^ difference for difference in differences[:count]]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def small_random_commands_under_lookups(dut, pacing):
    bench = small_bench(dut, pacing=pacing)
    await bench.start()
    flows = bench.table.flows
    await random_commands(bench, (*range(4), *range(4), flows - 1, flows, 0xFFFF),
                          set(FlowStatus) - {FlowStatus.FULL})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def small_moves_entries_under_lookups(dut):
    """A table that is nearly full, some refused, none lost."""
    bench = small_bench(dut)
    await bench.start()
    flows = bench.table.flows
    bench.pool = of_few_ports(bench.rng, flows + 16)

    async def run(operation, number):
        used = {key for key, _ in bench.table.entries.values()}
        key = bench.rng.choice(sorted(set(bench.pool) - used))
        status = await bench.run(operation, number, key, random_bits(FlowContext, bench.rng),
                                 full=True)
        assert status != FlowStatus.FULL or len(bench.table.entries) > 0.75 * flows

    for _ in range(2):
        for number in range(flows):
            await run(INSERT, number)
        await bench.ask_all(bench.pool)
        for _ in range(flows):
            number = bench.rng.randrange(flows)
            operation = bench.rng.choice((REPLACE, DELETE))
            await run(operation if number in bench.table.entries else INSERT, number)
        await bench.ask_all(bench.pool)
        for number in list(bench.table.entries):
            await bench.run(DELETE, number)
        await bench.ask_all(bench.pool)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def small_refuses_what_has_no_room(dut):
    bench = small_bench(dut)
    await bench.start()
    rng, room = bench.rng, BANKS + blocks_top.HASH["slots"] - 1
    *keys, more, last = of_one_digest(rng, room + 2)
    other, others = random_key(rng, dport=FlowKey.from_bits(more).dport), bench.table.flows - 1
    bench.pool = [*keys, more, last, other]

    async def run(operation, number, key=0):
        status = await bench.run(operation, number, key, random_bits(FlowContext, rng), full=True)
        await bench.ask_all(bench.pool)
        return status

    assert await run(INSERT, others, other) == FlowStatus.DONE
    for number, key in enumerate(keys):
        assert await run(INSERT, number, key) == FlowStatus.DONE
    for _ in range(2):
        assert await run(INSERT, room, more) == FlowStatus.FULL
        assert await run(REPLACE, others, more) == FlowStatus.FULL
        for key in keys:
            assert await run(INSERT, room, key) in (FlowStatus.DUPLICATE, FlowStatus.OVERLAP)
        for number, key in enumerate(keys):
            assert await run(REPLACE, number, key) == FlowStatus.DONE
        for number in range(room):
            assert await run(REPLACE, number, more) == FlowStatus.DONE
            assert await run(REPLACE, number, keys[number]) == FlowStatus.DONE
        assert await run(REPLACE, others, last) == FlowStatus.FULL
        number = rng.randrange(room)
        assert await run(DELETE, number) == FlowStatus.DONE
        assert await run(REPLACE, others, more) == FlowStatus.DONE
        assert await run(INSERT, number, keys[number]) == FlowStatus.FULL
        assert await run(REPLACE, others, other) == FlowStatus.DONE
        assert await run(INSERT, number, keys[number]) == FlowStatus.DONE


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def small_counts_ports(dut):
    bench = small_bench(dut)
    await bench.start()
    rng, ports = bench.rng, blocks_top.HASH["ports"]
    bench.pool = [random_key(rng, dport=4791 + port) for port in range(ports + 2)
                  for _ in range(3)]
    entries = bench.table.entries
    seen = set()
    for _ in range(300):
        number, key = rng.randrange(2 * ports), rng.choice(bench.pool)
        operation = rng.choice((REPLACE, REPLACE, DELETE)) if number in entries else INSERT
        seen.add((operation, await bench.run(operation, number, key)))
    await bench.check()
    assert {(INSERT, FlowStatus.PORTS), (REPLACE, FlowStatus.PORTS)} <= seen


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def small_empties_at_reset(dut):
    """In the middle of commands, of moves, and of emptying."""
    bench = small_bench(dut)
    await bench.start()
    rng, flows = bench.rng, bench.table.flows
    for _ in range(12):
        bench.pool = of_few_ports(rng, flows)
        for number in range(rng.choice((5, flows - 8))):
            await bench.run(INSERT, number, bench.pool[number], random_bits(FlowContext, rng),
                            full=True)
        await bench.ask_all(bench.pool[:10])
        number = rng.randrange(flows)
        operation = rng.choice((REPLACE, DELETE)) if number in bench.table.entries else INSERT
        await bench.begin(operation, number, rng.choice(bench.pool), 0, rng.randrange(120))
        for _ in range(rng.choice((1, 1, 2))):
            await bench.reset()
        await bench.ask_all(bench.pool)


def ipv4(src=1, dst=1, qpn=0x11):
    return FlowKey.const({"src": 0x0A000000 + src, "dst": 0x0A000000 + dst, "dport": 4791,
                          "qpn": qpn}).as_bits()


def every_pair(flows, rng):
    side = math.isqrt(flows)
    return [ipv4(src=n % side, dst=n // side) for n in range(flows)]


def few_bits_apart(flows, rng):
    """A key, and those that differ from it in one bit, two, three; of one port."""
    key, shape = random_bits(FlowKey, rng), FlowKey.as_shape()
    ports = range(shape["dport"].offset, shape["dport"].offset + 16)
    bits = [1 << bit for bit in range(shape.size) if bit not in ports]
    apart = (key ^ sum(chosen) for count in range(4)
             for chosen in itertools.combinations(bits, count))
    return list(itertools.islice(apart, flows))


#: Sets of keys as they come where somebody counts, beside random ones.
KEYS = {
    "random": lambda flows, rng: [random_key(rng, dport=4791) for _ in range(flows)],
    "addresses": lambda flows, rng: [ipv4(src=n) for n in range(flows)],
    "queue_pairs": lambda flows, rng: [ipv4(qpn=n) for n in range(flows)],
    "equal_low_bits": lambda flows, rng: [ipv4(qpn=n << 8) for n in range(flows)],
    "every_pair": every_pair,
    "few_bits_apart": few_bits_apart,
}


class Quick:
    """Commands and lookups one after the other, with little to do a cycle."""

    def __init__(self, dut, flows):
        self.dut, self.table = dut, Table(flows, ports=8)
        self.rng = random.Random(cocotb.RANDOM_SEED)

    async def start(self):
        dut = self.dut
        dut.rst.value, dut.hash__i__valid.value, dut.hash__commands__valid.value = 1, 0, 0
        Clock(dut.clk, PERIOD_NS, "ns").start()
        for _ in range(2):
            await RisingEdge(dut.clk)
        dut.rst.value = 0
        await RisingEdge(dut.hash__commands__ready)

    async def run(self, operation, number, key=0, full=False):
        """The status of a command that ends as the table says, or for want of room."""
        dut, command = self.dut, (operation, number, key, random_bits(FlowContext, self.rng))
        await RisingEdge(dut.clk)
        dut.hash__commands__payload.value = command_bits(*command)
        for valid in (1, 0):
            dut.hash__commands__valid.value = valid
            await RisingEdge(dut.clk)
        await RisingEdge(dut.hash__commands__ready)
        status = FlowStatus(int(dut.hash__status.value))
        assert status == self.table.status(*command) or (full and status == FlowStatus.FULL), (
            f"{operation!r} on {number}: {status!r}")
        if status == FlowStatus.DONE:
            self.table.apply(*command)
        return status

    async def look_up(self, keys):
        """All keys, back to back."""
        dut = self.dut
        dut.hash__i__valid.value = 1
        for n in range(len(keys) + FlowHash.latency):
            dut.hash__i__payload.value = keys[n % len(keys)]
            await RisingEdge(dut.clk)
            if n >= FlowHash.latency:
                key = keys[n - FlowHash.latency]
                answer = int(dut.hash__o__payload.value)
                assert dut.hash__o__valid.value and answer == self.table.lookup(key), (
                    f"key {key:#x}: {Lookup.from_bits(answer)!r}")
        dut.hash__i__valid.value = 0


@cocotb.test(timeout_time=400, timeout_unit="ms")
@cocotb.parametrize(keys=tuple(cocotb.Param(name, name=name) for name in KEYS))
async def large_takes_nine_tenths(dut, keys):
    flows = json.loads(os.environ["BENCH_PARAMETERS"])["flows"]
    quick = Quick(dut, flows)
    await quick.start()
    pool = KEYS[keys](flows, quick.rng)
    for number in range(int(LOAD * flows)):
        assert await quick.run(INSERT, number, pool[number]) == FlowStatus.DONE, (
            f"refused at {number}")
    await quick.look_up(pool)
    if keys != "random":
        return
    refused = [number for number in range(int(LOAD * flows), flows)
               if await quick.run(INSERT, number, pool[number], full=True) == FlowStatus.FULL]
    cocotb.log.info("first refused at %.1f %%", 100 * min(refused, default=flows) / flows)
    await quick.look_up(pool)
    for number in list(quick.table.entries):
        await quick.run(DELETE, number)
    await quick.look_up(pool)
    for number in range(int(LOAD * flows)):
        await quick.run(INSERT, number, pool[-number])
    await quick.look_up(pool)
