# SPDX-License-Identifier: Apache-2.0
"""Context unit: packet for packet what the reference model says, at a packet a cycle."""

import random

import harness
import pytest
import roce
from amaranth.sim import Simulator
from landed import Traffic

from flytrim.driver.landing import landing_fields
from flytrim.model import Fate, ReassemblyModel
from flytrim.model.reassembly import AnswerKind as Told
from flytrim.reassembly.context_unit import ContextUnit
from flytrim.reassembly.records import SYNDROMES, AnswerKind, Operation
from flytrim.verdict import Reason

FLOWS = 6


class Bench:
    """Gives turns to a unit as fast as it takes them, and holds each job against the model."""

    def __init__(self, unit, rng, rate):
        self.unit, self.rng, self.rate = unit, rng, rate
        self.model, self.expected, self.jobs = ReassemblyModel(), [], 0
        self.fates, self.messages, self._told = set(), 0, {}

    def run(self, turns):
        turns = iter(turns)
        done = False

        async def feed(ctx):
            nonlocal done
            unit = self.unit
            for command, item in turns:
                while self.rng.random() >= self.rate:
                    await ctx.tick()
                port = unit.commands if command else unit.i
                ctx.set(port.payload, self._fields(command, item))
                ctx.set(port.valid, 1)
                await ctx.tick().until(port.ready)
                ctx.set(port.valid, 0)
            await ctx.tick().repeat(unit.latency + 1)
            done = True

        async def room(ctx):
            while True:
                ctx.set(self.unit.room, self.rng.random() < self.rate)
                await ctx.tick()

        async def check(ctx):
            unit = self.unit
            async for _, _, valid, job, report in ctx.tick().sample(
                    unit.o.valid, unit.o.payload, unit.reports.payload):
                if valid:
                    self._compare(job, report, *self.expected.pop(0))
                if done:
                    break
            assert not self.expected

        simulator = Simulator(self.unit)
        simulator.add_clock(1e-8)
        simulator.add_testbench(feed)
        simulator.add_testbench(room, background=True)
        simulator.add_testbench(check)
        simulator.run()

    def _fields(self, command, item):
        if command:
            flow, landing = item
            if landing is None:
                self.model.stop(flow)
                return {"operation": Operation.STOP, "flow": flow}
            self.model.start(flow, landing)
            self.expected.append((None, flow))
            return {"operation": Operation.START, "flow": flow, "landing": landing_fields(landing)}
        self.expected.append((item, self.model.packet(item)))
        return {"flow": item.flow, "opcode": item.opcode, "psn": item.psn,
                "reason": Reason.NONE if item.good else Reason.ICRC, "length": len(item.payload),
                "immediate": item.immediate, "address": item.address,
                "ack_request": item.ack_request}

    def _compare(self, job, report, packet, landed):
        self.jobs += 1
        news = job.news
        if packet is None:
            assert (news.restart, news.flow, job.write, job.length) == (1, landed, 0, 0)
            self._told[landed] = 0
            return
        about = f"job {self.jobs}: {packet} {landed}"
        self.fates.add(landed.fate)
        write = (job.address, packet.payload) if job.write else None
        assert (Fate(news.fate), write, news.gap) == (landed.fate, landed.write, landed.gap), about
        assert (news.restart, news.flow, job.length) == (0, packet.flow, len(packet.payload)), about
        self._compare_answer(news, landed.answer, about)
        if news.multipath:
            self._compare_path(job, packet, landed, about)
            if landed.answer:
                assert (report.flow, report.psn, report.msn, report.bitmap) == (
                    packet.flow, *landed.answer[1:3], landed.answer.bitmap), about
            return
        assert not job.lost
        assert [news.abandons, news.completes] == [
            sum(each.abandoned is kind for each in landed.completions)
            for kind in (True, False)], about
        for n, each in enumerate(landed.completions):
            assert (news.message + n) % (1 << 24) == each.message, about
            if not each.abandoned:
                assert (news.bytes, news.opcode, news.immediate) == (
                    each.bytes, each.opcode, each.immediate), about
                assert news.began <= news.cycle

    def _compare_path(self, job, packet, landed, about):
        """The message that the packet is of, and those before which all have come."""
        news = job.news
        assert job.lost == (landed.fate is Fate.BOUNDS), about
        if landed.fate in (Fate.PLACED, Fate.BOUNDS):
            starts, ends = (packet.opcode in codes for codes in (
                (0, 4, 5, 6, 10, 11), (2, 3, 4, 5, 8, 9, 10, 11)))
            assert (news.begins, news.completes) == (starts, ends), about
        else:
            assert not news.begins and not news.completes, about
        told = [each.message for each in landed.completions]
        if told:
            assert told == list(range(self._told[packet.flow], told[-1] + 1)), about
            self._told[packet.flow] = told[-1] + 1
            self.messages += len(told)
        if landed.fate is not Fate.DAMAGED:
            assert news.upto == self._told[packet.flow], about

    def _compare_answer(self, news, answer, about):
        kind = AnswerKind(news.answer) if news.answerable else AnswerKind.NONE
        if answer is None:
            assert kind is AnswerKind.NONE, about
        else:
            assert (Told(SYNDROMES[kind]), kind is AnswerKind.AGAIN, news.psn, news.msn) == (
                answer.kind, answer.again, answer.psn, answer.msn), about


@pytest.mark.parametrize("rate", [1.0, 0.7])
def test_every_packet_of_many_flows(rate):
    rng = random.Random(harness.seed())
    bench = Bench(ContextUnit(FLOWS), rng, rate)
    bench.run(Traffic(rng, FLOWS).turns(6000))
    assert bench.fates == set(Fate)
    assert bench.jobs > 5000


@pytest.mark.parametrize("window", [64, 256])
@pytest.mark.parametrize("rate", [1.0, 0.7])
def test_packets_of_many_flows_in_any_order(rate, window):
    rng = random.Random(harness.seed())
    bench = Bench(ContextUnit(FLOWS, paths=3, window=window), rng, rate)
    bench.run(Traffic(rng, FLOWS, paths=3).turns(3000))
    assert bench.fates == set(Fate)
    assert bench.messages > 300


def test_a_packet_a_cycle_of_one_flow():
    rng, unit = random.Random(harness.seed()), ContextUnit(FLOWS)
    traffic = Traffic(rng, 1)
    cycles = []

    async def bench(ctx):
        ctx.set(unit.room, 1)
        ctx.set(unit.commands.payload, {"operation": Operation.START, "flow": 0,
                                        "landing": landing_fields(traffic.landing(0))})
        ctx.set(unit.commands.valid, 1)
        await ctx.tick()
        ctx.set(unit.commands.valid, 0)
        for cycle in range(60):
            ctx.set(unit.i.valid, cycle < 40)
            ctx.set(unit.i.payload, {"opcode": roce.OPCODES["RC_SEND_ONLY"], "length": 1,
                                     "psn": (traffic.landing(0).start_psn + cycle) % (1 << 24)})
            if ctx.get(unit.o.valid) and ctx.get(unit.o.payload.write):
                cycles.append(cycle)
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert cycles == list(range(unit.latency, unit.latency + 40))
