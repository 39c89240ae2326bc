# SPDX-License-Identifier: Apache-2.0
"""AxilPages: every access reaches the page it is for, once, and its answer comes back."""

import random
import re

import cocotb
import harness
import pytest
from agents import AxiLite, AxiLiteError, AxiLiteSlave, Edges, now
from agents.axil_slave import WORDS
from blocks import PAGES
from cocotb.triggers import RisingEdge

PAGE = 4096
SLVERR, DECERR = "answered 2", "answered 3"
LIMIT = {"timeout_time": 1, "timeout_unit": "ms"}


@pytest.mark.model
def test_axil_pages(pages):
    assert harness.run(pages, __name__) >= 5


class Bench:
    """A master with a model of what the pages hold, and the pages."""

    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.edges = Edges(dut)
        self.master = AxiLite(dut, "pages__bus_", self.rng)
        self.slaves = [AxiLiteSlave(self.edges, f"pages__pages__{n}_", self.rng)
                       for n in range(PAGES)]
        self.words, self._before = {}, {}
        self.edges.every(self._check_held)

    def _check_held(self):
        """An answer stays as it is until it is taken."""
        for channel, names in (("b", ("bresp",)), ("r", ("rdata", "rresp"))):
            valid, ready, *payload = (int(getattr(self.dut, f"pages__bus__{name}").value)
                                      for name in (f"{channel}valid", f"{channel}ready", *names))
            before = self._before.pop(channel, None)
            assert self.edges.in_reset or before in (None, (valid, *payload)), (
                f"@ cycle {now()}: {channel} changed while it waited")
            if valid and not ready:
                self._before[channel] = (valid, *payload)

    def address(self):
        """Any word: of a page or beyond the last one, that is there or beyond its page's end."""
        return self.rng.randrange(8) * PAGE + 4 * self.rng.choice(
            (self.rng.randrange(WORDS), self.rng.randrange(PAGE // 4)))

    def fault(self, address):
        """The answer that an access must get instead of OKAY, or None."""
        if address // PAGE >= PAGES:
            return DECERR
        return SLVERR if address % PAGE >= 4 * WORDS else None

    async def write(self, address):
        value, strobe = self.rng.getrandbits(32), self.rng.getrandbits(4)
        mask = sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)
        await self._access(self.master.write(address, value, strobe), address)
        if not self.fault(address):
            self.words[address] = self.words.get(address, 0) & ~mask | value & mask

    async def read(self, address):
        found = await self._access(self.master.read(address), address)
        if address in self.words:
            assert found == self.words[address], f"{address:#x}"

    async def _access(self, access, address):
        fault = self.fault(address)
        if not fault:
            return await access
        with pytest.raises(AxiLiteError, match=re.escape(f"of {address:#x} {fault}")):
            await access
        return None

    async def cancel(self, task):
        """End an access in a reset, as a master has to."""
        self.dut.rst.value = 1
        task.cancel()
        self.master.abort()
        await self.edges.reset(self.rng.randrange(1, 4))
        self._before = {}
        for slave in self.slaves:
            slave.asked.clear()


async def start(dut):
    bench = Bench(dut)
    await bench.edges.start()
    return bench


@cocotb.test(**LIMIT)
async def every_access_reaches_its_page_once_and_is_answered(dut):
    bench = await start(dut)
    for access in (bench.write, bench.read):
        for slave in bench.slaves:
            slave.asked.clear()
        addresses = [bench.address() for _ in range(300)]
        assert {bench.fault(address) for address in addresses} == {None, SLVERR, DECERR}
        for address in addresses:
            await access(address)
        for n, slave in enumerate(bench.slaves):
            assert slave.asked == [(access.__name__, address % PAGE) for address in addresses
                                   if address // PAGE == n]
    assert len(bench.words) > 20


@cocotb.test(**LIMIT)
async def reads_and_writes_do_not_meet(dut):
    bench = await start(dut)

    async def write():
        for _ in range(300):
            await bench.write(bench.rng.randrange(PAGES) * PAGE + 4 * bench.rng.randrange(WORDS))

    async def read():
        for _ in range(300):
            address = bench.address()
            # What is written meanwhile may read as before or behind it.
            await bench._access(bench.master.read(address), address)

    writes = cocotb.start_soon(write())
    await read()
    await writes
    for address in bench.words:
        await bench.read(address)


@cocotb.test(**LIMIT)
@cocotb.parametrize(kind=["write", "read"])
async def reset_ends_what_is_in_flight(dut, kind):
    bench = await start(dut)
    for cycles in range(30):
        address = bench.address()
        task = cocotb.start_soon(getattr(bench, kind)(address))
        await bench.edges.wait(cycles)
        await bench.cancel(task)
        bench.words.pop(address, None)
        for _ in range(3):
            address = bench.address()
            await bench.write(address)
            await bench.read(address)


@cocotb.test(**LIMIT)
async def a_page_that_does_not_answer_holds_its_kind_of_access_until_reset(dut):
    bench = await start(dut)
    for kind, channel in (("write", "b"), ("read", "r")):
        bench.slaves[1].silent.add(channel)
        other = bench.read if kind == "write" else bench.write
        task = cocotb.start_soon(getattr(bench, kind)(PAGE))
        for _ in range(10):
            await other(2 * PAGE)
        for _ in range(50):
            await RisingEdge(dut.clk)
            assert not getattr(dut, f"pages__bus__{channel}valid").value
        assert not task.done()
        bench.slaves[1].silent.clear()
        await bench.cancel(task)
        await getattr(bench, kind)(PAGE)
