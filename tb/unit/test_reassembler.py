# SPDX-License-Identifier: Apache-2.0
"""Reassembler: memory, completions and answers are those of the model, whatever memory does."""

import functools
import random
from dataclasses import replace

import blocks as blocks_top
import cocotb
import harness
import pytest
import roce
from agents import AxiMemory, Edges, LaneMonitor, LaneSource, beats_of, now
from bench import config_of_run
from landed import Traffic
from pacing import EVERY, FULL_RATE
from reassembled import Memory

from flytrim.config import NicConfig
from flytrim.context import MetaRecord
from flytrim.driver.landing import landing_fields
from flytrim.model import Arrival, ReassemblyModel
from flytrim.packet import Packet
from flytrim.reassembly.completer import Answer
from flytrim.reassembly.records import SYNDROMES, AnswerKind, Command, Completion, Operation
from flytrim.reassembly.ring import ENTRY_BYTES
from flytrim.verdict import Reason

PARAMETERS = {"flows": 8, "max_frame": 1514}
RING_BASE = 0x1_2345_6000
_PAGE = 4096


@functools.cache
def _model(width):
    config = NicConfig(width=width, **PARAMETERS)
    return harness.build(blocks_top.reassembler_verilog(config), blocks_top.TOP)


@pytest.mark.model
def test_reassembler(width):
    assert harness.run(_model(width), __name__, parameters={"width": width, **PARAMETERS}) >= 7


class Bench:
    """Feeds commands and packets; what comes out is the model's, in its order."""

    def __init__(self, dut, pacing=FULL_RATE, traffic=None, outstanding=15):
        self.dut, self.config = dut, config_of_run()
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.traffic = Traffic(self.rng, self.config.flows, **{
            "paths": blocks_top.PATHS["paths"], **(traffic or {})})
        self.model = ReassemblyModel()
        self.edges = Edges(dut)
        self.commands = LaneSource(self.edges, "reassembler__commands", Command, self.rng)
        self.payloads = LaneSource(self.edges, "reassembler__payload", Packet(self.config.width),
                                   self.rng, pacing=pacing)
        self.records = LaneSource(self.edges, "reassembler__meta", MetaRecord, self.rng,
                                  pacing=pacing)
        for name, shape in (("completions", Completion), ("answers", Answer)):
            LaneMonitor(self.edges, f"reassembler__{name}", shape, self.rng, pacing=pacing,
                        callback=getattr(self, f"_{name}"))
        # Every landing of a flow lies between those of its neighbours, with guards on both sides.
        spans = [(self.traffic.area(flow)) for flow in range(self.config.flows)]
        self.written, self.right = Memory(*spans), Memory(*spans)
        self.memory = AxiMemory(self.edges, "reassembler__axi", self.config.width, self.rng,
                                self._write, pacing=pacing)
        dut.reassembler__outstanding.value = outstanding
        dut.reassembler__ring_enable.value = 0
        self.expected, self.told = {"completions": [], "answers": []}, 0
        self._landings, self._ring, self.ring_reads = {}, None, False

    async def use_ring(self, entries, reads=True):
        """Completions go into a ring from now on, which the host reads at times, or not yet."""
        dut = self.dut
        self._ring = bytearray(ENTRY_BYTES * entries)
        dut.reassembler__ring_base.value = RING_BASE
        dut.reassembler__ring_last.value = entries - 1
        dut.reassembler__ring_enable.value = 1
        dut.reassembler__ring_consumer.value = self._read = 0
        self.ring_reads = reads
        await self.edges.wait(3)
        self.edges.every(self._host)

    def _host(self):
        """The host: sees that there is something, and reads it all."""
        producer = int(self.dut.reassembler__ring_producer.value)
        if not self.ring_reads or self.rng.random() < 0.9:
            return
        while self._read != producer:
            lap, slot = divmod(self._read, len(self._ring) // ENTRY_BYTES)
            entry = self._ring[slot * ENTRY_BYTES:][:ENTRY_BYTES]
            item = Completion.from_bits(int.from_bytes(entry, "little"))
            assert item.phase == 1 - lap % 2
            self._completions((now(), item))
            self._read += 1
        self.dut.reassembler__ring_consumer.value = self._read

    def _write(self, address, data):
        """Not a byte outside the buffer that a flow has now, or the ring."""
        offset = address - RING_BASE
        if self._ring and 0 <= offset <= len(self._ring) - len(data):
            self._ring[offset:offset + len(data)] = data
            return
        assert any(landing.base <= address and address + len(data) <= landing.base + landing.bytes
                   for landing in self._landings.values()), (
            f"{len(data)} bytes at {address:#x} are outside every buffer")
        self.written.write(address, data)

    def _completions(self, transaction):
        cycle, item = transaction
        right = self.expected["completions"].pop(0)
        found = tuple(item[name] for name in (
            "flow", "message", "bytes", "opcode", "immediate", "failed", "abandoned"))
        assert found == right, f"@ cycle {cycle}: {found}, not {right}"
        assert item.first <= item.last and (item.abandoned or item.first)
        self.told += 1

    def _answers(self, transaction):
        cycle, item = transaction
        if item.restart:
            return
        kind = AnswerKind(item.kind)
        flow, right = self.expected["answers"].pop(0)
        found = item.flow, SYNDROMES[kind], item.psn, item.msn, kind is AnswerKind.AGAIN
        assert found == (flow, *right[:4]), f"@ cycle {cycle}: {found}, not {flow} {right}"

    async def feed(self, turns):
        for command, item in turns:
            if command:
                await self._command(*item)
            else:
                self.send(item)
                while self.payloads.waiting > 200:
                    await self.edges.wait(20)
        await self._idle()

    async def _command(self, flow, landing):
        await self._idle()
        # Buffers change with a start: what belongs into the old one must be there.
        await self._until(lambda: self._same(flow))
        if landing is None:
            self.model.stop(flow)
            self.commands.send({"operation": Operation.STOP, "flow": flow})
        else:
            self._landings[flow] = landing
            self.model.start(flow, landing)
            self.commands.send({"operation": Operation.START, "flow": flow,
                                "landing": landing_fields(landing)})
        await self.commands.idle()

    async def _idle(self):
        """Until all has been taken."""
        await self.records.idle()
        await self.payloads.idle()

    async def _until(self, condition, patience=400):
        while not condition() and patience:
            await self.edges.wait(10)
            patience -= 1

    def _same(self, flow):
        base, _ = self.traffic.area(flow)
        return self.written[base] == self.right[base]

    def send(self, packet):
        for beat in beats_of(packet.payload, self.config.lanes):
            self.payloads.send({**beat, "error": beat["last"] and not packet.good})
        self.records.send({
            "flow": packet.flow, "opcode": packet.opcode, "psn": packet.psn,
            "reason": Reason.NONE if packet.good else Reason.ICRC,
            "length": len(packet.payload), "immediate": packet.immediate,
            "address": packet.address, "ack_request": packet.ack_request})
        landed = self.model.packet(packet, self._fails)
        if landed.write:
            address, data = landed.write
            for start, part in _pages(address, data):
                if start // _PAGE not in self.memory.refused:
                    self.right.write(start, part)
        self.expected["completions"] += landed.completions
        if landed.answer:
            self.expected["answers"].append((packet.flow, landed.answer))

    def _fails(self, address, data):
        return any(start // _PAGE in self.memory.refused for start, _ in _pages(address, data))

    async def finish(self, at_least=1):
        flows = range(self.config.flows)
        await self._until(lambda: not any(self.expected.values())
                          and all(map(self._same, flows)))
        await self.edges.wait(100)
        assert not any(self.expected.values()), {
            name: (len(left), left[:2]) for name, left in self.expected.items()}
        assert self.told >= at_least
        for flow in flows:
            assert self._same(flow), f"memory of flow {flow}"


def _pages(address, data):
    """The bytes page by page."""
    while data:
        part = data[:_PAGE - address % _PAGE]
        yield address, part
        address, data = address + len(part), data[len(part):]


async def started(dut, *args, **options):
    bench = Bench(dut, *args, **options)
    await bench.edges.start()
    return bench


@cocotb.test(timeout_time=0.4, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY)
async def every_packet_of_many_flows(dut, pacing):
    bench = await started(dut, pacing)
    await bench.feed(bench.traffic.turns(1200))
    await bench.finish(100)


@cocotb.test(timeout_time=0.4, timeout_unit="ms")
async def refused_writes_fail_their_messages(dut):
    bench = await started(dut, EVERY[3].value)
    base, size = bench.traffic.area(0)
    bench.memory.refused = {page for page in range(base // _PAGE, (base + 30 * size) // _PAGE)
                            if bench.rng.random() < 0.3}
    await bench.feed(bench.traffic.turns(1200, wild=0.02))
    await bench.finish(100)


@cocotb.test(timeout_time=0.4, timeout_unit="ms")
@cocotb.parametrize(outstanding=[1, 4, 16])
async def so_many_bursts_are_on_their_way(dut, outstanding):
    bench = await started(dut, outstanding=outstanding - 1)
    await bench.feed(bench.traffic.turns(40, wild=0, restarts=0))
    bench.memory.held = True
    task = cocotb.start_soon(bench.feed(
        (False, packet) for command, packet in bench.traffic.more(120)))
    await bench.edges.wait(1500)
    assert bench.memory.most == outstanding
    bench.memory.held = False
    await task
    await bench.finish(20)


@cocotb.test(timeout_time=0.4, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:1] + EVERY[3:4], entries=[1, 4, 64])
async def completions_in_a_ring(dut, pacing, entries):
    bench = await started(dut, pacing)
    await bench.use_ring(entries)
    await bench.feed(bench.traffic.turns(300, wild=0.02))
    await bench.finish(100)
    assert dut.reassembler__ring_producer.value == bench.told
    assert not dut.reassembler__ring_irq.value


@cocotb.test(timeout_time=0.4, timeout_unit="ms")
async def a_full_ring_holds_what_comes_and_loses_nothing(dut):
    bench = await started(dut)
    await bench.use_ring(4, reads=False)
    task = cocotb.start_soon(bench.feed(bench.traffic.turns(300, wild=0)))
    await bench.edges.wait(4000)
    assert dut.reassembler__ring_producer.value == 4 and dut.reassembler__ring_irq.value
    bench.ring_reads = True
    await task
    await bench.finish(50)


@cocotb.test(timeout_time=0.4, timeout_unit="ms")
@cocotb.parametrize(beats=[1, 2, 7])
async def a_beat_and_a_packet_a_cycle(dut, beats):
    bench = await started(dut, traffic={"paths": 0, "stride": 0, "room": 64 * 300 * 8})
    landing = replace(bench.traffic.landing(0), base=bench.traffic.area(0)[0])
    await bench.feed([(True, (0, landing))])
    count, size = 280 // beats, beats * bench.config.lanes
    for n in range(count):
        bench.send(Arrival(0, roce.OPCODES["RC_SEND_ONLY"], (landing.start_psn + n) % (1 << 24),
                           bench.rng.randbytes(size), ack_request=True))
    await bench.finish(count)
    cycles = [cycle for cycle, *_ in bench.memory.bursts]
    assert cycles[-1] - cycles[0] == beats * count - bench.memory.bursts[0][3]
