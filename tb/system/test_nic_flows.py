# SPDX-License-Identifier: Apache-2.0
"""TrimNic's registers: identity, status codes, and a flow table that changes in one step."""

import dataclasses

import cocotb
import frames
import harness
import pytest
from agents import AxiLiteError
from bench import FLOWS, NicBench

from flytrim.flow_cam import FlowOperation, FlowStatus
from flytrim.model import Flow, NicModel

LIMIT = {"timeout_time": 0.5, "timeout_unit": "ms"}
KEEPER = Flow(name="keeper", src="10.9.9.9", dst="10.9.9.8", dqpn=1)
A = Flow(name="a", src="10.0.0.1", dst="10.0.0.9", dqpn=0x11, message_bytes=1000, excess="cut")
B = Flow(name="b", src="fd00::1", dst="fd00::9", dqpn=0xEE, message_bytes=4, excess="cut")
#: The key of A; a mixture with A's context would cut what is to be passed by.
STRICT = dataclasses.replace(A, name="strict", message_bytes=8, excess="bypass")


@pytest.mark.model
def test_nic_flows(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) >= 5


@cocotb.test(**LIMIT)
async def tells_what_it_is(dut):
    bench = await NicBench(dut).start(program=False)
    registers, config = bench.registers, bench.config
    assert await bench.read("id") == int.from_bytes(b"FLYT", "big")
    capability = registers.unpack("capability", await bench.read("capability"))
    assert (capability["width"], capability["flows"]) == (config.width, config.flows)
    assert registers.unpack("max_frame", await bench.read("max_frame"))["bytes"] == config.max_frame
    ports = registers.unpack("flow.ports", await bench.read("flow.ports"))
    assert ports == {"dport": 4791, "sport": 0}


@cocotb.test(**LIMIT)
async def refuses_addresses_without_a_register(dut):
    bench = await NicBench(dut).start(program=False)
    known = {bench.registers.address(name) + 4 * word for name in bench.registers
             for word in range(bench.registers.words(name))}
    beside = {address + step for address in known for step in (-4, 4) if address + step >= 0}
    for address in sorted((beside | {0x800, 0xFFC}) - known):
        for access in (bench.axil.read(address), bench.axil.write(address, 1)):
            with pytest.raises(AxiLiteError):
                await access
    with pytest.raises(AxiLiteError):
        await bench.axil.write(bench.registers.address("id"), 0)


@cocotb.test(**LIMIT)
async def shadow_registers_keep_what_is_written(dut):
    bench = await NicBench(dut).start(program=False)
    names = [name for name in bench.registers if name.startswith("flow.")]
    words = {}
    for name in names:
        full = bench.registers.pack(name, **{
            field: (1 << 32) - 1 & mask for field, mask in widths(bench, name)})
        words[name] = bench.rng.getrandbits(32) & full
        await bench.axil.write(bench.registers.address(name), words[name])
    assert {name: await bench.read(name) for name in names} == words
    address = bench.registers.address("flow.src[2]")
    await bench.axil.write(address, 0x11223344)
    await bench.axil.write(address, 0xAABBCCDD, strobe=0b0110)
    assert await bench.axil.read(address) == 0x11BBCC44


def widths(bench, name):
    """(field, largest value) of a register."""
    return bench.registers.unpack(name, 0xFFFFFFFF).items()


@cocotb.test(**LIMIT)
async def answers_each_mistake_with_its_status(dut):
    bench = await NicBench(dut).start()
    count, free = bench.config.flows, len(FLOWS) if len(FLOWS) < bench.config.flows else None
    key = FLOWS[0]
    tagged = dataclasses.replace(key, name="tagged", vlan=7)
    path = dataclasses.replace(key, name="path", udp_sport=7)
    insert, replace, delete = (int(FlowOperation[name]) for name in ("INSERT", "REPLACE", "DELETE"))
    assert await bench.insert(0, A) == FlowStatus.OCCUPIED
    assert await bench.insert(count, A) == FlowStatus.BAD_NUMBER
    assert await bench.command(flow=0xFFFF, op=delete) == FlowStatus.BAD_NUMBER
    assert await bench.command(flow=0, op=0) == FlowStatus.UNKNOWN
    if free is not None:
        assert await bench.command(flow=free, op=delete) == FlowStatus.EMPTY
        assert await bench.command(flow=free, op=replace) == FlowStatus.EMPTY
        assert await bench.insert(free, key) == FlowStatus.DUPLICATE
        assert await bench.insert(free, tagged) == FlowStatus.OVERLAP
        assert await bench.insert(free, path) == FlowStatus.OVERLAP
        assert await bench.insert(count - 1, KEEPER) == FlowStatus.DONE
        assert await bench.command(flow=count - 1, op=delete) == FlowStatus.DONE
        assert await bench.command(flow=count - 1, op=insert) == FlowStatus.DONE
        assert await bench.command(flow=count - 1, op=delete) == FlowStatus.DONE
    # A flow may be replaced by itself, also with other options, but not by another one's key.
    assert await bench.replace(0, key) == FlowStatus.DONE
    assert await bench.replace(0, tagged) == FlowStatus.DONE
    assert await bench.replace(1, tagged) == FlowStatus.DUPLICATE
    assert await bench.replace(1, key) == FlowStatus.OVERLAP
    assert await bench.replace(0, key) == FlowStatus.DONE
    # None of the refused ones has changed anything.
    await bench.feed(frames.random_frame(bench.rng) for _ in range(100))
    await bench.finish(at_least=200)


def frames_of(rng):
    """A frame that only A and STRICT, or only B, has a word on."""
    flow = rng.choice((A, B))
    return frames.roce_frame("RC_SEND_ONLY", rng.randbytes(40), src=str(flow.src),
                             dst=str(flow.dst), dqpn=flow.dqpn)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def flows_change_in_one_step_under_traffic(dut):
    bench = await NicBench(dut, flows=[KEEPER], follow=True).start()
    delete = int(FlowOperation.DELETE)
    # Where a flow that is not registered keeps the others' numbers, nothing can match it.
    nobody = dataclasses.replace(KEEPER, name="nobody", dqpn=2)
    steps = [
        (A, lambda: bench.insert(1, A)), (B, lambda: bench.replace(1, B)),
        (A, lambda: bench.replace(1, A)), (STRICT, lambda: bench.replace(1, STRICT)),
        (A, lambda: bench.replace(1, A)), (None, lambda: bench.command(flow=1, op=delete)),
    ]
    before, bursts, caught = nobody, [], 0
    for after, change in steps * 5:
        after = after or nobody
        models = [NicModel([KEEPER, flow]) for flow in (before, after)]
        command = cocotb.start_soon(change())
        first = len(bench.sent)
        while not command.done():
            if bench.source.waiting < 2:
                bench.send(frames_of(bench.rng), models=models)
            await bench.edges.wait()
        assert command.result() == FlowStatus.DONE
        for _ in range(3):
            bench.send(frames_of(bench.rng), models=models[1:])
        bursts.append((first, len(bench.sent) - 3))
        await bench.settle()
        before = after
    await bench.finish(at_least=600)

    for first, end in bursts:
        # Frames on which both states agree say nothing.
        states = [bench.chosen[n] for n in range(first, end)
                  if bench.sent[n][1][0] != bench.sent[n][1][1]]
        assert states == sorted(states), f"frames {first} to {end} saw {states}"
        caught += states[:1] != states[-1:]
    assert caught >= len(bursts) // 2, f"only {caught} of {len(bursts)} changes met traffic"
