# SPDX-License-Identifier: Apache-2.0
"""TrimNic's interrupt and flow commands: each event alone, in time, and gone with reset."""

import cocotb
import frames
import harness
import pytest
from bench import NicBench

from flytrim.flow_cam import FlowOperation, FlowStatus

LIMIT = {"timeout_time": 2, "timeout_unit": "ms"}
EVENTS = ("command_done", "command_lost", "overflow", "damaged")


@pytest.mark.model
def test_nic_events(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) >= 8


def message(**fields):
    return frames.roce_frame("RC_SEND_ONLY", b"four", **fields)


async def post(bench, *operations):
    """Commands on flow 0, written back to back."""
    address = bench.registers.address("flow_command")
    for operation in operations:
        await bench.axil.post(address, bench.registers.pack("flow_command", flow=0,
                                                            op=int(operation)))
    for _ in operations:
        await bench.axil.answer(address)


async def cause(bench, event):
    """Let an event happen; gives all that have happened then."""
    if event == "damaged":
        bench.send(message(), error=True)
    elif event == "overflow":
        bench.sinks["m_axis_meta"].stalled = True
        for _ in range(bench.config.queue_records + 20):
            bench.send(message())
        await bench.source.idle()
        bench.sinks["m_axis_meta"].stalled = False
    elif event == "command_done":
        await bench.driven(lambda device: device.read_flow(0))
    else:
        # The shadow holds the last flow, for which there is no room under another number.
        await post(bench, FlowOperation.REPLACE, FlowOperation.REPLACE)
        assert await bench.flow_status() == FlowStatus.DUPLICATE
        return {"command_done", "command_lost"}
    await bench.settle()
    return {event}


@cocotb.test(**LIMIT)
@cocotb.parametrize(event=EVENTS)
async def an_event_raises_the_interrupt_where_it_is_enabled(dut, event):
    bench = await NicBench(dut, follow=True, overflow=True).start()
    await bench.driven(lambda device: device.clear_events(*device.events()))
    bench.send(message())
    happened = await cause(bench, event)
    assert await bench.driven(lambda device: device.events()) == happened
    for each in EVENTS:
        await bench.driven(lambda device, each=each: device.enable_events(each))
        await bench.edges.wait(3)
        assert bool(dut.irq.value) == (each in happened), each
    await bench.finish(at_least=1)


@cocotb.test(**LIMIT)
async def a_lost_command_never_runs_and_the_other_is_done_at_its_end(dut):
    bench = await NicBench(dut).start()
    last = len(bench.flows) - 1
    for gap in range(14):
        await bench.driven(lambda device: device.clear_events(*device.events()))
        # The last flow, which the shadow holds, takes the place of itself.
        address = bench.registers.address("flow_command")
        await bench.axil.write(address, bench.registers.pack(
            "flow_command", flow=last, op=int(FlowOperation.REPLACE)))
        await bench.edges.wait(gap)
        await bench.axil.write(address, bench.registers.pack(
            "flow_command", flow=last, op=int(FlowOperation.DELETE)))
        busy = True
        while busy:
            events = await bench.driven(lambda device: device.events())
            busy = bench.registers.unpack("flow_status", await bench.read("flow_status"))["busy"]
            assert not busy or "command_done" not in events
        assert await bench.driven(lambda device: device.events()) == {
            "command_done", "command_lost"}
        await bench.edges.wait(300)
        assert await bench.command(flow=last, op=int(FlowOperation.READ)) == FlowStatus.DONE
    bench.send(message())
    await bench.finish(at_least=1)


@cocotb.test(**LIMIT)
async def a_clear_leaves_the_counters_of_flows(dut):
    bench = await NicBench(dut).start()
    for count in (3, 6):
        for _ in range(3):
            bench.send(message())
        await bench.settle()
        await bench.driven(lambda device: device.clear_counters())
        assert await bench.driven(lambda device: device.flow_counters(0)) == (count, count)
    await bench.clear()
    await bench.finish(at_least=6)


@cocotb.test(**LIMIT)
async def counters_are_those_of_the_number_written_without_a_command(dut):
    bench = await NicBench(dut).start()
    bench.send(message())
    await bench.settle()
    for number, count in ((1, 0), (0, 1), (1, 0)):
        # Two byte strobes of four: the number alone.
        await bench.axil.write(bench.registers.address("flow_command"), number, strobe=0b0011)
        assert await bench.read("flow_counters.packets") == count
    await bench.finish(at_least=1)


@cocotb.test(**LIMIT)
async def reset_ends_events_commands_and_counters(dut):
    bench = await NicBench(dut).start()
    for offset in range(0, 60, 3):
        await bench.driven(lambda device: device.enable_events(*EVENTS))
        for sink in bench.sinks.values():
            sink.stalled = True
        for _ in range(4):
            bench.send(message())
            bench.send(message(dqpn=0x999999))
        await bench.source.idle()
        operation = list(FlowOperation)[offset // 3 % len(FlowOperation)]
        command = cocotb.start_soon(post(bench, operation))
        await bench.edges.wait(offset)
        command.cancel()
        await bench.reset()
        for sink in bench.sinks.values():
            sink.stalled = False
        await bench.edges.wait(3)
        assert not dut.irq.value
        assert await bench.flow_status() == FlowStatus.DONE
        counters = await bench.driven(lambda device: device.counters())
        assert counters.received == (0, 0) and not any(counters.buckets)
        assert counters.latency is None and not any(counters.high_water.values())
        assert await bench.driven(lambda device: device.events()) == set()
        assert not any((await bench.driven(
            lambda device: device.read("interrupt_enable"))).values())
        await bench.program()
    bench.send(message())
    await bench.finish(at_least=1)
