# SPDX-License-Identifier: Apache-2.0
"""LeanLink: packets over a link and back; containers lost, sent twice, swapped and harmed."""

import collections
import functools
import json
import os
import random

import cocotb
import harness
import lean_scapy
import pytest
from agents import AxiLite, AxisMonitor, AxisSink, Edges, RecordMonitor, now
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSource
from lean import BITS, extensions_of, fields_of, some_flow, some_record
from pacing import EVERY, FULL_RATE, Pacing

from flytrim.config import LeanConfig
from flytrim.context import MetaRecord
from flytrim.generate import lean_verilog
from flytrim.lean import container as c
from flytrim.lean.codec import LeanFlow, Record, carried
from flytrim.registers import load_lean

CHOICES = {"flows": 8, "round_trip": 24}
MACS = {"dst": 0x0200_1122_3344, "src": 0x0200_5566_7788}


@functools.cache
def _model(width, ethernet):
    config = LeanConfig(width=width, ethernet=ethernet, **CHOICES)
    return harness.build(lean_verilog(config), "flytrim_lean_link")


@pytest.mark.model
@pytest.mark.parametrize("ethernet", [False, True], ids=["link", "ethernet"])
def test_lean_link(width, ethernet):
    assert harness.run(_model(width, ethernet), __name__, parameters={
        "width": width, "ethernet": ethernet}) >= 7


class Wire:
    """Carries beats from the link's output to its input some cycles later, and credits back.

    ``spoil`` takes each container, as bytes, and gives a list of (bytes, error) that arrive.
    """

    def __init__(self, edges, rng, credits_, delay=5):
        self._edges, dut, self._rng = edges, edges.dut, rng
        self._out = [getattr(dut, f"m_axis_link_{name}") for name in
                     ("tvalid", "tdata", "tkeep", "tlast")]
        self._in = {name: getattr(dut, f"s_axis_link_{name}") for name in
                    ("tvalid", "tdata", "tkeep", "tlast", "tuser")}
        self._ready, self._lanes = dut.m_axis_link_tready, len(dut.m_axis_link_tkeep)
        self._credits = (dut.m_credit, dut.s_credit) if credits_ else None
        if credits_:
            dut.s_credit.value = 0
        self.spoil, self.pace, self.delay = None, 1.0, delay
        self._beats, self._parts, self.waiting = [], [], collections.deque()
        self._told = collections.deque([0] * delay)
        self.frames, self.bytes = [], 0
        self._ready.value = 0
        self._level = 0
        self._in["tvalid"].value = 0
        edges.every(self._step)

    def _step(self):
        if self._edges.in_reset:
            return
        if self._credits:
            free, port = self._credits
            self._told.append(int(free.value))
            port.value = self._told.popleft()
        if self._level and self._out[0].value:
            data, keep, last = (int(signal.value) for signal in self._out[1:])
            self._parts.append(data.to_bytes(self._lanes, "little")[:keep.bit_length()])
            if last:
                self.frames.append(b"".join(self._parts))
                self._parts = []
                if self.spoil:
                    for arriving, error in self.spoil(self.frames[-1]):
                        self._queue(arriving, error)
            if not self.spoil:
                self.waiting.append((now() + self.delay, data, keep, last, 0))
        self._level = int(self._rng.random() < self.pace)
        self._ready.value = self._level
        if self.waiting and self.waiting[0][0] <= now():
            _, data, keep, last, user = self.waiting.popleft()
            values = {"tvalid": 1, "tdata": data, "tkeep": keep, "tlast": last, "tuser": user}
        else:
            values = {"tvalid": 0}
        for name, value in values.items():
            self._in[name].value = value

    def _queue(self, data, error):
        for start in range(0, len(data), self._lanes):
            part = data[start:start + self._lanes]
            last = start + self._lanes >= len(data)
            self.waiting.append((now() + self.delay, int.from_bytes(part, "little"),
                                 (1 << len(part)) - 1, int(last), int(error and last)))


class Bench:
    """A link with its wire; what goes in is to come out, in order."""

    def __init__(self, dut, pacing=FULL_RATE):
        parameters = json.loads(os.environ["BENCH_PARAMETERS"])
        self.ethernet, self.lanes = parameters["ethernet"], parameters["width"] // 8
        self.rng, self.edges = random.Random(cocotb.RANDOM_SEED), Edges(dut)
        self.wire = Wire(self.edges, self.rng, not self.ethernet)
        self.bus = AxiLite(dut, "s_axil", self.rng)
        self.trim, self.meta = (
            AxiStreamSource(AxiStreamBus.from_prefix(dut, prefix), dut.clk, dut.rst)
            for prefix in ("s_axis_trim", "s_axis_meta"))
        for source in (self.trim, self.meta):
            source.log.setLevel("WARNING")
        for prefix in ("m_axis_trim", "m_axis_meta"):
            AxisSink(self.edges, prefix, self.rng, pacing=pacing)
        self.payloads, self.metas = [], []
        AxisMonitor(self.edges, "m_axis_trim", callback=self.payloads.append)
        RecordMonitor(self.edges, "m_axis_meta", callback=self.metas.append)
        self.flows, self.sent = {}, []

    async def access(self, path, **fields):
        """Write a register by its name in the description."""
        node, value = load_lean().find_by_path(path), 0
        for name, number in fields.items():
            value |= number << node.get_child_by_name(name).low
        await self.bus.write(node.absolute_address, value)

    async def register(self, number, flow, *, flush=200):
        """Give both ends a flow; it has this number at both."""
        self.flows[number] = flow
        await self.access("flow.template", opcode=flow.opcode,
                          message_bytes=flow.message_bytes, **flow.bits)
        await self.access("flow.tag", lean_id=number)
        await self.access("flow.flush", cycles=flush)
        await self.access("flow.options", routed=int(flow.route is not None))
        if flow.route:
            await self.access("flow.route", source=flow.route.source,
                              destination=flow.route.destination, hop_limit=flow.route.hop_limit)
        for name, mac in MACS.items():
            await self.access(f"flow.{name}_mac_low", bits=mac & 0xFFFF_FFFF)
            await self.access(f"flow.{name}_mac_high", bits=mac >> 32)
        await self.access("flow_command", flow=number, enable=1, framer=1, restorer=1)

    async def send(self, number, record):
        """Hand in a packet: its payload, then its metadata record."""
        self.sent.append((number, record))
        if record.payload:
            await self.trim.send(AxiStreamFrame(record.payload, tuser=0))
        meta = MetaRecord.const({
            "flow": number, "psn": record.psn, "opcode": record.opcode,
            "length": len(record.payload), **record.bits, **fields_of(record)}).as_bits()
        await self.meta.send(AxiStreamFrame(meta.to_bytes(32, "little")))

    async def send_random(self, count, flows=3):
        psns, number = {}, 0
        for _ in range(count):
            if self.rng.random() < 0.1:
                number = self.rng.randrange(flows)
            psn = psns.setdefault(number, self.rng.getrandbits(24))
            psns[number] = (psn + 1) % (1 << 24)
            await self.send(number, some_record(self.rng, self.flows[number], psn,
                                                bare=self.rng.random() < 0.8, longest=300))

    async def settle(self):
        """Until nothing more comes; gives (flow, record) of what came."""
        seen = None
        while seen != (seen := (len(self.metas), len(self.wire.frames), self.trim.count())):
            await self.edges.wait(800)
        payloads, found = iter(self.payloads), []
        for bits in self.metas:
            meta = MetaRecord.from_bits(bits)
            payload = b""
            if meta.length:
                frame = next(payloads)
                payload = frame.data
                assert not frame.error
            assert len(payload) == meta.length and not meta.reason
            found.append((meta.flow, Record(
                psn=meta.psn, opcode=meta.opcode, payload=payload, extensions=extensions_of({
                    name: getattr(meta, name) for name in (
                        "opcode", "immediate", "address", "rkey", "dma_length")}),
                **{name: getattr(meta, name) for name in BITS})))
        assert next(payloads, None) is None
        return found

    async def counter(self, name):
        address = load_lean().find_by_path(f"counters.{name}").absolute_address
        low = await self.bus.read(address)
        return low | await self.bus.read(address + 4) << 32

    async def counters(self):
        names = ("opened", "dropped", "accepted", *(str(fault) for fault in c.Fault if fault),
                 "lost")
        return {name: count for name in names if (count := await self.counter(name))}


async def started(dut, pacing=FULL_RATE, flows=3, flush=200, **fields):
    bench = Bench(dut, pacing)
    await bench.edges.start()
    for number in range(flows):
        await bench.register(number, some_flow(bench.rng, number, **fields), flush=flush)
    return bench


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY)
async def there_and_back(dut, pacing):
    """Nothing is lost over a bare link, however slow the sinks are: there are credits."""
    bench = await started(dut, pacing)
    bench.wire.pace = 0.7
    await bench.send_random(300)
    found = await bench.settle()
    assert found == bench.sent
    counters = await bench.counters()
    assert counters.keys() == {"opened", "accepted"}
    assert counters["opened"] == counters["accepted"] == len(bench.wire.frames)
    for frame in bench.wire.frames:
        if bench.ethernet:
            assert frame[:12] == b"".join(MACS[name].to_bytes(6, "big") for name in MACS)
            frame = carried(frame)
        lean_scapy.read(frame)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(packets=[(400, 4), (40, 1024)])
async def credits_hold_back_what_there_is_no_room_for(dut, packets):
    """A slow sink, and more containers, and more beats, than the far end can hold."""
    count, length = packets
    bench = await started(dut, Pacing("slow", sink=0.03 if length == 4 else 0.3), flows=0)
    if bench.ethernet:
        return
    await bench.register(0, LeanFlow(lean_id=0, opcode=0, message_bytes=length), flush=0)
    for psn in range(count):
        await bench.send(0, some_record(bench.rng, bench.flows[0], psn, bare=True))
    found = []
    while len(found) < len(bench.sent):
        before, found = len(found), await bench.settle()
        assert len(found) > before, "no more packets"
    assert found == bench.sent
    assert "overflow" not in await bench.counters()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def a_link_that_does_all_of_it(dut):
    """Never a wrong payload, one twice or out of order; each fault is counted as what it is."""
    bench = await started(dut, flush=60)
    rng, done, late = bench.rng, collections.Counter(), []

    def spoil(frame):
        kind = rng.choice(("good",) * 4 + ("lose", "twice", "swap", "flip", "cut", "bad"))
        done[kind] += 1
        harmed = bytearray(frame)
        # Over Ethernet, what is no lean frame any more is not counted.
        start = c.CARRIAGE.size * bench.ethernet
        at = rng.randrange(start, len(frame))
        harmed[at] ^= rng.randrange(1, 256)
        if kind == "flip" and frame[start] & c.Flag.ROUTE and at == start + 11:
            # The hop limit may change.
            done.update(flip=-1, good=1)
        arriving = {
            "good": [(frame, 0)], "lose": [], "twice": [(frame, 0), (frame, 0)],
            "swap": [], "flip": [(bytes(harmed), 0)], "bad": [(frame, 1)],
            "cut": [(frame[:rng.randrange(start + 1, len(frame))], 0)]}[kind]
        arriving += late
        late[:] = [(frame, 0)] if kind == "swap" else []
        return arriving

    bench.wire.spoil = spoil
    await bench.send_random(1500)
    found = await bench.settle()
    # What came is part of what was sent, in order for each flow.
    for number in bench.flows:
        rest = iter([record for flow, record in bench.sent if flow == number])
        assert all(record in rest for flow, record in found if flow == number)
    counters = await bench.counters()
    assert len(found) > 300 and all(count > 3 for count in done.values())
    assert counters["damaged"] == done["flip"] + done["cut"] + done["bad"]
    assert counters["stale"] >= done["twice"]
    assert counters["opened"] == sum(done.values()) and counters["lost"] > 0
    assert counters["accepted"] + counters["stale"] + counters["damaged"] == (
        sum(done.values()) - done["lose"] + done["twice"] - len(late))


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(length=[4, 1024])
async def share_of_payload(dut, length):
    """At least 95 % of messages of 4 bytes and 99 % of those of 1 KB.

    Tags and trailers counted; over Ethernet its header, FCS, preamble and gap, too.
    """
    bench = await started(dut, flows=1, flush=1 << 30, message_bytes=length, opcode=0, route=None)
    limit = c.ETHERNET_BYTES if bench.ethernet else c.LINK_BYTES
    count = 4 * ((limit - 16) // length)
    for psn in range(count):
        await bench.send(0, some_record(bench.rng, bench.flows[0], psn, bare=True))
    found = await bench.settle()
    assert found == bench.sent
    wire_bytes = sum(len(frame) + (4 + 8 + 12) * bench.ethernet for frame in bench.wire.frames)
    share = count * length / wire_bytes
    dut._log.warning("share of payload, %d bytes: %.2f %%", length, 100 * share)
    assert len(bench.wire.frames) == 4
    assert share >= {4: 0.95, 1024: 0.99}[length]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def registers(dut):
    bench = await started(dut, flows=0)
    read = bench.bus.read
    top = load_lean()

    async def value(path):
        return await read(top.find_by_path(path).absolute_address)

    assert await value("id") == int.from_bytes(b"FLYL", "big")
    assert await value("capability") == (
        8 * bench.lanes | CHOICES["flows"] << 16 | bench.ethernet << 31)
    assert await value("container") == (c.ETHERNET_BYTES if bench.ethernet else c.LINK_BYTES)
    # A flow that is not registered, and one that is not any more.
    bench.flows[0] = some_flow(bench.rng, 0)
    await bench.send(0, some_record(bench.rng, bench.flows[0], 0, bare=True))
    assert await bench.settle() == [] and await bench.counters() == {"dropped": 1}
    await bench.register(0, bench.flows[0])
    bench.sent.clear()
    await bench.send(0, some_record(bench.rng, bench.flows[0], 0, bare=True))
    assert await bench.settle() == bench.sent
    await bench.access("flow_command", flow=0, enable=0, restorer=1)
    await bench.send(0, some_record(bench.rng, bench.flows[0], 0, bare=True))
    await bench.settle()
    await bench.access("flow_command", flow=0, enable=0, framer=1)
    await bench.send(0, some_record(bench.rng, bench.flows[0], 0, bare=True))
    await bench.settle()
    assert await bench.counters() == {"opened": 2, "accepted": 1, "unknown": 1, "dropped": 2}
