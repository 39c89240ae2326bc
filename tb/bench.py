# SPDX-License-Identifier: Apache-2.0
"""A ``TrimNic`` with its agents, its flows, and the reference model beside it."""

import contextlib
import json
import os
import random

import cocotb
import frames as factory
from agents import (
    AxiLite,
    AxiLiteError,
    AxisMonitor,
    AxisSink,
    AxisSource,
    Edges,
    Frame,
    RecordMonitor,
    VerdictMonitor,
    now,
)
from agents.bus import drive
from following import Follower
from ledger import Ledger
from pacing import FULL_RATE
from scoreboard import Expected, Scoreboard

from flytrim.admission import meta_layout
from flytrim.config import NicConfig
from flytrim.context import VerdictRecord
from flytrim.driver import Device, TableError
from flytrim.driver.registers import Registers, flow_fields
from flytrim.flow_cam import FlowOperation
from flytrim.model import Flow, NicModel

__all__ = ["FLOWS", "NicBench", "config_of_run", "describe"]

FLOWS = [Flow(**vars(flow)) for flow in factory.FLOWS]
#: Cycles from the last beat in to the last one out while the sinks are ready.
DRAIN = 40
OUTPUTS = ("m_axis_bypass", "m_axis_trim", "m_axis_meta")


def config_of_run():
    """The configuration that the running model was generated from."""
    return NicConfig(**json.loads(os.environ["BENCH_PARAMETERS"]))


def describe(number, frame):
    """A frame for a message: its number, size and leading bytes."""
    return f"frame {number}, {len(frame.data)} bytes, {frame.data[:64].hex()}"


class NicBench:
    """Feeds frames, expects what the model says, in order, on every output.

    With ``follow=True`` nothing is compared before :meth:`finish`, which lets each frame's verdict
    record choose among what may have become of it: one of several states of the flow table, or,
    with ``overflow``, that it found no room where that may be. Of a damaged frame the verdict does
    not tell that, so what left does.

    Attributes
    ----------
    sent : (frame, its possible judgements) of every frame
    chosen : with ``follow``, after :meth:`finish`: the number of the judgement that held; with
        overflow allowed, those from ``len(judgements)`` on are the same judgements overflowed
    seen : what came out, by port
    record_cycles : when each metadata record was taken
    """

    def __init__(self, dut, *, pacing=FULL_RATE, flows=FLOWS, follow=False, overflow=False):
        self.dut, self.config = dut, config_of_run()
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.registers = Registers()
        self.flows, self.model = list(flows), NicModel(flows, self.config.max_frame)
        self._pacing, self._follow, self._overflow = pacing, follow, overflow
        self._meta = meta_layout(self.config)
        self.sent, self.chosen = [], []
        self._judged, self._cleared = [], 0
        self.edges = edges = Edges(dut)
        self.source = AxisSource(edges, "s_axis_rx", self.rng, pacing=pacing)
        self.axil = AxiLite(dut, "s_axil", self.rng)
        self.sinks = {name: AxisSink(edges, name, self.rng, pacing=pacing) for name in OUTPUTS}
        self.monitors = {
            "m_axis_bypass": AxisMonitor(edges, "m_axis_bypass"),
            "m_axis_trim": AxisMonitor(edges, "m_axis_trim"),
            "m_axis_meta": RecordMonitor(edges, "m_axis_meta"),
            "m_axis_verdict": VerdictMonitor(edges, "m_axis_verdict"),
        }
        self.expected = {name: [] for name in self.monitors}
        self.seen = {name: [] for name in self.monitors}
        self.record_cycles = []
        self.scoreboard = Scoreboard(dut)
        for name, monitor in self.monitors.items():
            monitor.add_callback(self.seen[name].append)
            if not follow:
                self._attach(name)
        self.monitors["m_axis_meta"].add_callback(
            lambda record: self.record_cycles.append(now()))

    def _attach(self, name):
        shape = {"m_axis_meta": self._meta, "m_axis_verdict": VerdictRecord.as_shape()}.get(name)
        self.scoreboard.add_interface(self.monitors[name], self.expected[name], shape)

    async def start(self, *, program=True):
        """Clock, reset, and the flows written through the register port."""
        await self.edges.start()
        if program:
            await self.program()
        return self

    async def reset(self, *following):
        """Reset the device, which loses its flows and all that is on its way.

        ``following`` are frames that are offered in reset and enter in the first cycles behind it.
        The source must be idle.
        """
        self.dut.rst.value = 1
        self.axil.abort()
        await self.edges.wait(2)
        # What has left until then was compared; nothing else may come.
        del self.sent[len(self.sent) - len(self.expected["m_axis_verdict"]):]
        for items in self.expected.values():
            items.clear()
        for data in following:
            self.send(data, models=[NicModel([], self.config.max_frame)])
        await self.edges.reset()

    async def program(self):
        """Register all flows, once the table has come out of reset."""
        await self.flow_status()
        for number, flow in enumerate(self.flows):
            code = await self.insert(number, flow)
            assert not code, f"flow {flow.name}: status {code}"

    async def insert(self, number, flow):
        """Register a flow; gives the status code."""
        return await self._write_flow(number, flow, FlowOperation.INSERT)

    async def replace(self, number, flow):
        """Put a flow in the place of another; gives the status code."""
        return await self._write_flow(number, flow, FlowOperation.REPLACE)

    async def _write_flow(self, number, flow, operation):
        for name, fields in flow_fields(flow).items():
            await self.axil.write(self.registers.address(name), self.registers.pack(name, **fields))
        return await self.command(flow=number, op=int(operation))

    async def command(self, **fields):
        """Run a flow command and wait for it; gives the status code."""
        word = self.registers.pack("flow_command", **fields)
        await self.axil.write(self.registers.address("flow_command"), word)
        return await self.flow_status()

    async def flow_status(self):
        """The status code of the last flow command, when it is over."""
        for _ in range(1000):
            status = self.registers.unpack("flow_status", await self.read("flow_status"))
            if not status["busy"]:
                return status["code"]
        raise AssertionError("the flow table is still busy")

    async def read(self, name):
        """The word of a register."""
        return await self.axil.read(self.registers.address(name))

    def send(self, data, *, error=False, models=None):
        """Queue a frame; ``models`` are the states of the flow table it may meet."""
        frame = Frame(data, error, self.rng.getrandbits(self.config.side_width)
                      if self.config.side_width else 0)
        number = len(self.sent)
        judgements = [model.judge(data, error) for model in models or (self.model,)]
        self.sent.append((frame, judgements))
        if not self._follow:
            self._expect(number, frame, judgements[0])
        self.source.send(frame)
        return judgements[0]

    def _expect(self, number, frame, judgement):
        about = describe(number, frame)
        self._judged.append((frame, judgement))
        if judgement.bypass is not None:
            self.expected["m_axis_bypass"].append(
                Expected(Frame(judgement.bypass, judgement.error, frame.side), about))
        if judgement.payload is not None:
            if judgement.payload:
                self.expected["m_axis_trim"].append(
                    Expected(Frame(judgement.payload, judgement.error), about))
            self.expected["m_axis_meta"].append(Expected(self.record(frame, judgement), about))
        self.expected["m_axis_verdict"].append(Expected(self.verdict(judgement), about))

    def record(self, frame, judgement):
        """The bits of the metadata record that a frame must have."""
        names = ("opcode", "psn", "pad_count", "solicited", "ack_request", "ecn", "length", "cut",
                 "immediate", "address", "rkey", "dma_length", "flow", "reason")
        value = {"record": {name: int(getattr(judgement, name)) for name in names}}
        if self.config.side_width:
            value["side"] = frame.side
        return self._meta.const(value).as_bits()

    def verdict(self, judgement):
        """The bits of the verdict record that a frame must have."""
        return VerdictRecord.const({
            "reason": int(judgement.reason), "verdict": int(judgement.verdict),
            "hit": int(judgement.flow is not None), "flow": judgement.flow or 0}).as_bits()

    async def feed(self, frames, *, error_rate=0.0):
        """Queue frames, at most as many at once as the queues of the device must have room for."""
        queue, longest = self.config.queue_beats, self.config.max_beats
        beats_allowed, records_allowed = queue - longest - 16, self.config.queue_records - 16
        throttled = self._pacing.sink < 1 or self._pacing.waits
        for data in frames:
            while throttled and (self._beats_out() > beats_allowed
                                 or len(self.expected["m_axis_meta"]) > records_allowed):
                await self.edges.wait()
            self.send(data, error=self.rng.random() < error_rate)

    def _beats_out(self):
        lanes = self.config.lanes
        return sum(-(-len(item.value.data) // lanes)
                   for name in ("m_axis_bypass", "m_axis_trim") for item in self.expected[name])

    async def settle(self, patience=DRAIN):
        """Until everything queued has entered, and all outputs were quiet for ``patience``."""
        await self.source.idle()
        quiet, counts = 0, None
        while quiet < patience:
            await self.edges.wait()
            following = [len(seen) for seen in self.seen.values()]
            busy = any(getattr(self.dut, f"{name}_tvalid").value for name in OUTPUTS)
            quiet = 0 if busy or following != counts else quiet + 1
            counts = following

    async def finish(self, at_least=1):
        """Wait, and close the books: each frame has its verdict, and nothing is left."""
        await self.settle()
        if self._follow:
            self._choose()
        self.scoreboard.finish(at_least)
        assert len(self.seen["m_axis_verdict"]) == len(self.sent), (
            f"@ cycle {now()}: {len(self.sent)} frames and {len(self.seen['m_axis_verdict'])} "
            f"verdicts")
        await self.audit()

    async def driven(self, function):
        """What ``function`` returns, which takes a :class:`flytrim.driver.Device`."""
        return await drive(lambda bus: function(Device(bus)), read=self.axil.read,
                           write=self.axil.write, error=AxiLiteError)

    async def clear(self):
        """Clear counters and events, those of flows too; nothing may be on its way."""
        def clear(device):
            device.clear_counters()
            device.clear_events(*device.events())
            for number in range(len(self.flows)):
                device.restart_flow(number)

        await self.driven(clear)
        self._cleared = now()

    async def audit(self):
        """All counters are those of the frames since the last reset or clear."""
        ledger, began = Ledger(self.config.max_frame), max(self.edges.began, self._cleared)
        leaving = iter([frame for frame in self.seen["m_axis_trim"] if frame.first_cycle >= began])
        for frame, judgement in self._judged:
            if frame.first_cycle is not None and frame.first_cycle >= began:
                ledger.add(frame.data, judgement)
                if judgement.payload:
                    ledger.add_latency(next(leaving).first_cycle - frame.first_cycle)
        counters, flows, events = await self.driven(self._read_counters)
        ledger.check(counters)
        for number, found in flows.items():
            ledger.check_flow(number, found)
        assert events == ledger.events()

    def _read_counters(self, device):
        events = device.events() & {"overflow", "damaged"}
        flows = {}
        for number in range(len(self.flows)):
            with contextlib.suppress(TableError):       # there is no such flow behind a reset
                flows[number] = device.flow_counters(number)
        return device.counters(), flows, events

    def _choose(self):
        """Let the verdicts say which of the possible judgements holds, then compare all else."""
        follower = Follower(self) if self._overflow else None
        for number, ((frame, judgements), bits) in enumerate(
                zip(self.sent, self.seen["m_axis_verdict"], strict=False)):
            if follower:
                chosen, judgement = follower.choose(frame, judgements, bits)
            else:
                chosen = next((n for n, judgement in enumerate(judgements)
                               if self.verdict(judgement) == bits), 0)
                judgement = judgements[chosen]
            self.chosen.append(chosen)
            self._expect(number, frame, judgement)
        for name, monitor in self.monitors.items():
            received = list(self.seen[name])
            self.seen[name].clear()
            self._attach(name)
            for transaction in received:
                monitor._recv(transaction)
