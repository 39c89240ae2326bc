# SPDX-License-Identifier: Apache-2.0
"""Register bank: every register of the description is where and what it says.

Each test compares every output in every cycle, and every answer, with the description, see
:mod:`register_bench`.
"""

import cocotb
import harness
import pytest
from blocks import SWITCH_PAGE
from register_bench import BankBench

from flytrim.driver import Registers
from flytrim.registers import load, load_switch

#: The banks of the model, each with its description: of a device that counts, of one that does not,
#: and of what a switch has beside its ports.
BANKS = {"bank": load(), "bare": load(counters=False), "switch": load_switch(**SWITCH_PAGE)}
every = cocotb.parametrize(bank=tuple(BANKS))
counting = cocotb.parametrize(bank=("bank", "switch"))
#: Cycles behind a request by which it was answered, where nobody waits.
LATE = 5
CARRY = 0x0_FFFF_FFFF, 0x1_0000_0000


@pytest.mark.model
def test_register_bank(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 26


async def start(dut, bank="bank"):
    bench = BankBench(dut, BANKS[bank], bank)
    await bench.edges.start()
    await bench.edges.wait()
    return bench


def every_word(bench):
    """Addresses of all 4 KB, in any order."""
    return bench.rng.sample(range(0, 4096, 4), 1024)


def anything_shown(bench):
    """Other values of what hardware shows, for a cycle in three."""
    changes = {}
    if bench.rng.randrange(3) == 0:
        for register in bench.oracle.registers:
            for field in register.some(shown=True):
                if register.window:
                    bench.rows[field.port, register.row] = bench.random(field)
                else:
                    changes[field.port] = bench.random(field)
    return changes


def any_events(bench, rarely=3):
    """Loads and sets, each in one of 2^rarely cycles."""
    changes = {}
    for register in bench.oracle.written:
        loadable = register.some(loadable=True)
        if loadable:
            changes[register.load_port] = int(bench.rng.getrandbits(rarely) == 0)
        changes |= {field.next_port: bench.random(field) for field in loadable}
        changes |= {field.set_port: sum(
            (bench.rng.getrandbits(rarely) == 0) << bit for bit in range(field.width))
            for field in register.some(settable=True)}
    return changes


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@every
async def ports_are_those_of_the_description(dut, bank):
    bench = await start(dut, bank)
    there = {handle._name.removeprefix(f"{bank}__") for handle in dut
             if handle._name.startswith(f"{bank}__") and "__bus__" not in handle._name}
    assert there == bench.names()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@every
async def reset_gives_the_values_of_the_description(dut, bank):
    bench = await start(dut, bank)
    for _ in range(3):
        # What is not at its reset value before a reset shows that there was one.
        for register in bench.oracle.written:
            await bench.write(register.address, bench.rng.getrandbits(32))
        bench.hardware = lambda: any_events(bench, 2)
        await bench.edges.wait(20)
        bench.hardware = lambda: any_events(bench, 64)
        await bench.edges.wait(2)
        await bench.edges.reset()
        await bench.edges.wait()
        for register in bench.oracle.registers:
            for field in register.some(written=True):
                assert bench.value(field.port) == field.reset, field.port
        for register in bench.oracle.registers:
            word = await bench.read(register.address)
            for field in register.some(shown=False):
                assert field.of(word) == field.reset, field.port


@cocotb.test(timeout_time=5, timeout_unit="ms")
@every
async def every_word_is_read_or_refused(dut, bank):
    bench = await start(dut, bank)
    for addresses in (range(0, 4096, 4), every_word(bench)):
        for address in addresses:
            there, word = address in bench.oracle.words, await bench.read(address)
            assert (word is not None) == there, hex(address)
        # What hardware shows is turned over, so that each of its bits was seen both ways.
        bench.hardware = lambda: {
            field.port: bench.inputs[field.port] ^ (1 << field.width) - 1
            for register in bench.oracle.registers if not register.window
            for field in register.some(shown=True)}
        for place, value in bench.rows.items():
            bench.rows[place] = value ^ (1 << 64) - 1
        await bench.edges.wait()
        bench.hardware = dict
        await bench.edges.wait()


@cocotb.test(timeout_time=5, timeout_unit="ms")
@every
async def every_word_takes_each_strobe_or_refuses(dut, bank):
    bench = await start(dut, bank)
    for address in every_word(bench):
        register, _ = bench.oracle.words.get(address, (None, 0))
        strobes = range(16) if register else (0xF,)
        for strobe in bench.rng.sample(strobes, len(strobes)):
            taken = await bench.write(address, bench.rng.getrandbits(32), strobe)
            assert taken == bool(register and register.written), hex(address)
        assert (await bench.read(address) is not None) == bool(register), hex(address)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def device_that_does_not_count_refuses_its_counters(dut):
    bench = await start(dut, "bare")
    absent = [name for name in Registers() if name.startswith(("counters.", "flow_counters."))]
    assert len(absent) > 80
    for name in absent:
        for word in range(Registers().words(name)):
            assert await bench.read(Registers().address(name) + 4 * word) is None, name
            assert not await bench.write(Registers().address(name) + 4 * word, 1), name


@cocotb.test(timeout_time=1, timeout_unit="ms")
@counting
async def load_wins_over_a_write_of_the_same_cycle(dut, bank):
    bench = await start(dut, bank)
    for register in bench.oracle.written:
        fields, met = register.some(loadable=True), []
        for cycle in range(LATE) if fields else ():
            def loads(load=register.load_port, fields=fields, cycle=cycle):
                return {load: int(bench.since_write == cycle),
                        **{field.next_port: bench.random(field) for field in fields}}

            bench.oracle.met.clear()
            bench.hardware = loads
            assert await bench.write(register.address, bench.rng.getrandbits(32))
            await bench.edges.wait(LATE)
            met.append({bench.oracle.met[field.port, "loaded and written"] for field in fields})
        # One of the cycles is that of the write, some are before it and some behind it.
        assert not fields or met.count({1}) == 1 and met[0] == met[-1] == {0}, met


@cocotb.test(timeout_time=1, timeout_unit="ms")
@counting
async def set_wins_over_a_clear_of_the_same_cycle(dut, bank):
    bench = await start(dut, bank)
    for register in bench.oracle.written:
        for field in register.some(settable=True):
            others = sum((1 << each.width) - 1 << each.low
                         for each in register.fields if each is not field)
            for cleared in (others, ~others & 0xFFFF_FFFF):
                met = []
                for cycle in range(LATE):
                    # All bits are set before; then those of one field again, around the write.
                    bench.hardware = lambda register=register: {
                        each.set_port: (1 << each.width) - 1
                        for each in register.some(settable=True)}
                    await bench.edges.wait()
                    bench.hardware = lambda register=register, field=field, cycle=cycle: {
                        each.set_port: (1 << each.width) - 1
                        if each is field and bench.since_write == cycle else 0
                        for each in register.some(settable=True)}
                    await bench.edges.wait(2)
                    bench.oracle.met.clear()
                    assert await bench.write(register.address, cleared)
                    await bench.edges.wait(LATE)
                    met.append(bench.oracle.met[field.port, "set and cleared"])
                assert met[0] == met[-1] == 0 and sum(met) == (cleared != others), met


@cocotb.test(timeout_time=1, timeout_unit="ms")
@counting
async def pulse_is_never_read(dut, bank):
    bench = await start(dut, bank)
    pulses = [(register, field) for register in bench.oracle.written
              for field in register.some(pulse=True)]
    assert pulses
    for register, field in pulses:
        for _ in range(60):
            write = cocotb.start_soon(bench.write(register.address, 0xFFFF_FFFF))
            assert field.of(await bench.read(register.address)) == 0
            assert await write
        assert bench.oracle.met[field.port, "read in its pulse"]


@cocotb.test(timeout_time=5, timeout_unit="ms")
@counting
async def two_words_are_of_one_time(dut, bank):
    bench = await start(dut, bank)
    narrow = [register.address for register in bench.oracle.registers if register.words == 1]
    for register in bench.oracle.registers:
        if register.words == 1:
            continue
        field, = register.fields
        seen = set()
        for cycle in range(LATE):
            def counts(field=field, register=register, cycle=cycle):
                count = CARRY[bench.since_read >= cycle]
                if register.window:
                    bench.rows[field.port, register.row] = count
                    return {}
                return {field.port: count}

            bench.since_read = -LATE
            bench.hardware = counts
            await bench.edges.wait(3)
            low = await bench.read(register.address)
            bench.hardware = dict
            # Neither another register nor an error in between takes the high word away.
            await bench.read(bench.rng.choice(narrow))
            await bench.read(0xFFC)
            await bench.write(register.address, 0)
            seen.add(await bench.read(register.address + 4) << 32 | low)
        assert seen == set(CARRY), register.name


@cocotb.test(timeout_time=5, timeout_unit="ms")
@every
async def random_accesses_under_random_hardware(dut, bank):
    bench = await start(dut, bank)
    bench.hardware = lambda: anything_shown(bench) | any_events(bench)
    words = list(bench.oracle.words)
    written = [register.address for register in bench.oracle.written]

    async def write():
        for _ in range(500):
            await bench.write(bench.rng.choice(written), bench.rng.getrandbits(32),
                              bench.rng.getrandbits(4))

    writes = cocotb.start_soon(write())
    for _ in range(500):
        assert await bench.read(bench.rng.choice(words)) is not None
    await writes


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def command_is_told_once_where_its_operation_is_written(dut):
    bench = await start(dut)
    address = Registers().address("flow_command")
    pulses = []
    bench.edges.every(lambda: pulses.append(int(dut.bank__flow_command__written.value)))
    for strobe in (*range(16), 0xF, 0xF):
        before = sum(pulses)
        await bench.write(address, bench.rng.getrandbits(32), strobe)
        await bench.edges.wait(3)
        assert sum(pulses) - before == strobe >> 2 & 1, f"strobe {strobe:#x}"


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def write_behind_a_waiting_answer_has_its_own(dut):
    bench = await start(dut)
    good, unmapped = Registers().address("flow.qp"), 0xFFC
    for first, second in ((good, unmapped), (unmapped, good), (good, good)):
        await bench.post(first, 1)
        await bench.post(second, 2)
        await bench.edges.wait(5)
        for address in (first, second):
            assert await bench.answer(address) == (address == good)
        await bench.edges.wait(3)
        assert not dut.bank__bus__bvalid.value
    assert await bench.read(good) == 2
