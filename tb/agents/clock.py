# SPDX-License-Identifier: Apache-2.0
"""Clock, reset, and the one task that calls every agent at each rising edge."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

__all__ = ["PERIOD_NS", "Edges", "now"]

PERIOD_NS = 4


def now():
    """The number of the current cycle, counted through all tests of a run."""
    return int(get_sim_time("ns")) // PERIOD_NS


class Edges:
    """The rising edges of a design's ``clk``, and its ``rst``.

    Agents are functions that are called at each edge: they see what the flip-flops of the design
    see there, and what they drive counts from behind the edge on. One task calls them all, because
    a task an agent costs more than all that agents do.

    Attributes
    ----------
    in_reset : what ``rst`` is at this edge
    began : number of the first cycle behind the last reset
    """

    def __init__(self, dut):
        self.dut = dut
        self.in_reset, self.began = True, None
        self._agents = []
        dut.rst.value = 1

    def every(self, agent):
        """Call ``agent`` at each edge from now on, behind those that were given before."""
        self._agents.append(agent)

    def monitor(self, agent):
        """The same, for a monitor of cocotb-bus: gives the coroutine that it wants to run."""
        self.every(agent)

        async def nothing():
            pass

        return nothing()

    async def start(self):
        """Start the clock, with a reset. Inputs are to be set before: it begins with an edge."""
        Clock(self.dut.clk, PERIOD_NS, "ns").start()
        cocotb.start_soon(self._run())
        await self.reset()

    async def reset(self, cycles=2):
        """Hold reset for some cycles; the first one without it begins as this returns."""
        self.dut.rst.value = 1
        await self.wait(cycles)
        self.dut.rst.value = 0
        self.began = now() + 1

    async def wait(self, cycles=1):
        """Let some edges pass."""
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)

    async def _run(self):
        edge, reset = RisingEdge(self.dut.clk), self.dut.rst
        while True:
            await edge
            self.in_reset = bool(reset.value)
            for agent in self._agents:
                agent()
