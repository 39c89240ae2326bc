# SPDX-License-Identifier: Apache-2.0
"""TrimNic through a reset in any cycle, and with frames whose end never comes.

Behind the reset the rest of a frame that was cut is a frame of its own: told, passed by, and no
harm to the next one. What was on its way does not come.
"""

import cocotb
import frames
import harness
import pytest
from agents import Frame
from bench import FLOWS, NicBench

from flytrim.flow_cam import FlowOperation, FlowStatus
from flytrim.verdict import Reason

LIMIT = {"timeout_time": 2, "timeout_unit": "ms"}
FLOW, STRANGER = FLOWS[0], 0x999999
#: Cycles in which a frame certainly leaves whose sinks are ready.
PIPELINE = 20
#: Fields of a frame by where it goes.
KINDS = {"trimmed": {}, "bypassed": {"dqpn": STRANGER}}


@pytest.mark.model
def test_nic_reset(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) >= 17


def frame(bench, size, **fields):
    return frames.roce_frame("RC_SEND_ONLY", bench.rng.randbytes(size), **fields)


async def cut(bench, beats, taken, **fields):
    """Send the first of a frame's beats; gives the rest of its bytes."""
    lanes = bench.config.lanes
    data = frame(bench, beats * lanes - 58, minimum=0, **fields)
    bench.source.send(Frame(data[:taken * lanes], ended=False))
    await bench.source.idle()
    return data[taken * lanes:]


async def prove(bench):
    """All is as after the first reset: no flow is left, and one that is registered is trimmed."""
    assert bench.send(frame(bench, 40), models=[bench.nothing]).reason is Reason.NOT_ROCE
    await bench.settle(PIPELINE)
    await bench.program()
    assert bench.send(frame(bench, 40)).reason is Reason.NONE
    assert bench.send(frame(bench, 40, dqpn=STRANGER)).reason is Reason.NO_FLOW
    await bench.settle(PIPELINE)


async def release(bench):
    """Reset, and sinks that are back no sooner: what waited at a port must not wait there still."""
    await bench.reset(frame(bench, 30))
    for sink in bench.sinks.values():
        sink.stalled = False


async def started(dut):
    bench = await NicBench(dut, flows=[FLOW]).start()
    bench.nothing = type(bench.model)([], bench.config.max_frame)
    return bench


@cocotb.test(**LIMIT)
@cocotb.parametrize(kind=list(KINDS), rest=["at_once", "later"])
async def reset_within_a_frame(dut, kind, rest):
    bench = await started(dut)
    for taken in range(1, 12):
        for gap in range(PIPELINE if rest == "at_once" else 3):
            left = await cut(bench, 12, taken, **KINDS[kind])
            await bench.edges.wait(gap)
            if rest == "at_once":
                await bench.reset(left, frame(bench, 30))
            else:
                await bench.reset()
                await bench.program()
                bench.send(left)
                bench.send(frame(bench, 30, **KINDS[kind]))
                await bench.settle(PIPELINE)
                await bench.reset()
            await prove(bench)
    await bench.finish(at_least=200)


@cocotb.test(**LIMIT)
async def reset_within_what_is_past_max_frame(dut):
    bench = await started(dut)
    longest = bench.config.max_beats
    # No further: what was ended at max_frame has no verdict yet.
    for taken in (*range(longest - 2, longest + 3), longest + 1):
        left = await cut(bench, taken + 3, taken)
        await bench.reset(left, frame(bench, 30))
        await prove(bench)
    await bench.finish(at_least=30)


@cocotb.test(**LIMIT)
@cocotb.parametrize(kind=list(KINDS), stalled=[False, True])
async def reset_while_a_frame_leaves(dut, kind, stalled):
    bench = await started(dut)
    for gap in range(PIPELINE):
        for sink in bench.sinks.values():
            sink.stalled = stalled
        bench.send(frame(bench, 100, **KINDS[kind]))
        bench.send(frame(bench, 4, **KINDS[kind]))
        await bench.source.idle()
        await bench.edges.wait(gap)
        await release(bench)
        await prove(bench)
    await bench.finish(at_least=60)


@cocotb.test(**LIMIT)
async def reset_is_the_way_out_for_sinks_that_stall_for_ever(dut):
    bench = await started(dut)
    for _ in range(2):
        for sink in bench.sinks.values():
            sink.stalled = True
        # As many as there is room for, so that it is known what becomes of each.
        for _ in range(5):
            for kind in KINDS:
                bench.send(frame(bench, bench.config.max_frame // 6, **KINDS[kind]))
        await bench.source.idle()
        await bench.edges.wait(100)
        assert all(getattr(dut, f"{name}_tvalid").value for name in bench.sinks)
        await release(bench)
        await prove(bench)
    await bench.finish(at_least=10)


@cocotb.test(**LIMIT)
async def reset_within_a_register_access(dut):
    bench = await started(dut)
    shadow = [name for name in bench.registers if name.startswith("flow.")]
    for offset in range(16):
        for access in ("write", "read"):
            name = bench.rng.choice(shadow)
            address = bench.registers.address(name)
            left = await cut(bench, 12, 2)
            task = cocotb.start_soon(bench.axil.write(address, 0xFFFFFFFF) if access == "write"
                                     else bench.axil.read(address))
            await bench.edges.wait(offset)
            task.cancel()
            await bench.reset(left, frame(bench, 30))
            for _ in range(4):
                await bench.edges.wait()
                assert not dut.s_axil_bvalid.value and not dut.s_axil_rvalid.value
            assert {name: await bench.read(name) for name in shadow} == {
                name: bench.registers.pack(name) for name in shadow}
        await prove(bench)
    await bench.finish(at_least=60)


@cocotb.test(**LIMIT)
@cocotb.parametrize(operation=[operation.name for operation in FlowOperation])
async def reset_within_a_flow_command(dut, operation):
    bench = await started(dut)
    word = bench.registers.pack("flow_command", flow=0, op=int(FlowOperation[operation]))
    # A hashed table takes longer.
    for offset in (*range(30), *(range(30, 150, 7) if bench.config.hashed else ())):
        if operation == "INSERT":
            delete = int(FlowOperation.DELETE)
            assert await bench.command(flow=0, op=delete) == FlowStatus.DONE
        left = await cut(bench, 12, 1)
        task = cocotb.start_soon(
            bench.axil.write(bench.registers.address("flow_command"), word))
        await bench.edges.wait(offset)
        task.cancel()
        await bench.reset(left, frame(bench, 30))
        await prove(bench)
    await bench.finish(at_least=90)


@cocotb.test(**LIMIT)
async def reset_soon_after_a_reset(dut):
    bench = await started(dut)
    for gap in (*range(20), *range(20, 100, 9)):
        await bench.reset()
        await bench.edges.wait(gap)
        await bench.reset(frame(bench, 30))
        await prove(bench)
    await bench.finish(at_least=80)


@cocotb.test(**LIMIT)
@cocotb.parametrize(kind=list(KINDS))
async def frame_whose_end_never_comes_goes_on_with_the_next(dut, kind):
    bench = await started(dut)
    lanes = bench.config.lanes
    for taken in range(1, 12):
        begun = frame(bench, 12 * lanes, minimum=0, **KINDS[kind])[:taken * lanes]
        start, verdicts = bench.source.beats, len(bench.sent)
        # Two beats and more are still to come when the source is held.
        bench.send(begun + frame(bench, 2 * lanes + taken, **KINDS[kind]))
        while bench.source.beats < start + taken:
            await bench.edges.wait()
        bench.source.held = True
        await bench.edges.wait(60)
        assert bench.source.beats <= start + taken + 1
        assert len(bench.seen["m_axis_verdict"]) == verdicts, "a verdict before the frame's end"
        bench.source.held = False
        bench.send(frame(bench, 30, **KINDS[kind]))
        await bench.settle(PIPELINE)
    await bench.finish(at_least=44)
