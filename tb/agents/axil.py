# SPDX-License-Identifier: Apache-2.0
"""AXI4-Lite master."""

import cocotb
from cocotb.triggers import RisingEdge

from .clock import now

__all__ = ["AxiLite", "AxiLiteError"]

#: Cycles after which a transfer counts as hung.
PATIENCE = 200


class AxiLiteError(Exception):
    """The slave answered with another response than OKAY."""


class AxiLite:
    """Reads and writes registers, one at a time.

    The order of address and data of a write, and gaps before the response is taken, are random.
    """

    def __init__(self, dut, prefix, rng):
        self._clock, self._where, self._rng = dut.clk, prefix, rng
        self._signals, self._address = {}, None
        for name in ("awaddr", "awprot", "awvalid", "wdata", "wstrb", "wvalid", "bready",
                     "araddr", "arprot", "arvalid", "rready"):
            self._signal(dut, name).value = 0
        for name in ("awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp",
                     "rvalid"):
            self._signal(dut, name)

    def _signal(self, dut, name):
        self._signals[name] = handle = getattr(dut, f"{self._where}_{name}")
        return handle

    async def write(self, address, value, strobe=0xF):
        """Write a word; raises :class:`AxiLiteError` for an error response."""
        await self.post(address, value, strobe)
        await self.answer(address)

    async def post(self, address, value, strobe=0xF):
        """The request of a write alone, until it is taken."""
        self._address = cocotb.start_soon(
            self._send("aw", awaddr=address, awprot=self._rng.getrandbits(3)))
        await self._send("w", wdata=value, wstrb=strobe)
        await self._address

    async def answer(self, address):
        """The response to a write that was posted."""
        response, = await self._receive("b", "bresp")
        if response:
            raise AxiLiteError(f"{self._where}: write of {address:#x} answered {response}")

    def abort(self):
        """Nothing more is offered or taken, as a reset asks for; the caller cancels its access."""
        if self._address:
            self._address.cancel()
        for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
            self._signals[name].value = 0

    async def read(self, address):
        """The word at an address; raises :class:`AxiLiteError` for an error response."""
        await self._send("ar", araddr=address, arprot=self._rng.getrandbits(3))
        value, response = await self._receive("r", "rdata", "rresp")
        if response:
            raise AxiLiteError(f"{self._where}: read of {address:#x} answered {response}")
        return value

    async def _pause(self):
        for _ in range(self._rng.choice((0, 0, 1, 3))):
            await RisingEdge(self._clock)

    async def _wait(self, name):
        for _ in range(PATIENCE):
            await RisingEdge(self._clock)
            if self._signals[name].value:
                return
        raise AssertionError(f"{self._where} @ cycle {now()}: no {name} for {PATIENCE} cycles")

    async def _send(self, channel, **payload):
        await self._pause()
        for name, value in payload.items():
            self._signals[name].value = value
        self._signals[f"{channel}valid"].value = 1
        await self._wait(f"{channel}ready")
        self._signals[f"{channel}valid"].value = 0
        for name in payload:
            self._signals[name].value = self._rng.getrandbits(len(self._signals[name]))

    async def _receive(self, channel, *names):
        await self._pause()
        self._signals[f"{channel}ready"].value = 1
        await self._wait(f"{channel}valid")
        self._signals[f"{channel}ready"].value = 0
        return [int(self._signals[name].value) for name in names]
