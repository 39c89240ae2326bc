# SPDX-License-Identifier: Apache-2.0
"""TrimNic keeps line rate at every frame size, from the first frame on, at a fixed latency."""

import cocotb
import frames
import harness
import pytest
from agents import Frame
from bench import NicBench

from flytrim.flow_cam import FlowCam
from flytrim.flow_hash import FlowHash
from flytrim.verdict import Reason

LIMIT = {"timeout_time": 0.5, "timeout_unit": "ms"}
#: Bytes of a frame around its payload: Ethernet, IPv4, UDP, BTH, ICRC.
OVERHEAD = 14 + 20 + 8 + 12 + 4
STRANGER = 0x999999


@pytest.mark.model
def test_nic_rate(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) >= 9


def frame_of(size, rng, **fields):
    """A frame of ``size`` bytes whose payload reaches to its end."""
    return frames.roce_frame("RC_SEND_MIDDLE", rng.randbytes(size - OVERHEAD), pad=0, minimum=0,
                             **fields)


def table_wait(config):
    """Cycles that a hashed flow table takes longer than a CAM."""
    return FlowHash.latency - FlowCam.latency if config.hashed else 0


def check_rate(bench, first=0):
    """Every cycle from the first beat in to the last one took a beat, and none was left over."""
    entered = bench.source.accepted[first:]
    lanes = bench.config.lanes
    beats = sum(-(-len(frame.data) // lanes) for frame in entered)
    cycles = entered[-1].last_cycle - entered[0].first_cycle + 1
    assert beats == cycles, f"{beats} beats took {cycles} cycles"


def sizes_of(lanes):
    """60 to 200 bytes, and two to either side of each beat's end up to 24 beats."""
    around = {beats * lanes + step for beats in range(1, 25) for step in (-2, -1, 0, 1, 2)}
    return sorted({*range(60, 201), *(size for size in around if 60 <= size <= 1514)})


@cocotb.test(**LIMIT)
@cocotb.parametrize(kind=["trimmed", "bypassed", "in_turn"])
async def every_size_back_to_back(dut, kind):
    bench = await NicBench(dut).start()
    sizes = sizes_of(bench.config.lanes)
    for number, size in enumerate(sizes * 2):
        trimmed = kind == "trimmed" or kind == "in_turn" and number % 2
        fields = {} if trimmed else {"dqpn": STRANGER}
        judgement = bench.send(frame_of(size, bench.rng, psn=number, **fields))
        assert judgement.reason is (Reason.NONE if trimmed else Reason.NO_FLOW)
    await bench.finish(at_least=4 * len(sizes))
    check_rate(bench)
    # Nothing has piled up on the way: the last frame leaves as soon as a single one would, once its
    # headers have been read.
    last = max(seen[-1].last_cycle for name, seen in bench.seen.items()
               if name in ("m_axis_bypass", "m_axis_trim") and seen)
    assert last - bench.source.accepted[-1].last_cycle <= (
        10 + -(-54 // bench.config.lanes) + table_wait(bench.config))


@cocotb.test(**LIMIT)
@cocotb.parametrize(message=[0, 4, 18])
async def shortest_frames_back_to_back(dut, message):
    bench = await NicBench(dut).start()
    for number in range(400):
        bench.send(frames.roce_frame("UC_SEND_ONLY", bench.rng.randbytes(message), psn=number,
                                     dqpn=0x11 if bench.rng.random() < 0.8 else STRANGER))
    await bench.finish(at_least=800)
    check_rate(bench)


@cocotb.test(**LIMIT)
async def runts_of_every_size_back_to_back(dut):
    bench = await NicBench(dut).start()
    for size in (*range(1, 64), *range(63, 0, -1), *[1] * 20):
        bench.send(bench.rng.randbytes(size))
        bench.send(frames.runt(min(size, 59)))
    await bench.finish(at_least=500)
    check_rate(bench)


@cocotb.test(**LIMIT)
async def random_mix_at_full_rate(dut):
    bench = await NicBench(dut).start()
    for _ in range(200):
        bench.send(frames.random_frame(bench.rng))
    await bench.finish(at_least=400)
    check_rate(bench)


@cocotb.test(**LIMIT)
async def latency_is_the_same_for_every_frame_of_a_header_stack(dut):
    bench = await NicBench(dut).start()
    lanes = bench.config.lanes
    latencies = {}
    for opcode in ("RC_SEND_MIDDLE", "RC_WRITE_FIRST"):
        for tags in (0, 1, 2):
            for size in (3 * lanes, 4 * lanes + 1, 5 * lanes + 3):
                fields = {"vlans": ((0x8100, 9),) * tags, "minimum": 0}
                header = len(frames.roce_frame(opcode, b"", **fields)) - 4
                bench.send(frames.roce_frame(opcode, bench.rng.randbytes(size), **fields))
                await bench.settle()
                entered, left = bench.source.accepted[-1], bench.seen["m_axis_trim"][-1]
                complete = entered.first_cycle + (header - 1) // lanes
                latencies.setdefault(header, set()).add(left.first_cycle - complete)
    await bench.finish(at_least=54)
    for header, seen in latencies.items():
        assert len(seen) == 1, f"{header} bytes of headers: latencies of {sorted(seen)} cycles"
        # One more where the first beat out needs bytes of the beat behind the headers.
        limit = 7 + (header % lanes != 0) + table_wait(bench.config)
        assert max(seen) <= limit, f"{header} bytes of headers: {seen} cycles, limit {limit}"


@cocotb.test(**LIMIT)
@cocotb.parametrize(size=[60, 61, 64, 65, 128, 200])
async def first_frame_after_reset_is_right(dut, size):
    bench = NicBench(dut, flows=[])
    bench.send(frame_of(size, bench.rng))
    await bench.start()
    await bench.finish(at_least=2)
    assert bench.source.accepted[0].first_cycle == bench.edges.began
    assert bench.seen["m_axis_bypass"][0].data == bench.source.accepted[0].data


@cocotb.test(**LIMIT)
@cocotb.parametrize(kind=["trimmed", "bypassed"])
async def reset_within_a_frame_leaves_nothing_behind(dut, kind):
    bench = await NicBench(dut).start()
    fields = {"dqpn": STRANGER} if kind == "bypassed" else {}
    for cut in range(1, 8):
        # Eight beats, of which the device sees at most seven.
        bench.source.send(Frame(frame_of(8 * bench.config.lanes, bench.rng, **fields)))
        await bench.edges.wait(cut)
        bench.source.abort()
        if not cut % 2:
            # Of no flow, because there is none behind the reset; in the first cycle.
            bench.send(frame_of(61, bench.rng, udp_dport=1))
        await bench.edges.reset()
        if cut % 2:
            await bench.program()
            bench.send(frame_of(150, bench.rng, **fields))
        await bench.settle()
    await bench.finish(at_least=14)
