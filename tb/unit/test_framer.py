# SPDX-License-Identifier: Apache-2.0
"""Framer: what the codec reads in its containers is what went in, and no container is too long."""

import dataclasses
import functools
import json
import os

import blocks as blocks_top
import cocotb
import harness
import lean_scapy
import pytest
from agents import LaneMonitor
from agents.rules import BeatRules
from lean import Feeder, some_flow, some_record
from pacing import EVERY, FULL_RATE

from flytrim.config import LeanConfig
from flytrim.lean import container as c
from flytrim.lean.codec import Decoder, LeanFlow, Record, carried, decode
from flytrim.packet import Packet

CONFIG = {"flows": 8, "container_bytes": 512}
MAX_LENGTH = 4096


@functools.cache
def _model(width, ethernet):
    config = LeanConfig(width=width, ethernet=ethernet, **CONFIG)
    return harness.build(blocks_top.framer_verilog(config), blocks_top.TOP)


@pytest.mark.model
@pytest.mark.parametrize("ethernet", [False, True], ids=["link", "ethernet"])
def test_framer(width, ethernet):
    assert harness.run(_model(width, ethernet), __name__, parameters={
        "width": width, "ethernet": ethernet}) >= 10


class Bench(Feeder):
    """Feeds packets, expects each in a container, in order."""

    def __init__(self, dut, pacing=FULL_RATE):
        parameters = json.loads(os.environ["BENCH_PARAMETERS"])
        self.ethernet = parameters["ethernet"]
        super().__init__(dut, parameters["width"], "framer", pacing)
        self.rules = BeatRules("framer__o", self.lanes)
        self.monitor = LaneMonitor(self.edges, "framer__o", Packet(parameters["width"]), self.rng,
                                   pacing=pacing, callback=self._collect)
        self.dropped = self.opened = 0
        self.edges.every(self._count)
        self.flows, self.sent, self.frames, self._beats = {}, [], [], []

    async def register(self, number, flow, **options):
        self.flows[number] = flow
        await super().register(number, flow, **options)

    def packet(self, number, record):
        self.send(number, record)
        self.sent.append((self.flows[number].lean_id, record))

    def _count(self):
        if not self.edges.in_reset:
            self.dropped += int(self.dut.framer__dropped.value)
            self.opened += int(self.dut.framer__opened.value)

    def _collect(self, transaction):
        cycle, beat = transaction
        assert not beat.error
        self._beats.append((cycle, self.rules.bytes(beat.data, beat.count, beat.last)))
        if beat.last:
            self.frames.append(self._beats)
            self._beats = []

    def containers(self):
        """What left, as bytes."""
        for beats in self.frames:
            data = b"".join(part for _, part in beats)
            if self.ethernet:
                assert len(data) >= 60
                data = carried(data)
            yield data

    async def check(self, wait=60):
        """All packets are in containers; gives the containers as the codec reads them."""
        await self.fed()
        # A context written closes what is open.
        await super().register(0, self.flows[0])
        await self.edges.wait(wait)
        seen = None
        while seen != (seen := (len(self.frames), len(self._beats))):
            await self.edges.wait(300)
        assert not self._beats, "a container without an end"
        known = {flow.lean_id: flow for flow in self.flows.values()}
        decoder = Decoder(self.flows.values())
        found, records = [], []
        for data in self.containers():
            lean_scapy.read(data)
            found.append(decode(data, known))
            records += [(found[-1].flow, record) for record in decoder.receive(data)]
            assert found[-1].route == known[found[-1].flow].route
            assert len(data) <= CONFIG["container_bytes"] or len(found[-1].records) == 1
        for n, (got, expected) in enumerate(zip(records, self.sent, strict=False)):
            assert got == expected, f"packet {n}: {got} is not {expected}"
        assert len(records) == len(self.sent)
        assert not decoder.lost and not decoder.faults
        assert self.opened == len(found)
        return found


async def started(dut, pacing=FULL_RATE, flows=1, flush=1 << 31, **fields):
    bench = Bench(dut, pacing)
    await bench.edges.start()
    for number in range(flows):
        await bench.register(number, some_flow(bench.rng, 100 + number, **fields), flush=flush,
                             dst_mac=0x020000000002, src_mac=0x020000000001)
    return bench


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY)
async def records_of_every_length(dut, pacing):
    """Bare ones of one length, back to back, then the same as full ones."""
    bench = await started(dut, pacing)
    psn = bench.rng.getrandbits(24)
    lengths = sorted({1, 2, 3, 4, 5, *(n * bench.lanes + step for n in (1, 2, 3)
                                       for step in (-9, -4, -1, 0, 1, 4) if n * bench.lanes > 9)})
    for length in lengths:
        flow = dataclasses.replace(bench.flows[0], message_bytes=length)
        for kind in (True, False):
            for _ in range(7):
                record = some_record(bench.rng, flow, psn, bare=True)
                if not kind:
                    record = dataclasses.replace(record, solicited=1 - flow.solicited)
                bench.packet(0, dataclasses.replace(record))
                psn = (psn + 1) % (1 << 24)
    found = await bench.check()
    # But for those of the template's length, these are full ones.
    assert {each.full for each in found} >= {True}


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY)
async def random_packets(dut, pacing):
    bench = await started(dut, pacing, flows=4, flush=300)
    psns, number = [bench.rng.getrandbits(24) for _ in range(4)], 0
    for _ in range(500):
        if bench.rng.random() < 0.1:
            number = bench.rng.randrange(4)
        if bench.rng.random() < 0.05:
            psns[number] = bench.rng.getrandbits(24)
        bench.packet(number, some_record(bench.rng, bench.flows[number], psns[number],
                                         bare=bench.rng.random() < 0.8, longest=130))
        psns[number] = (psns[number] + 1) % (1 << 24)
    await bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def long_payloads(dut):
    bench = await started(dut, message_bytes=1024)
    for n, length in enumerate((1024, 1024, 0, 2047, 4095, MAX_LENGTH, 1, 1024)):
        bench.packet(0, Record(psn=n, opcode=bench.flows[0].opcode,
                               payload=bench.rng.randbytes(length), **bench.flows[0].bits))
    found = await bench.check(1000)
    assert [(each.full, len(each.records)) for each in found][:2] == [(False, 1), (False, 1)]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_closes_a_container(dut):
    bench = await started(dut, flows=2, message_bytes=4, opcode=0, route=None)
    flows = bench.flows
    sent = [(0, 1, True), (0, 2, True), (1, 3, True), (0, 3, True), (0, 4, False), (0, 5, True),
            (0, 7, True), (0, 7, True), (0, 0xFFFFFF, True), (0, 0, True)]
    for number, psn, bare in sent:
        bench.packet(number, some_record(bench.rng, flows[number], psn, bare=bare))
    found = await bench.check()
    assert [len(each.records) for each in found] == [2, 1, 1, 1, 1, 1, 1, 2]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_full_container_is_closed(dut):
    """With the record behind which no other of its size fits."""
    bench = await started(dut, message_bytes=4, route=None)
    each = (CONFIG["container_bytes"] - 16) // 4
    for psn in range(3 * each):
        bench.packet(0, some_record(bench.rng, bench.flows[0], psn, bare=True))
    await bench.fed()
    await bench.edges.wait(300)
    assert len(bench.frames) == 3
    assert [len(each.records) for each in await bench.check()] == [each] * 3


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(flush=[0, 1, 2, 50, 400])
async def the_flush_timer(dut, flush):
    bench = await started(dut, flush=flush, message_bytes=4)
    for psn in range(20):
        bench.packet(0, some_record(bench.rng, bench.flows[0], psn, bare=True))
    await bench.fed()
    last = bench.metas.cycles[-1]
    longest = (20 * 64 if bench.ethernet else 200) // bench.lanes
    await bench.edges.wait(flush + 40 + longest)
    if flush < 50:
        assert len(bench.frames) == -(-20 // (flush + 1))
        assert bench.frames[-1][-1][0] - last < 40 + flush + longest
    else:
        (beats,) = bench.frames
        assert flush < beats[-1][0] - bench.metas.cycles[0] < flush + 30
    await bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def what_is_dropped(dut):
    """Damaged packets, flows without context, too long ones, opcodes without payload."""
    bench = await started(dut)
    flow = bench.flows[0]

    def record(psn, **fields):
        return dataclasses.replace(some_record(bench.rng, flow, psn, bare=True), **fields)

    await bench.register(1, dataclasses.replace(flow, lean_id=9), enable=0)
    bad = [lambda psn: bench.send(0, record(psn), reason=19),
           lambda psn: bench.send(0, record(psn, payload=b""), reason=18),
           lambda psn: bench.send(1, record(psn)), lambda psn: bench.send(2, record(psn)),
           lambda psn: bench.send(8, record(psn)), lambda psn: bench.send(65000, record(psn)),
           lambda psn: bench.send(0, record(psn, payload=bytes(MAX_LENGTH + 1))),
           lambda psn: bench.send(0, record(psn, opcode=0x11))]
    for n, drop in enumerate(bad):
        bench.packet(0, record(n))
        drop(n + 1)
    bench.packet(0, record(len(bad)))
    found = await bench.check(1000)
    assert bench.dropped == len(bad)
    assert sum(len(each.records) for each in found) == len(bad) + 1
    # What is dropped leaves no trace: the records around it follow each other.
    assert len(found) <= 3


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(length=[4, 0, -1])
async def a_record_a_cycle(dut, length):
    """Of 4 bytes, of half a beat, and of a beat as a whole: as fast as the containers leave."""
    bench = Bench(dut)
    await bench.edges.start()
    size = {0: bench.lanes // 2, -1: bench.lanes}.get(length, length)
    await bench.register(0, LeanFlow(lean_id=1, opcode=0, message_bytes=size), dst_mac=1)
    count = 1500
    for psn in range(count):
        bench.packet(0, some_record(bench.rng, bench.flows[0], psn, bare=True))
    found = await bench.check()
    # That no container is longer than it may costs a beat each, where beats are what is short.
    cycles = bench.metas.cycles[-1] - bench.metas.cycles[0] + 1
    beats = sum(len(each) for each in bench.frames)
    if size <= bench.lanes // 4:
        assert cycles == count
    else:
        assert cycles <= max(count, beats) + 20
    assert len(found) >= size * count // CONFIG["container_bytes"]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_in_the_middle(dut):
    bench = await started(dut)
    for wait in range(0, 30, 3):
        for psn in range(12):
            bench.send(0, some_record(bench.rng, bench.flows[0], psn, bare=psn % 3 > 0))
        await bench.metas.idle()
        await bench.payloads.idle()
        await bench.edges.wait(wait)
        await bench.edges.reset()
        bench.frames, bench.sent, bench._beats, bench.opened = [], [], [], 0
        # Flows are unknown again.
        bench.send(0, some_record(bench.rng, bench.flows[0], 1, bare=True))
        await bench.edges.wait(20)
        await bench.register(0, bench.flows[0])
        bench.packet(0, some_record(bench.rng, bench.flows[0], 2, bare=True))
        await bench.check()
        bench.frames, bench.sent, bench.opened = [], [], 0
        await bench.edges.reset()
        await bench.register(0, bench.flows[0])


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def sequence_numbers_begin_anew_with_a_context(dut):
    bench = await started(dut, flows=2, flush=0)
    for _ in range(2):
        for psn in range(5):
            bench.packet(psn % 2, some_record(bench.rng, bench.flows[psn % 2], psn, bare=True))
        assert [each.sequence for each in await bench.check()] == [0, 0, 1, 1, 2]
        bench.frames, bench.sent, bench.opened = [], [], 0
        await bench.register(1, bench.flows[1], flush=0)
    assert c.VERSION == 1
