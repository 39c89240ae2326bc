# SPDX-License-Identifier: Apache-2.0
"""Encapsulator: each record and its payload make the frame that Scapy makes of them."""

import functools
import ipaddress
import json
import os
import random
from types import SimpleNamespace

import blocks as blocks_top
import cocotb
import harness
import pytest
import roce
from agents import Edges, LaneMonitor, LaneSource, beats_of, now
from agents.rules import BeatRules
from roce_packet import RocePacket

from flytrim.encapsulator import Encapsulation, Encapsulator
from flytrim.packet import Packet

OPCODES = ("RC_SEND_ONLY", "RC_SEND_ONLY_IMM", "RC_WRITE_ONLY", "RC_WRITE_ONLY_IMM",
           "UC_SEND_ONLY", "UC_SEND_ONLY_IMM", "UC_WRITE_ONLY", "UC_WRITE_ONLY_IMM",
           "UD_SEND_ONLY", "UD_SEND_ONLY_IMM", "RC_ACKNOWLEDGE")
#: What the software must not ask for has no extension header: these have none in any case.
OTHERS = (0x00, 0x27, 0x61, 0x81, 0xFF)
#: Opcode, IPv6, tag.
STACKS = [(opcode, ipv6, tagged) for opcode in (*OPCODES, *OTHERS) for ipv6 in (0, 1)
          for tagged in (0, 1)]
MAX_LENGTH = 8192


@functools.cache
def _model(width):
    return harness.build(blocks_top.encapsulator_verilog(width), blocks_top.TOP)


@pytest.mark.model
def test_encapsulator(width):
    assert harness.run(_model(width), __name__, parameters={"width": width}) == 10


def mac(number):
    return ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))


def record_of(rng, opcode, ipv6, tagged, length):
    """The fields of a record, random in all that is left open."""
    word, address_bits = rng.getrandbits, 128 if ipv6 else 32
    header = {
        "dst_mac": word(48), "src_mac": word(48), "tagged": tagged, "tci": word(16), "ipv6": ipv6,
        "src": word(address_bits), "dst": word(address_bits), "dscp": word(6), "ecn": word(2),
        "ttl": word(8), "flow_label": word(20), "sport": word(16), "dport": word(16),
        "opcode": roce.OPCODES.get(opcode, opcode), "pkey": word(16), "qpn": word(24),
        "psn": word(24), "va": word(64), "rkey": word(32), "src_qp": word(24)}
    return {"header": header, "psn": word(24), "length": length, "ce": word(1),
            "immediate": word(32), "address": word(64)}


def expected(record, payload):
    """The frame that Scapy makes of a record."""
    fields = SimpleNamespace(**record["header"])
    ip = ipaddress.IPv6Address if fields.ipv6 else ipaddress.IPv4Address
    packet = RocePacket(
        opcode=fields.opcode, payload=payload, src=ip(fields.src), dst=ip(fields.dst),
        dqpn=fields.qpn, udp_dport=roce.UDP_PORT, udp_sport=fields.sport,
        vlans=((0x8100, fields.tci),) if fields.tagged else (), psn=record["psn"],
        tos=fields.dscp << 2 | (3 if record["ce"] else fields.ecn), ttl=fields.ttl,
        flow_label=fields.flow_label, pkey=fields.pkey, immediate=record["immediate"],
        syndrome=record["immediate"] >> 24, msn=record["immediate"] & 0xFF_FFFF,
        address=record["address"], rkey=fields.rkey, dma_length=len(payload), qkey=fields.rkey,
        src_qp=fields.src_qp, src_mac=mac(fields.src_mac), dst_mac=mac(fields.dst_mac)).to_scapy()
    packet["UDP"].dport = fields.dport
    return roce.build(packet).ljust(60, b"\0")


class Bench:
    """Feeds records and payloads, expects frames, in order, without a gap in any."""

    def __init__(self, dut, room=1.0):
        width = json.loads(os.environ["BENCH_PARAMETERS"])["width"]
        self.dut, self.lanes, self.rng = dut, width // 8, random.Random(cocotb.RANDOM_SEED)
        self.edges, self._room = Edges(dut), room
        self.headers = LaneSource(self.edges, "encapsulator__i_header", Encapsulation, self.rng)
        self.payloads = LaneSource(self.edges, "encapsulator__i", Packet(width), self.rng)
        self.monitor = LaneMonitor(self.edges, "encapsulator__o", Packet(width),
                                   callback=self._collect)
        self._rules = BeatRules("encapsulator__o", self.lanes)
        self.edges.every(self._drive_room)
        dut.encapsulator__room.value = 0
        self.sent, self.received, self._beats, self._rooms = [], [], [], set()

    def send(self, opcode, ipv6, tagged, length, *, error=False, gaps=(0, 0)):
        """Queue a packet, its record and its payload some cycles after those before."""
        # The record tells of an error, or the payload, if there is one.
        void = error and (length == 0 or self.rng.random() < 0.5)
        record = record_of(self.rng, opcode, ipv6, tagged, length) | {"void": void}
        payload = self.rng.randbytes(length)
        for source, gap in zip((self.headers, self.payloads), gaps, strict=True):
            for _ in range(gap):
                source.send(None)
        self.headers.send(record)
        for beat in beats_of(payload, self.lanes):
            # Where it is not the last, the flag has no meaning.
            flag = error and not void if beat["last"] else self.rng.getrandbits(1)
            self.payloads.send({**beat, "error": flag})
        self.sent.append((record, payload, error))

    def forget(self, *, sent=True):
        """Forget the frames that have left, and what was sent."""
        self.received, self._beats = [], []
        if sent:
            self.sent = []

    def _drive_room(self):
        if self.dut.encapsulator__room.value:
            self._rooms.add(now())
        self.dut.encapsulator__room.value = self.rng.random() < self._room

    def _collect(self, transaction):
        cycle, beat = transaction
        if self._beats:
            assert cycle == self._beats[-1][0] + 1, f"@ cycle {cycle}: a gap inside a frame"
        self._beats.append((cycle, beat))
        if beat.last:
            self.received.append(self._beats)
            self._beats = []

    async def check(self):
        """All that was sent has left as it should, at a beat a cycle each."""
        await self.headers.idle()
        await self.payloads.idle()
        for _ in range(MAX_LENGTH // self.lanes + 50):
            if len(self.received) == len(self.sent):
                break
            await self.edges.wait()
        await self.edges.wait(10)
        assert not self._beats, "a frame without an end"
        assert len(self.received) == len(self.sent)
        for number, (sent, beats) in enumerate(zip(self.sent, self.received, strict=True)):
            self._compare(number, *sent, beats)

    def _compare(self, number, record, payload, error, beats):
        header = record["header"]
        about = (f"frame {number}, opcode {header['opcode']:#x}, ipv6 {header['ipv6']}, tagged "
                 f"{header['tagged']}, {len(payload)} bytes of payload")
        frame = b"".join(self._rules.bytes(beat.data, beat.count, beat.last) for _, beat in beats)
        assert bool(beats[-1][1].error) == error, f"{about}: error {beats[-1][1].error}"
        right = expected(record, payload)
        if error:
            _, end = roce.datagram_span(right)
            code = bytes(byte ^ 0xFF for byte in right[end - 4:end])
            right = right[:end - 4] + code + right[end:]
        assert frame == right, f"{about}:\n{frame.hex()} but not\n{right.hex()}"
        first = beats[0][0]
        assert first - (Encapsulator.latency - 1) in self._rooms, f"{about}: began without room"

    def no_bubble(self):
        """Frame after frame left without a cycle between them."""
        cycles = [cycle for beats in self.received for cycle, _ in beats]
        assert cycles == list(range(cycles[0], cycles[0] + len(cycles)))


def lengths_for(opcode, ipv6, tagged, lanes):
    """No payload, and payloads, pads and ICRCs that end around the bounds of the first beats."""
    chain = roce.EXTENSIONS.get(roce.OPCODES.get(opcode, opcode), ())
    headers = 14 + 4 * tagged + (40 if ipv6 else 20) + 20 + sum(len(part()) for part in chain)
    bounds = {n * lanes + step for n in (1, 2, 3) for step in (-1, 0, 1)}
    bounds |= {n * lanes - headers - step for n in range(1, 6) for step in range(-2, 8)}
    return sorted({0, 1, 2, 3, 4, 5} | {length for length in bounds if 0 < length <= 3 * lanes + 8})


async def started(dut, **options):
    bench = Bench(dut, **options)
    await bench.edges.start()
    return bench


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def every_stack_and_bound_back_to_back(dut):
    bench = await started(dut)
    cases = [(*stack, length) for stack in STACKS for length in lengths_for(*stack, bench.lanes)]
    bench.rng.shuffle(cases)
    for case in cases:
        bench.send(*case)
    await bench.check()
    bench.no_bubble()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def long_payloads(dut):
    bench = await started(dut)
    for length in (1024, 2047, 4096, MAX_LENGTH - 1, MAX_LENGTH):
        for stack in bench.rng.sample(STACKS, 2):
            bench.send(*stack, length)
    await bench.check()
    bench.no_bubble()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def one_size_at_full_rate(dut):
    bench = await started(dut)
    for opcode, length in (("RC_SEND_ONLY", 0), ("UC_SEND_ONLY_IMM", 0), ("UC_SEND_ONLY", 4),
                           ("UC_WRITE_ONLY_IMM", 4), ("UD_SEND_ONLY", 64)):
        for _ in range(40):
            bench.send(opcode, 0, 0, length)
    await bench.check()
    bench.no_bubble()


async def random_packets(bench, count, longest):
    for _ in range(count):
        length = bench.rng.choice((0, 4, bench.rng.randrange(longest)))
        gaps = [bench.rng.choice((0, 0, 1, 2, bench.rng.randrange(12))) for _ in range(2)]
        bench.send(*bench.rng.choice(STACKS), length, error=bench.rng.random() < 0.3, gaps=gaps)
    await bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(room=[1.0, 0.5, 0.05])
async def gaps_errors_and_room(dut, room):
    bench = await started(dut, room=room)
    await random_packets(bench, 300, 400)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def latency(dut):
    bench = await started(dut)
    for ahead in range(8):
        for length in (0, 1, 3 * bench.lanes):
            # The record comes first, or both at once, or the payload.
            begun = now()
            bench.send(*bench.rng.choice(STACKS), length, gaps=(max(0, 4 - ahead), ahead))
            await bench.check()
            first = bench.received[-1][0][0]
            record = bench.headers.cycles[-1]
            due = record + Encapsulator.latency
            if length:
                payload = begun + 2 + ahead
                due = max(due, payload + Encapsulator.latency - 1)
            assert first == due, f"{ahead} ahead, {length} bytes: {first - due} cycles late"


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(beats=[0, 1, 3])
async def reset_in_the_middle(dut, beats):
    bench = await started(dut)
    for wait in range(12):
        await random_packets(bench, 2, 100)
        bench.headers.send(record_of(bench.rng, "UC_SEND_ONLY", 0, 0, 40 * bench.lanes))
        for _ in range(beats):
            bench.payloads.send({"data": bench.rng.getrandbits(8 * bench.lanes),
                                 "count": bench.lanes, "error": 1})
        await bench.headers.idle()
        await bench.payloads.idle()
        await bench.edges.wait(wait)
        # What is offered in reset is taken in the first cycle behind it.
        bench.forget()
        bench.send(*bench.rng.choice(STACKS), bench.rng.randrange(100))
        await bench.edges.wait()
        await bench.edges.reset()
        bench.forget(sent=False)
        await bench.check()
    await random_packets(bench, 20, 400)
