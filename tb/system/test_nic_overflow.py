# SPDX-License-Identifier: Apache-2.0
"""TrimNic behind sinks that stall: frames are dropped whole and told so, then all is well."""

import cocotb
import frames
import harness
import pytest
from bench import NicBench
from pacing import EVERY

from flytrim.verdict import Reason, Verdict

STRANGER = 0x999999
PORTS = {"bypass": "m_axis_bypass", "trim": "m_axis_trim", "meta": "m_axis_meta"}


@pytest.mark.model
def test_nic_overflow(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) >= 12


def send(bench, count, longest, trimmed=0.6):
    """Sound frames of a flow and of none, so that room is all that can be missing."""
    for _ in range(count):
        fields = {} if bench.rng.random() < trimmed else {"dqpn": STRANGER}
        payload = bench.rng.randbytes(bench.rng.randrange(longest))
        bench.send(frames.roce_frame("RC_SEND_ONLY", payload, psn=len(bench.sent), **fields))


def overflowed(bench, first, end):
    """Numbers of the frames that found no room."""
    reasons = [bits & 0xFF for bits in bench.seen["m_axis_verdict"][first:end]]
    return [first + n for n, reason in enumerate(reasons) if reason == Reason.OVERFLOW]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(port=list(PORTS))
async def stalled_sink_costs_whole_frames_of_its_own(dut, port):
    bench = await NicBench(dut, follow=True, overflow=True).start()
    send(bench, 20, 200)
    await bench.settle()
    assert not overflowed(bench, 0, 20)

    bench.sinks[PORTS[port]].stalled = True
    # Room for records runs out when there are many of them, for beats when those are long.
    send(bench, 1400 if port == "meta" else 500, 12 if port == "meta" else 500)
    await bench.source.idle()
    await bench.edges.wait(40)
    stalled_end = len(bench.sent)
    assert len(bench.seen["m_axis_verdict"]) == stalled_end
    lost = overflowed(bench, 20, stalled_end)
    assert lost, "nothing overflowed"
    hurt = {bench.sent[number][1][0].verdict for number in lost}
    assert hurt == {Verdict.BYPASS if port == "bypass" else Verdict.TRIM}

    bench.sinks[PORTS[port]].stalled = False
    await bench.settle()
    send(bench, 100, 500)
    await bench.finish(at_least=500)
    assert not overflowed(bench, stalled_end, len(bench.sent))


def send_damaged(bench, count, too_long):
    """Frames that are dropped whether there is room or not, in turn with sound ones."""
    for number in range(count):
        fields = {"psn": len(bench.sent), "minimum": 0}
        payload = bench.rng.randbytes(bench.rng.randrange(0, 300))
        if bench.rng.random() < 0.02:
            # Past max_frame; where to go is for the caller to say.
            fields |= {"tail": bytes(bench.config.max_frame), **too_long}
        elif number % 3:
            fields["icrc"] = bench.rng.choice((None, b"\0\0\0\0"))
        frame = frames.roce_frame("RC_SEND_ONLY", payload, **fields)
        bench.send(frame[:len(frame) - (number % 5 == 1)], error=number % 7 == 0)
    send(bench, count // 4, 300)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(port=list(PORTS))
async def damaged_frames_leave_whole_or_not_at_all(dut, port):
    bench = await NicBench(dut, follow=True, overflow=True).start()
    sink = bench.sinks[PORTS[port]]
    too_long = {"dqpn": STRANGER} if port == "bypass" else {}
    for _ in range(2):
        sink.stalled = True
        send_damaged(bench, 700 if port == "meta" else 300, too_long)
        await bench.source.idle()
        await bench.edges.wait(40)
        sink.stalled = False
        # While the queue empties, damaged frames find room in one moment and none in the next.
        send_damaged(bench, 100, too_long)
        await bench.settle()
    end = len(bench.sent)
    send_damaged(bench, 60, too_long)
    await bench.finish(at_least=1000)
    lost = [number for number, chosen in enumerate(bench.chosen) if chosen]
    damaged = {bench.sent[number][1][0].reason for number in lost}
    expected = {Reason.OVERSIZE} if port == "bypass" else {
        Reason.OVERSIZE, Reason.MAC_ERROR, Reason.TRUNCATED, Reason.ICRC}
    assert expected <= damaged, f"found room: {expected - damaged}"
    assert lost[-1] < end, f"frame {lost[-1]} is lost with the sinks back"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(longest=["trimmed", "bypassed", "too_long"])
async def longest_frame_takes_no_room_from_the_next(dut, longest):
    bench = await NicBench(dut).start()
    overhead = len(frames.roce_frame("RC_SEND_MIDDLE", b"", minimum=0))
    size = (bench.config.max_frame - overhead) // 4 * 4
    fields = {"dqpn": STRANGER} if longest == "bypassed" else {}
    if longest == "too_long":
        fields["tail"] = bytes(100)
    for number in range(3):
        for key in ({}, {"dqpn": STRANGER}):
            bench.send(frames.roce_frame("RC_SEND_MIDDLE", bench.rng.randbytes(size), **fields))
            bench.send(frames.roce_frame("RC_SEND_ONLY", b"next", psn=number, **key))
    await bench.finish(at_least=24)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(pacing=[param for param in EVERY if param.name != "full_rate"
                            and param.name != "sparse_source"])
async def slow_sinks_cost_whole_frames(dut, pacing):
    bench = await NicBench(dut, pacing=pacing, follow=True, overflow=True).start()
    send(bench, 900, 300, trimmed=0.9)
    await bench.finish(at_least=900)
    if pacing.source == 1:
        assert overflowed(bench, 0, len(bench.sent))


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(port=["bypass", "trim"])
async def room_is_room_for_a_longest_frame(dut, port):
    bench = await NicBench(dut, follow=True, overflow=True).start()
    fields = {"dqpn": STRANGER} if port == "bypass" else {}
    # Without pad, behind 54 bytes of headers and before the ICRC.
    sink, longest = bench.sinks[PORTS[port]], (bench.config.max_frame - 58) // 4 * 4

    def burst(count):
        for _ in range(count):
            size = bench.rng.choice((longest - 4 * bench.rng.randrange(3),
                                     bench.rng.randrange(600)))
            bench.send(frames.roce_frame("RC_SEND_MIDDLE", bench.rng.randbytes(size), **fields))

    for _ in range(4):
        # Filled to the last frame that fits, then emptied a little at a time.
        sink.stalled = True
        burst(12)
        await bench.source.idle()
        for _ in range(4):
            sink.stalled = False
            await bench.edges.wait(bench.rng.randrange(2 * bench.config.max_beats))
            sink.stalled = True
            burst(2)
            await bench.source.idle()
    sink.stalled = False
    await bench.finish(at_least=80)
    assert overflowed(bench, 0, len(bench.sent))
