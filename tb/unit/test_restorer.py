# SPDX-License-Identifier: Apache-2.0
"""Restorer: packets out of the codec's containers, and nothing out of damaged ones."""

import dataclasses
import functools
import json
import os
import random
from collections import Counter

import blocks as blocks_top
import cocotb
import harness
import pytest
from agents import Edges, LaneMonitor, LaneSource, beats_of, now
from agents.rules import BeatRules
from lean import BITS, extensions_of, some_flow, some_record
from pacing import EVERY, FULL_RATE

from flytrim.config import LeanConfig
from flytrim.context import MetaRecord
from flytrim.lean import container as c
from flytrim.lean.codec import Decoder, Encoder, LeanFlow, Record, carry
from flytrim.lean.context import WriteTemplate
from flytrim.packet import Packet

FLOWS = 8


@functools.cache
def _model(width, ethernet):
    config = LeanConfig(width=width, ethernet=ethernet, flows=FLOWS)
    return harness.build(blocks_top.restorer_verilog(config), blocks_top.TOP)


@pytest.mark.model
@pytest.mark.parametrize("ethernet", [False, True], ids=["link", "ethernet"])
def test_restorer(width, ethernet):
    assert harness.run(_model(width, ethernet), __name__, parameters={
        "width": width, "ethernet": ethernet}) >= 10


class Bench:
    """Sends containers, expects what the codec's decoder makes of them."""

    def __init__(self, dut, pacing=FULL_RATE):
        parameters = json.loads(os.environ["BENCH_PARAMETERS"])
        self.ethernet, width = parameters["ethernet"], parameters["width"]
        self.config = LeanConfig(width=width, ethernet=self.ethernet, flows=FLOWS)
        self.dut, self.lanes, self.rng = dut, width // 8, random.Random(cocotb.RANDOM_SEED)
        self.edges = Edges(dut)
        self.writes = LaneSource(self.edges, "restorer__write", WriteTemplate, self.rng)
        self.source = LaneSource(self.edges, "restorer__i", Packet(width), self.rng,
                                 pacing=pacing)
        self.rules = BeatRules("restorer__o", self.lanes)
        LaneMonitor(self.edges, "restorer__o", Packet(width), self.rng, pacing=pacing,
                    callback=self._payload)
        LaneMonitor(self.edges, "restorer__o_meta", MetaRecord, self.rng, pacing=pacing,
                    callback=self._meta)
        self.edges.every(self._events)
        self.flows, self.decoder = {}, None
        self.expected, self.payloads, self.metas, self._beats = [], [], [], []
        self.meta_cycles = []
        self.lost, self.faults, self.malformed = 0, Counter(), 0
        self.expected_faults = Counter()

    async def register(self, *flows):
        for flow in flows:
            self.flows[flow.lean_id] = flow
            template = {"opcode": flow.opcode, "message_bytes": flow.message_bytes, **flow.bits}
            self.writes.send({"flow": flow.lean_id, "enable": 1, "template": template})
        await self.writes.idle()
        self.decoder = Decoder(self.flows.values())

    def send(self, data, *, error=False, framed=False):
        """Queue a container, which may be none."""
        if not error:
            self.expected += self.decoder.receive(data)
        else:
            self.expected_faults[c.Fault.DAMAGED] += 1
        frame = carry(data, 1, 2) if self.ethernet and not framed else data
        for beat in beats_of(frame, self.lanes):
            self.source.send({**beat, "error": error if beat["last"]
                              else self.rng.getrandbits(1)})

    def _payload(self, transaction):
        _, beat = transaction
        assert not beat.error
        self._beats.append(self.rules.bytes(beat.data, beat.count, beat.last))
        if beat.last:
            self.payloads.append(b"".join(self._beats))
            self._beats = []

    def _meta(self, transaction):
        cycle, record = transaction
        self.meta_cycles.append(cycle)
        self.metas.append(record)

    def _events(self):
        if self.edges.in_reset:
            return
        if self.dut.restorer__ended.value:
            self.faults[c.Fault(int(self.dut.restorer__fault.value))] += 1
            if self.dut.restorer__lost.value:
                self.lost += int(self.dut.restorer__missing.value)
        self.malformed += int(self.dut.restorer__malformed.value)

    async def check(self):
        await self.source.idle()
        seen = None
        while seen != (seen := (len(self.metas), len(self.payloads), len(self._beats))):
            await self.edges.wait(300)
        assert not self._beats
        payloads = iter(self.payloads)
        got = [Record(psn=meta.psn, opcode=meta.opcode, payload=next(payloads) if meta.length
                      else b"", extensions=self._extensions(meta),
                      **{name: getattr(meta, name) for name in BITS}) for meta in self.metas]
        for n, (one, other) in enumerate(zip(got, self.expected, strict=False)):
            assert one == other, f"packet {n}: {one} is not {other}"
        assert len(got) == len(self.expected)
        assert next(payloads, None) is None
        assert all(meta.length == len(record.payload) and meta.reason == meta.cut == 0
                   for meta, record in zip(self.metas, got, strict=True))
        faults = Counter({fault: n for fault, n in self.faults.items() if fault})
        assert faults == self.decoder.faults + self.expected_faults
        assert self.lost == self.decoder.lost and not self.malformed

    def _extensions(self, meta):
        flow = self.flows[meta.flow]
        if meta.opcode == flow.opcode and meta.length == flow.message_bytes and not (
                meta.immediate or meta.rkey or meta.address or meta.dma_length):
            return b"" if meta.opcode in (0x00, 0x01, 0x04, 0x24) else extensions_of(
                self._fields(meta))
        return extensions_of(self._fields(meta))

    @staticmethod
    def _fields(meta):
        return {name: getattr(meta, name) for name in (
            "opcode", "immediate", "address", "rkey", "dma_length")}

    def containers(self, count, flows=3, bare=0.7, longest=130, **options):
        """Containers that a framer might make."""
        encoder = Encoder(minimum=c.MIN_CARRIED if self.ethernet else 0, **options)
        found, psns = [], {}
        number = 0
        while len(found) < count:
            if self.rng.random() < 0.1:
                number = self.rng.randrange(flows)
            flow = self.flows[number]
            psn = psns.setdefault(number, self.rng.getrandbits(24))
            psns[number] = (psn + 1) % (1 << 24)
            found += encoder.push(flow, some_record(
                self.rng, flow, psn, bare=self.rng.random() < bare, longest=longest))
        return found


async def started(dut, pacing=FULL_RATE, flows=3, **fields):
    bench = Bench(dut, pacing)
    await bench.edges.start()
    await bench.register(*(some_flow(bench.rng, number, **fields) for number in range(flows)))
    return bench


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY)
async def random_containers(dut, pacing):
    bench = await started(dut, pacing)
    for data in bench.containers(60):
        bench.send(data)
        # As one that waits for credits would.
        await bench.check() if bench.rng.random() < 0.3 else None
    await bench.check()


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def records_of_every_length(dut):
    bench = await started(dut, flows=1)
    for length in sorted({0, 1, 2, 3, 4, 5, *(n * bench.lanes + step for n in (1, 2, 3)
                                              for step in (-9, -4, -1, 0, 1, 4)
                                              if n * bench.lanes > 9)}):
        for bare in (True, False):
            flow = dataclasses.replace(bench.flows[0], message_bytes=length)
            await bench.register(flow)
            encoder = Encoder()
            for psn in range(9):
                record = some_record(bench.rng, flow, psn, bare=bare, longest=1)
                encoder.push(flow, dataclasses.replace(
                    record, payload=bench.rng.randbytes(length)))
            for data in encoder.close():
                if not bench.ethernet or len(data) >= c.MIN_CARRIED:
                    bench.send(data)
            await bench.check()


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def longest_payloads(dut):
    bench = await started(dut, flows=1, message_bytes=4096)
    encoder = Encoder()
    for psn in range(4):
        bare = psn < 2
        record = some_record(bench.rng, bench.flows[0], psn, bare=bare)
        for data in encoder.push(bench.flows[0], dataclasses.replace(
                record, payload=bench.rng.randbytes(4096))):
            bench.send(data)
            await bench.check()
    for data in encoder.close():
        bench.send(data)
    await bench.check()


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(bare=[True, False])
async def every_byte_changed_and_every_cut(dut, bare):
    """Between good ones; of a container of a few records."""
    bench = await started(dut, flows=1, message_bytes=5)
    flow = bench.flows[0]
    encoder = Encoder(minimum=c.MIN_CARRIED if bench.ethernet else 0)

    def another():
        for _ in range(3):
            psn = bench.rng.getrandbits(23)
            for step in range(2):
                assert not encoder.push(flow, some_record(
                    bench.rng, flow, psn + step, bare=bare, longest=20)) or not step
        return encoder.close()[0]

    size = len(another())
    for at in range(size):
        data = another()
        if at >= len(data):
            continue
        harmed = bytearray(data)
        harmed[at] ^= bench.rng.choice((1, 0x80, bench.rng.randrange(1, 256)))
        bench.send(bytes(harmed))
        bench.send(another())
    for cut in range(1, size):
        bench.send(another()[:cut])
        if cut % 5 == 0:
            bench.send(another())
    bench.send(another(), error=True)
    bench.send(another() + another())
    bench.send(another())
    await bench.check()
    assert bench.faults[c.Fault.DAMAGED] >= size


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def lost_swapped_and_sent_twice(dut):
    bench = await started(dut)
    waiting = bench.containers(120, container_bytes=200)
    while waiting:
        n = bench.rng.choice((0, 0, 0, min(1, len(waiting) - 1), min(3, len(waiting) - 1)))
        data = waiting.pop(n) if bench.rng.random() < 0.8 else waiting[n]
        if bench.rng.random() < 0.9:
            bench.send(data)
            await bench.check() if bench.rng.random() < 0.1 else None
    await bench.check()
    assert bench.lost > 3 and bench.faults[c.Fault.STALE] > 3


def sealed(data):
    return data + c.CRC32C.of(data).to_bytes(4, "little")


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def sound_containers_that_mean_nothing(dut):
    bench = await started(dut, flows=2, message_bytes=4, opcode=0, route=None)
    flow = bench.flows[0]
    encoder = Encoder(minimum=c.MIN_CARRIED if bench.ethernet else 0)
    end = None
    for at, value in ((0, 0x20), (0, 0x14), (0, 0x18), (2, 6), (1, 1), (-7, 2), (-7, 8), (-7, 0),
                      (-8, 1), (-5, 8), (-5, 13), (-5, 32), (-5, 0), (-6, 0x40)):
        for psn in range(7):
            encoder.push(flow, some_record(bench.rng, flow, psn, bare=True))
        good, = encoder.close()
        data = bytearray(good[:-4])
        end = at if at >= 0 else at + 4
        data[end] = value
        bench.send(sealed(bytes(data)))
    encoder.push(flow, some_record(bench.rng, flow, 9, bare=True))
    bench.send(*encoder.close())
    await bench.check()
    assert bench.faults[c.Fault.UNKNOWN] == 5 and bench.faults[c.Fault.MALFORMED] == 9


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def other_frames_pass_unseen(dut):
    bench = await started(dut)
    sent = bench.containers(20)
    for data in sent:
        if bench.ethernet:
            other = bytearray(carry(sent[0], 1, 2))
            other[bench.rng.randrange(12, 16)] ^= 1 << bench.rng.randrange(8)
            for frame in (bench.rng.randbytes(bench.rng.randrange(1, 100)), bytes(other),
                          bytes(other)[:15]):
                for beat in beats_of(frame, bench.lanes):
                    bench.source.send(beat)
        bench.send(data)
    await bench.check()


@cocotb.test(timeout_time=8, timeout_unit="ms")
async def containers_without_room_are_left_out_whole(dut):
    """Many records in few beats, at full rate: what is given is whole containers, in order."""
    bench = await started(dut, flows=1, message_bytes=1, opcode=0, route=None)
    flow, sent, encoder = bench.flows[0], [], Encoder(container_bytes=1024)
    beats = 2 * 4 * bench.config.max_beats
    while sum(len(data) for data in sent) < beats * bench.lanes:
        psn = len(sent) << 12
        for n in range(252):
            encoder.push(flow, some_record(bench.rng, flow, psn + n, bare=True))
        sent += encoder.close()
    for data in sent:
        frame = carry(data, 1, 2) if bench.ethernet else data
        for beat in beats_of(frame, bench.lanes):
            bench.source.send(beat)
    await bench.source.idle()
    while not bench.metas or now() - bench.meta_cycles[-1] < 500:
        await bench.edges.wait(500)
    overflows = bench.faults[c.Fault.OVERFLOW]
    assert overflows and bench.faults[c.Fault.NONE] == len(sent) - overflows and not bench.lost
    whole = [bench.decoder.receive(data) for data in sent]
    given = Counter(meta.psn >> 12 for meta in bench.metas)
    assert len(given) == len(sent) - overflows and set(given.values()) == {252}
    assert [meta.psn for meta in bench.metas] == [
        record.psn for n, records in enumerate(whole) if n in given for record in records]
    assert bench.payloads == [record.payload for n, records in enumerate(whole) if n in given
                              for record in records]


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(full=[False, True])
async def a_record_a_cycle(dut, full):
    """Of 4 bytes, through all of a container, and over its end."""
    bench = Bench(dut)
    await bench.edges.start()
    await bench.register(LeanFlow(lean_id=0, opcode=0, message_bytes=4, solicited=int(full)))
    flow, sent = bench.flows[0], []
    encoder = Encoder(container_bytes=1600)
    for psn in range(1000):
        sent += encoder.push(flow, Record(psn=psn, opcode=0, payload=bench.rng.randbytes(4)))
    sent += encoder.close()
    for data in sent:
        bench.send(data)
    await bench.check()
    cycles = bench.meta_cycles[-1] - bench.meta_cycles[0] + 1
    # Full ones of 8 bytes are a beat of 64 bits each, so that tags and trailers cost cycles there.
    spare = 4 * len(sent) if full and bench.lanes == 8 else 0
    assert 1000 <= cycles <= 1000 + spare, f"{cycles} cycles for 1000 records"


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def reset_in_the_middle(dut):
    bench = await started(dut)
    flows = list(bench.flows.values())
    for wait in range(0, 24, 2):
        for data in bench.containers(3):
            bench.send(data)
        await bench.source.idle()
        await bench.edges.wait(wait)
        await bench.edges.reset()
        bench.expected, bench.payloads, bench.metas, bench._beats = [], [], [], []
        bench.faults, bench.lost = Counter(), 0
        await bench.register(*flows)
        for data in bench.containers(3):
            bench.send(data)
        await bench.check()
        bench.expected, bench.payloads, bench.metas = [], [], []
        bench.faults, bench.lost = Counter(), 0
        await bench.edges.reset()
        await bench.register(*flows)
