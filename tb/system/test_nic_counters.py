# SPDX-License-Identifier: Apache-2.0
"""TrimNic's counters and events: each moved by its own frames, and by nothing else.

Every other bench of the device compares all of them at its end as well.
"""

import dataclasses

import background
import cocotb
import frames
import harness
import pytest
from bench import FLOWS, NicBench
from hostile import hostile_frames

from flytrim.flow_cam import FlowOperation, FlowStatus
from flytrim.model import Flow, NicModel
from flytrim.verdict import Reason

LIMIT = {"timeout_time": 1, "timeout_unit": "ms"}
KEEPER = Flow(name="keeper", src="10.9.9.9", dst="10.9.9.8", dqpn=1)
A = Flow(name="a", src="10.0.0.1", dst="10.0.0.9", dqpn=0x11)


@pytest.mark.model
def test_nic_counters(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) >= 8


def one_of_each(bench):
    """A frame for each reason but ``overflow``, as (bytes, MAC error)."""
    found = {}
    for sent in hostile_frames(bench.rng, 100_000, beat=bench.config.lanes,
                               max_frame=bench.config.max_frame):
        found.setdefault(bench.model.judge(sent.frame, sent.error).reason,
                         (sent.frame, sent.error))
        if len(found) == len(Reason) - 1:
            return found
    raise AssertionError(f"no frame for {set(Reason) - set(found)}")


@cocotb.test(**LIMIT)
async def each_reason_moves_its_own_counters(dut):
    bench = await NicBench(dut).start()
    each = one_of_each(bench)
    assert set(each) == set(Reason) - {Reason.OVERFLOW}
    for reason, (data, error) in each.items():
        assert bench.send(data, error=error).reason is reason
        await bench.settle()
        await bench.audit()
        await bench.clear()
        await bench.audit()
    await bench.finish(at_least=len(each))


@cocotb.test(**LIMIT)
async def each_flow_moves_its_own_counters(dut):
    flows = [dataclasses.replace(A, name=f"f{n}", dqpn=n) for n in range(8)]
    bench = await NicBench(dut, flows=flows).start()
    for flow in flows:
        for opcode in ("RC_SEND_FIRST", "RC_SEND_MIDDLE", "RC_SEND_LAST", "RC_WRITE_ONLY_IMM"):
            bench.send(frames.roce_frame(opcode, b"four", src=str(flow.src), dst=str(flow.dst),
                                         dqpn=flow.dqpn))
        await bench.settle()
        await bench.audit()
    for number in (3, 0, 7):
        await bench.driven(lambda device, number=number: device.restart_flow(number))
        counts = [await bench.driven(lambda device, n=n: device.flow_counters(n))
                  for n in range(len(flows))]
        assert counts == [(0, 0) if n == number else (4, 2) for n in range(len(flows))]
        for opcode in ("RC_SEND_FIRST", "RC_SEND_MIDDLE", "RC_SEND_LAST", "RC_SEND_ONLY"):
            bench.send(frames.roce_frame(opcode, b"four", src=str(A.src), dst=str(A.dst),
                                         dqpn=number))
        await bench.settle()
    await bench.clear()
    await bench.finish(at_least=40)


@cocotb.test(**LIMIT)
async def a_number_that_is_inserted_again_begins_at_zero(dut):
    bench = await NicBench(dut, flows=[A, KEEPER]).start()
    message = frames.roce_frame("RC_SEND_ONLY", b"four", src=str(A.src), dst=str(A.dst),
                                dqpn=A.dqpn)
    for _ in range(3):
        for count in range(1, 4):
            bench.send(message)
            await bench.settle()
            assert await bench.driven(lambda device: device.flow_counters(0)) == (count, count)
        # The one put in its place goes on counting, the one inserted anew does not.
        await bench.driven(lambda device: device.replace_flow(0, A))
        assert await bench.driven(lambda device: device.flow_counters(0)) == (3, 3)
        await bench.driven(lambda device: device.remove_flow(0))
        await bench.driven(lambda device: device.insert_flow(0, A))
        assert await bench.driven(lambda device: device.flow_counters(0)) == (0, 0)
    await bench.clear()
    await bench.finish(at_least=9)


@cocotb.test(**LIMIT)
async def a_disabled_flow_passes_by_under_traffic(dut):
    bench = await NicBench(dut, flows=[KEEPER, A], follow=True).start()
    off = NicModel([KEEPER, dataclasses.replace(A, disabled=True)])
    states, trimmed = [bench.model], 0
    for step in range(8):
        disable = step % 2 == 0
        states = [*states[-1:], off if disable else bench.model]
        change = cocotb.start_soon(bench.driven(
            lambda device, disable=disable: (device.disable_flow if disable
                                             else device.enable_flow)(1)))
        while not change.done():
            if bench.source.waiting < 2:
                bench.send(frames.roce_frame("RC_SEND_ONLY", bench.rng.randbytes(20),
                                             src=str(A.src), dst=str(A.dst), dqpn=A.dqpn),
                           models=states)
            await bench.edges.wait()
        await bench.settle()
        states = states[1:]
        for _ in range(2):
            trimmed += bench.send(frames.roce_frame("RC_SEND_ONLY", b"", src=str(A.src),
                                                    dst=str(A.dst), dqpn=A.dqpn),
                                  models=states).reason is Reason.NONE
        await bench.settle()
    assert trimmed == 8
    assert await bench.driven(lambda device: device.read_flow(1, "a")) == A
    await bench.finish(at_least=100)
    assert {0, 1} <= set(bench.chosen)


@cocotb.test(**LIMIT)
@cocotb.parametrize(queue=["trim", "bypass", "meta"])
async def high_water_marks_stay_until_they_are_cleared(dut, queue):
    bench = await NicBench(dut).start()
    sink = bench.sinks[f"m_axis_{queue}"]

    async def most():
        return (await bench.driven(lambda device: device.counters())).high_water[queue]

    async def wait(count):
        """Let ``count`` frames wait in front of the sink, then leave; the items that waited."""
        sink.stalled = True
        payload = bytes(5 * bench.config.lanes)
        frame = frames.roce_frame("RC_SEND_ONLY", payload, dqpn=0x999999 if queue == "bypass"
                                  else FLOWS[0].dqpn)
        for _ in range(count):
            bench.send(frame)
        await bench.source.idle()
        await bench.edges.wait(40)
        sink.stalled = False
        await bench.settle()
        return count * {"trim": 5, "bypass": -(-len(frame) // bench.config.lanes), "meta": 1}[queue]

    many = await wait(12)
    mark = await most()
    # Some of them stand in the registers behind the memory.
    assert many - 4 <= mark <= many
    assert await wait(5) < mark
    assert await most() == mark
    await bench.clear()
    assert await most() == 0
    few = await wait(5)
    assert few - 4 <= await most() <= few
    await bench.clear()
    await bench.finish(at_least=22)


@cocotb.test(**LIMIT)
async def interrupt_follows_what_has_happened_and_is_enabled(dut):
    bench = await NicBench(dut).start()
    bad = frames.roce_frame("RC_SEND_ONLY", b"four", src=str(FLOWS[0].src), dst=str(FLOWS[0].dst),
                            dqpn=FLOWS[0].dqpn)

    async def irq():
        await bench.edges.wait(3)
        return bool(dut.irq.value)

    await bench.driven(lambda device: device.clear_events(*device.events()))
    assert await bench.driven(lambda device: device.events()) == set() and not await irq()
    await bench.driven(lambda device: device.enable_events("overflow"))
    bench.send(bad, error=True)
    await bench.settle()
    assert await bench.driven(lambda device: device.events()) == {"damaged"} and not await irq()
    await bench.driven(lambda device: device.enable_events("damaged", "overflow"))
    assert await irq()
    await bench.driven(lambda device: device.clear_events("overflow", "command_done"))
    assert await irq()
    await bench.driven(lambda device: device.clear_events("damaged"))
    assert not await irq()
    # A command tells its end; one that is written while another runs is lost, and told.
    await bench.driven(lambda device: device.enable_events("command_done"))
    await bench.driven(lambda device: device.restart_flow(0))
    assert await bench.driven(lambda device: device.events()) == {"command_done"} and await irq()
    await bench.driven(lambda device: device.clear_events("command_done"))
    # The shadow still holds the last flow, which takes the place of itself.
    word = bench.registers.pack("flow_command", flow=len(FLOWS) - 1, op=int(FlowOperation.REPLACE))
    for _ in range(2):
        await bench.axil.post(bench.registers.address("flow_command"), word)
    for _ in range(2):
        await bench.axil.answer(bench.registers.address("flow_command"))
    assert await bench.flow_status() == FlowStatus.DONE
    assert "command_lost" in await bench.driven(lambda device: device.events())
    bench.send(background.arp())
    await bench.settle()
    await bench.clear()
    await bench.finish(at_least=1)
