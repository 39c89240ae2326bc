# SPDX-License-Identifier: Apache-2.0
"""Parser and ICRC checker: what they say of a frame is what it was built from."""

import ipaddress
import json
import random
from pathlib import Path

import cocotb
import frames
import harness
import pytest
import roce
from agents import Edges, LaneMonitor, LaneSource, beats_of, now
from bench import config_of_run
from pacing import EVERY

from flytrim.context import Parsed, Received
from flytrim.verdict import Reason

VECTORS = Path(__file__).parents[3] / "shared/data/icrc_vectors.json"
NAMES = {code: name for name, code in roce.OPCODES.items()}


@pytest.mark.model
def test_parser(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 6


class Bench:
    def __init__(self, dut, pacing):
        self.dut, self.config = dut, config_of_run()
        self.rng, self.edges = random.Random(cocotb.RANDOM_SEED), Edges(dut)
        self.source = LaneSource(self.edges, "parser__i", Received(self.config), self.rng,
                                 pacing=pacing)
        self.monitor = LaneMonitor(self.edges, "parser__o", Parsed(self.config),
                                   callback=self._collect)
        self.last, self.good, self.cycles = [], [], []
        self.edges.every(self._watch)

    def send(self, data):
        for n, beat in enumerate(beats_of(data, self.config.lanes)):
            self.source.send({"packet": beat, "first": n == 0})

    def _collect(self, transaction):
        cycle, parsed = transaction
        self.cycles.append(cycle)
        if parsed.beat.packet.last:
            self.last.append((cycle, parsed))

    def _watch(self):
        """The checker answers 3 cycles behind the parser."""
        if len(self.good) < len(self.last) and now() == self.last[len(self.good)][0] + 3:
            self.good.append(bool(self.dut.icrc__good.value))

    async def finish(self, count):
        await self.source.idle()
        await self.edges.wait(10)
        assert len(self.last) == len(self.good) == count
        delays = {out - into for out, into in zip(self.cycles, self.source.cycles, strict=True)}
        assert delays == {3}


def packet_of(rng):
    """A sound packet of any opcode; short, so that the next one is close behind its headers."""
    fields = frames.flow_fields(rng, rng.choice(frames.FLOWS)) | {"minimum": rng.choice((0, 60))}
    fields["udp_dport"] = rng.choice((4791, rng.getrandbits(16)))
    return frames.RocePacket(opcode=rng.choice(list(roce.OPCODES)),
                             payload=rng.randbytes(rng.randrange(150)), **fields)


def expected_of(packet):
    """Fields of ``Parsed`` on the last beat, from what the packet was built from."""
    opcode, name = packet.opcode, NAMES[packet.opcode]
    chain = [header.__name__ for header in roce.EXTENSIONS[opcode]]
    source, destination = map(ipaddress.ip_address, (packet.src, packet.dst))
    headers = len(frames.roce_frame(opcode, b"", vlans=packet.vlans, src=packet.src,
                                    dst=packet.dst, minimum=0)) - 4
    carries = name in frames.PAYLOAD
    reth, immediate = carries and "RETH" in chain, carries and "ImmDt" in chain
    return {
        "header_reason": Reason.NONE, "has_link": 1, "has_ip": 1, "has_udp": 1, "has_bth": 1,
        "header_bytes": headers, "length": len(packet.payload), "sound": 1, "payload": carries,
        "only": carries and "_ONLY" in name, "tagged": bool(packet.vlans),
        "sport": packet.udp_sport,
        "key": {"ipv6": source.version == 6, "src": int(source), "dst": int(destination),
                "dport": packet.udp_dport, "qpn": packet.dqpn},
        "record": {"opcode": opcode, "psn": packet.psn, "pad_count": -len(packet.payload) % 4,
                   "solicited": packet.solicited, "ack_request": packet.ack_request,
                   "ecn": packet.tos & 3,
                   "immediate": packet.immediate if immediate else
                   packet.rkey if carries and "IETH" in chain else 0,
                   "address": packet.address if reth else 0, "rkey": packet.rkey if reth else 0,
                   "dma_length": packet.dma_length if reth else 0},
    }


def compare(about, view, expected):
    for name, value in expected.items():
        if isinstance(value, dict):
            compare(f"{about}: {name}", view[name], value)
        else:
            assert view[name] == value, f"{about}: {name} expected {value:#x}, got {view[name]:#x}"


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def reads_every_field(dut, pacing):
    bench = Bench(dut, pacing)
    await bench.edges.start()
    packets = [packet_of(bench.rng) for _ in range(250)]
    for packet in packets:
        bench.send(packet.to_bytes())
    await bench.finish(len(packets))
    for number, (packet, (_, parsed)) in enumerate(zip(packets, bench.last, strict=True)):
        about = f"frame {number}, {packet.to_bytes().hex()}"
        compare(about, parsed, expected_of(packet))
        if packet.vlans:
            assert parsed.vlan == packet.vlans[0][1] & 0xFFF, about


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def finds_what_is_no_plain_ip(dut):
    bench = Bench(dut, EVERY[0].value)
    await bench.edges.start()
    whole = frames.roce_frame("RC_SEND_ONLY", b"\1\2\3\4")
    cases = {
        (12, b"\x08\x06"): Reason.NOT_IP, (12, b"\x05\xdc"): Reason.NOT_IP,
        (20, b"\x20\x00"): Reason.FRAGMENT, (20, b"\x00\x01"): Reason.FRAGMENT,
        (14, b"\x46"): Reason.IP_EXTENSION, (14, b"\x65"): Reason.IP_HEADER,
        (14, b"\x44"): Reason.IP_HEADER, (23, b"\x06"): Reason.NOT_UDP,
        (20, b"\x40\x00"): Reason.NONE, (20, b"\x80\x00"): Reason.NONE,
    }
    for at, change in cases:
        bench.send(whole[:at] + change + whole[at + len(change):])
    await bench.finish(len(cases))
    for (at, change), reason, (_, parsed) in zip(cases, cases.values(), bench.last, strict=True):
        assert parsed.header_reason == reason, f"{change.hex()} at byte {at}"


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def icrc_holds_and_no_flipped_bit_passes(dut, pacing):
    bench = Bench(dut, pacing)
    await bench.edges.start()
    expected = []
    for _ in range(250):
        packet = packet_of(bench.rng)
        data = bytearray(packet.to_bytes())
        end = len(data)
        if packet.minimum:
            # Ethernet pad does not count.
            packet.minimum = 0
            end = len(packet.to_bytes())
        expected.append(bench.rng.random() < 0.5)
        if not expected[-1]:
            # In the UDP header, BTH, payload, pad or ICRC; masked are the checksum, and byte 4.
            udp = 14 + 4 * len(packet.vlans) + (40 if ":" in packet.src else 20)
            at = bench.rng.choice([n for n in range(udp, end) if n - udp not in (4, 5, 6, 7, 12)])
            data[at] ^= 1 << bench.rng.randrange(8)
        bench.send(bytes(data))
    await bench.finish(len(expected))
    wrong = [n for n, pair in enumerate(zip(expected, bench.good, strict=True))
             if pair[0] != pair[1]]
    assert not wrong, f"{len(wrong)} of {len(expected)} wrong, first frame {wrong[0]}"
    assert 50 < sum(expected) < 200


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def icrc_does_not_see_what_it_masks(dut):
    bench = Bench(dut, EVERY[0].value)
    await bench.edges.start()
    plain4 = frames.roce_frame("RC_WRITE_ONLY", b"12345", vlans=((0x8100, 1),))
    plain6 = frames.roce_frame("RC_WRITE_ONLY", b"12345", src="fd00::1", dst="fd00::9")
    # Offset and bits: TOS, TTL, IPv4 checksum; traffic class, flow label, hop limit; UDP checksum,
    # FECN, BECN and reserved bits; and the link layer.
    places4 = (0, 14, 19, 26, 28, 29, 44, 45, 50)
    places6 = (5, 15, 16, 17, 21, 60, 61, 66)
    count = 0
    for whole, places in ((plain4, places4), (plain6, places6)):
        for at in places:
            bench.send(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1:])
            count += 1
    await bench.finish(count)
    assert all(bench.good), f"wrong: {[n for n, good in enumerate(bench.good) if not good]}"


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.skipif(not VECTORS.exists(), reason=f"{VECTORS.name} of the shared data is not there")
async def icrc_of_published_frames_holds_exactly_where_it_should(dut):
    bench = Bench(dut, EVERY[0].value)
    await bench.edges.start()
    # RoCEv1 has its ICRC over another header; flytrim passes it by.
    rows = [row for row in json.loads(VECTORS.read_text())
            if bytes.fromhex(row["frame"])[12:14] != b"\x89\x15"]
    assert len(rows) == 165
    for row in rows:
        bench.send(bytes.fromhex(row["frame"]))
    await bench.finish(len(rows))
    wrong = [row["id"] for row, good in zip(rows, bench.good, strict=True)
             if good != row["icrc_ok"]]
    assert not wrong, f"the answer to {wrong} differs from icrc_ok"
