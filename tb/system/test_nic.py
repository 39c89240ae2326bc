# SPDX-License-Identifier: Apache-2.0
"""TrimNic classifies and trims: random traffic under every pacing, then each case by itself."""

import cocotb
import frames
import harness
import pacing
import pytest
import roce
from bench import NicBench, config_of_run

from flytrim.model import Flow
from flytrim.verdict import Reason

LIMIT = {"timeout_time": 0.5, "timeout_unit": "ms"}


@pytest.mark.model
def test_nic(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) >= 14


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(profile=pacing.EVERY)
async def mixed_traffic(dut, profile):
    bench = await NicBench(dut, pacing=profile).start()
    await bench.feed((frames.random_frame(bench.rng) for _ in range(300)), error_rate=0.05)
    await bench.finish(at_least=600)


@cocotb.test(**LIMIT)
@cocotb.parametrize(ip=["ipv4", "ipv6"], tags=[0, 1, 2])
async def every_opcode(dut, ip, tags):
    bench = await NicBench(dut).start()
    flow = {"ipv4": frames.FLOWS[0], "ipv6": frames.FLOWS[1]}[ip]
    vlans = ((0x88A8, 0xE123), (0x9100, 7))[:tags]
    for opcode in range(256):
        payload = bench.rng.randbytes(bench.rng.randrange(40))
        judgement = bench.send(frames.roce_frame(
            opcode, payload, src=flow.src, dst=flow.dst, dqpn=flow.dqpn, vlans=vlans,
            immediate=0x01234567, address=0x89ABCDEF01234567, rkey=0x76543210,
            dma_length=0xFEDCBA98))
        carries = opcode in {roce.OPCODES[name] for name in frames.PAYLOAD}
        assert judgement.reason == (Reason.NONE if carries else Reason.OPCODE)
    await bench.finish(at_least=512)


@cocotb.test(**LIMIT)
@cocotb.parametrize(ip=["ipv4", "ipv6"])
async def every_bit_of_the_key_counts_and_no_other_of_the_tag(dut, ip):
    addresses = {"ipv4": ("10.0.0.1", "10.0.0.9"), "ipv6": ("fd00::1", "fd00::9")}[ip]
    flow = Flow("full", *addresses, dqpn=0x5A5A5A, udp_sport=0xA5A5, vlan=0x5A5, icrc="ignore")
    # Another flow makes every neighbour of the port known, so that the key alone can tell.
    # A hashed table has room for eight ports.
    ports = [Flow(f"port {bit}", "10.9.9.9", "10.9.9.8", bit, udp_dport=4791 ^ 1 << bit)
             for bit in range(7 if config_of_run().hashed else 12)]
    bench = await NicBench(dut, flows=[flow, *ports]).start()
    address_bytes = 4 if ip == "ipv4" else 16
    addresses_at, udp = (30, 38) if ip == "ipv4" else (26, 58)
    whole = frames.roce_frame("RC_SEND_ONLY", b"four", src=addresses[0], dst=addresses[1],
                              dqpn=flow.dqpn, udp_sport=flow.udp_sport, vlans=((0x8100, 0xE5A5),))
    assert bench.send(whole).reason is Reason.NONE
    for bit in range(16):
        expected = Reason.NONE if bit < 4 else Reason.NO_FLOW
        assert bench.send(frames.flip(whole, 8 * 14 + bit)).reason is expected
    for bit in range(2 * 8 * address_bytes):
        data = frames.flip(whole, 8 * addresses_at + bit)
        if ip == "ipv4":
            data = frames.with_checksum(data, 18)
        assert bench.send(data).reason is Reason.NO_FLOW
    for bit in range(16):
        assert bench.send(frames.flip(whole, 8 * udp + bit)).reason is Reason.NO_FLOW
        known = bit >= 16 - len(ports)
        assert bench.send(frames.flip(whole, 8 * (udp + 2) + bit)).reason is (
            Reason.NO_FLOW if known else Reason.NOT_ROCE)
    for bit in range(24):
        assert bench.send(frames.flip(whole, 8 * (udp + 8 + 5) + bit)).reason is Reason.NO_FLOW
    await bench.finish(at_least=200)


@cocotb.test(**LIMIT)
async def other_traffic_leaves_bit_exactly(dut):
    bench = await NicBench(dut).start()
    for data in frames.background_frames():
        assert bench.send(data).bypass == data
        bench.send(data, error=True)
    await bench.finish(at_least=4 * len(frames.background_frames()))


@cocotb.test(**LIMIT)
async def payload_of_no_bytes_is_a_record_without_a_beat(dut):
    bench = await NicBench(dut).start()
    for name in frames.PAYLOAD:
        for minimum in (0, 60):
            bench.send(frames.roce_frame(name, b"", minimum=minimum))
            bench.send(frames.roce_frame(name, b"\x5a", minimum=minimum), error=True)
    await bench.finish(at_least=6 * len(frames.PAYLOAD))
    assert len(bench.seen["m_axis_trim"]) * 2 == len(bench.seen["m_axis_meta"])


@cocotb.test(**LIMIT)
@cocotb.parametrize(flow=[0, 1])
async def frame_cut_at_every_byte(dut, flow):
    bench = await NicBench(dut).start()
    flow = frames.FLOWS[flow]
    whole = frames.roce_frame("RC_WRITE_ONLY_IMM", bytes(range(100, 190)), src=flow.src,
                              dst=flow.dst, dqpn=flow.dqpn, vlans=((0x8100, 5),))
    reasons = {bench.send(whole[:size]).reason for size in range(1, len(whole) + 1)}
    assert reasons >= {Reason.TRUNCATED_HEADER, Reason.TRUNCATED, Reason.NONE}
    await bench.finish(at_least=2 * len(whole))


@cocotb.test(**LIMIT)
async def damaged_frames_keep_their_flag(dut):
    bench = await NicBench(dut).start()
    for size in range(0, 3 * bench.config.lanes):
        payload = bench.rng.randbytes(size)
        bench.send(frames.roce_frame("UC_WRITE_ONLY", payload), error=True)
        bench.send(frames.roce_frame("UC_WRITE_ONLY", payload, dqpn=0x999), error=True)
        bench.send(frames.roce_frame("UC_WRITE_ONLY", payload))
    await bench.finish(at_least=15 * bench.config.lanes)
    reasons = {judgements[0].reason for _, judgements in bench.sent}
    assert reasons == {Reason.MAC_ERROR, Reason.NO_FLOW, Reason.NONE}


@cocotb.test(**LIMIT)
async def frame_past_max_frame_is_ended_there(dut):
    bench = await NicBench(dut).start()
    limit = bench.config.max_frame
    small = frames.roce_frame("RC_SEND_ONLY", b"next")
    for size in (limit - 1, limit, limit + 1, limit + bench.config.lanes, 2 * limit + 3):
        for header in (frames.roce_frame("RC_SEND_MIDDLE", b"")[:54], b"\xff" * 54):
            bench.send(header + bench.rng.randbytes(size - 54))
            bench.send(small)
        overhead = 14 + 20 + 8 + 12 + 4
        payload = bench.rng.randbytes(size - overhead)
        bench.send(frames.roce_frame("RC_SEND_MIDDLE", payload, pad=0))
        bench.send(small, error=True)
        await bench.settle()
    await bench.finish(at_least=60)
    reasons = [judgements[0].reason for _, judgements in bench.sent]
    assert reasons.count(Reason.OVERSIZE) == 9


@cocotb.test(**LIMIT)
async def preset_message_length(dut):
    bench = await NicBench(dut).start()
    for flow in (frames.FLOWS[4], frames.FLOWS[5]):
        for size in (*range(12), *range(56, 140), 1200):
            for opcode in ("UC_WRITE_ONLY_IMM", "RC_SEND_FIRST"):
                bench.send(frames.roce_frame(opcode, bench.rng.randbytes(size), src=flow.src,
                                             dst=flow.dst, dqpn=flow.dqpn))
    await bench.finish(at_least=700)
    records = [judgements[0] for _, judgements in bench.sent]
    assert any(judgement.cut for judgement in records)
    assert any(judgement.reason is Reason.MESSAGE_LENGTH for judgement in records)


@cocotb.test(**LIMIT)
async def length_that_no_frame_can_have_is_truncated(dut):
    bench = await NicBench(dut).start()
    for udp_length in (9216, 16384, 0xFFD0, 0xFFDE, 0xFFE7):
        for flow in frames.FLOWS[0], frames.FLOWS[1], frames.FLOWS[8]:
            ip = 0 if ":" in flow.src else 20
            judgement = bench.send(frames.roce_frame(
                "RC_SEND_MIDDLE", bytes(40), src=flow.src, dst=flow.dst, dqpn=flow.dqpn,
                ip_length=udp_length + ip, udp_length=udp_length))
            assert judgement.reason is Reason.TRUNCATED, (flow.name, udp_length)
    await bench.finish(at_least=30)
