# SPDX-License-Identifier: Apache-2.0
"""Register bank: every register of the description is where and what it says."""

import random

import cocotb
import harness
import pytest
from agents import AxiLite, AxiLiteError, Edges

from flytrim.driver import Registers
from flytrim.registers import load


@pytest.mark.model
def test_register_bank(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 3


class Bench:
    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.edges = Edges(dut)
        self.bus = AxiLite(dut, "bank__bus_", self.rng)
        self.nodes = {name: node for name, node in zip(Registers(), nodes(), strict=True)}

    def port(self, name, field):
        name = name.replace(".", "__").replace("[", "_").replace("]", "")
        return getattr(self.dut, f"bank__{name}__{field}")


def nodes():
    from systemrdl.node import RegNode
    return [node for node in load().descendants(unroll=True) if isinstance(node, RegNode)]


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def reset_values_are_those_of_the_description(dut):
    bench = Bench(dut)
    await bench.edges.start()
    await bench.edges.wait()
    for name, node in bench.nodes.items():
        for field in node.fields():
            if field.is_sw_writable:
                reset = field.get_property("reset") or 0
                assert int(bench.port(name, field.inst_name).value) == reset, f"{name}.{field}"


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def random_accesses_match_a_dict(dut):
    bench = Bench(dut)
    await bench.edges.start()
    words = {}
    for node in bench.nodes.values():
        words[node.absolute_address] = sum((field.get_property("reset") or 0) << field.low
                                           for field in node.fields())
        for field in node.fields():
            if field.is_hw_writable:
                value = bench.rng.getrandbits(field.width)
                port = bench.port(node.get_rel_path(load()), field.inst_name)
                port.value = value
                words[node.absolute_address] |= value << field.low
    for _ in range(600):
        node = bench.rng.choice(list(bench.nodes.values()))
        address = node.absolute_address
        if bench.rng.random() < 0.5:
            assert await bench.bus.read(address) == words[address], hex(address)
            continue
        value, strobe = bench.rng.getrandbits(32), bench.rng.getrandbits(4)
        mask = sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
        writable = sum((1 << field.width) - 1 << field.low for field in node.fields()
                       if field.is_sw_writable)
        if writable:
            await bench.bus.write(address, value, strobe)
            mask &= writable
            words[address] = words[address] & ~mask | value & mask
            for field in node.fields():
                got = int(bench.port(node.get_rel_path(load()), field.inst_name).value)
                assert got == words[address] >> field.low & (1 << field.width) - 1
        else:
            with pytest.raises(AxiLiteError):
                await bench.bus.write(address, value, strobe)


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def no_register_answers_with_an_error(dut):
    bench = Bench(dut)
    await bench.edges.start()
    known = {node.absolute_address for node in bench.nodes.values()}
    for _ in range(100):
        address = bench.rng.randrange(0, 4096, 4)
        if address not in known:
            with pytest.raises(AxiLiteError):
                await bench.bus.read(address)
            with pytest.raises(AxiLiteError):
                await bench.bus.write(address, bench.rng.getrandbits(32))


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def command_is_told_once_where_its_operation_is_written(dut):
    bench = Bench(dut)
    await bench.edges.start()
    address = Registers().address("flow_command")
    pulses = []
    bench.edges.every(lambda: pulses.append(int(dut.bank__flow_command__written.value)))
    for strobe in (*range(16), 0xF, 0xF):
        before = sum(pulses)
        await bench.bus.write(address, bench.rng.getrandbits(32), strobe)
        await bench.edges.wait(3)
        assert sum(pulses) - before == strobe >> 2 & 1, f"strobe {strobe:#x}"


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def write_behind_a_waiting_answer_has_its_own(dut):
    bench = Bench(dut)
    await bench.edges.start()
    good, unmapped = Registers().address("flow.qp"), 0xFFC
    for first, second in ((good, unmapped), (unmapped, good), (good, good)):
        await bench.bus.post(first, 1)
        await bench.bus.post(second, 2)
        await bench.edges.wait(5)
        for address in (first, second):
            if address == good:
                await bench.bus.answer(address)
            else:
                with pytest.raises(AxiLiteError):
                    await bench.bus.answer(address)
        await bench.edges.wait(3)
        assert not dut.bank__bus__bvalid.value
    assert await bench.bus.read(good) == 2
