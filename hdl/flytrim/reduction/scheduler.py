# SPDX-License-Identifier: Apache-2.0
"""Scheduler: which slots are read when, so that no two jobs need a block of ports at once."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..group import GROUP_BITS
from ..logic import select
from ..stream import RoundRobin
from .child import GroupEntry, Job, Step
from .lives import Lives

__all__ = ["Scheduler"]


class Scheduler(wiring.Component):
    """Runs jobs beat by beat, one behind the other without a gap, blocks of ports side by side.

    A job takes all blocks below its node of the tree in the same cycles; the first of them leads,
    which has chosen it among those offered, in turn. Where a node and one below it both wait, they
    take turns, too: so a job of all ports is not kept off by those of quarters, nor they by it.

    A job starts only when every port it goes to has room for its result. One of a group that was
    stopped makes none and needs no room, so it is soon out of the way of others. Latency 1 cycle.

    Parameters
    ----------
    config : SwitchConfig
    nodes : Nodes

    Members
    -------
    placed, group, entry : strobe: ``entry`` becomes that of ``group``
    running : a bit a group: its jobs count
    jobs, again : streams of :class:`Job` of each port: results to be made, or to be sent again
    room : a bit a port: there is room for a result of a whole slot
    hold : a bit a block: it is to start none
    steps : lane of :class:`Step` of each block
    """

    def __init__(self, config, nodes):
        self._config, self._nodes = config, nodes
        jobs = In(stream.Signature(Job)).array(config.ports)
        super().__init__({
            "placed": In(1),
            "group": In(GROUP_BITS),
            "entry": In(GroupEntry),
            "running": In(config.groups),
            "jobs": jobs, "again": jobs,
            "room": In(config.ports),
            "hold": In(len(nodes.blocks)),
            "steps": Out(stream.Signature(Step(config), always_ready=True)).array(
                len(nodes.blocks)),
        })

    def elaborate(self, platform):
        m = Module()
        nodes = self._nodes
        free, wants, starts, turn = (
            Signal(n, name=name) for name, n in (
                ("free", len(nodes.blocks)), ("wants", len(nodes)), ("starts", len(nodes)),
                ("turn", len(nodes))))
        dead = self._find_dead(m)
        chosen = {lead: self._choose(m, lead, dead, wants, starts) for lead in nodes.leads}
        for node in nodes:
            k = node.number
            above = [other.number for other in nodes if other.above(node)]
            below = [other.number for other in nodes if node.above(other)]
            m.d.comb += starts[k].eq(
                wants[k] & Cat(free[block] for block in node.blocks).all()
                & ~Cat(turn[n] & wants[n] for n in above).any()
                & (turn[k] | ~Cat(wants[n] for n in below).any()))
            with m.If(starts[k]):
                m.d.sync += turn[k].eq(0)
            with m.Elif(Cat(starts[n] for n in below).any()):
                m.d.sync += turn[k].eq(1)
        for block in range(len(nodes.blocks)):
            self._run(m, block, chosen, starts, free)
        return m

    def _find_dead(self, m):
        """Of each port's two sources: its job has waited, and is of no life that its group runs."""
        ports = self._config.ports
        m.submodules.lives = lives = Lives(self._config, 2 * ports)
        m.d.comb += [getattr(lives, name).eq(getattr(self, name))
                     for name in ("placed", "group", "entry", "running")]
        dead = [Signal(2, name=f"dead_{port}") for port in range(ports)]
        for port in range(ports):
            for n, source in enumerate((self.jobs[port], self.again[port])):
                look, turn = 2 * port + n, source.payload.turn
                m.d.comb += [lives.of[look].group.eq(turn.group),
                             lives.of[look].life.eq(turn.life)]
                # A cycle late, of a job that stays: the look is on nobody's way.
                m.d.sync += dead[port][n].eq(source.valid & ~source.ready & ~lives.runs[look])
        return dead

    def _choose(self, m, lead, dead, wants, starts):
        """The job that a block is to lead next."""
        led = self._nodes.led_by(lead)
        sources = [source for port in led[0].ports
                   for source in (self.jobs[port], self.again[port])]
        needless = [bit for port in led[0].ports for bit in dead[port]]
        m.submodules[f"turns_{lead}"] = turns = RoundRobin(len(sources))
        served = Cat(starts[node.number] for node in led).any()
        job = Signal(Job, name=f"job_{lead}")
        m.d.comb += [
            turns.requests.eq(Cat(
                source.valid & source.payload.node.matches(*(node.number for node in led))
                & (needs_none | ~(source.payload.ports & ~self.room).any()) & ~self.hold[lead]
                for source, needs_none in zip(sources, needless, strict=True))),
            turns.served.eq(served),
            job.eq(select(zip(turns.grant, (source.payload.as_value() for source in sources),
                              strict=True))),
            *(wants[node.number].eq(turns.requests.any() & (job.node == node.number))
              for node in led),
        ]
        for n, source in enumerate(sources):
            with m.If(turns.grant[n] & served):
                m.d.comb += source.ready.eq(1)
        return job

    def _run(self, m, block, chosen, starts, free):
        """The job that a block is at."""
        step = Signal(Step(self._config), name=f"step_{block}", reset_less=True)
        busy, left = Signal(name=f"busy_{block}"), Signal(
            range(self._config.slot_beats), name=f"left_{block}", reset_less=True)
        shift = self._config.lanes.bit_length() - 1
        m.d.comb += [
            free[block].eq(~busy | step.last),
            self.steps[block].valid.eq(busy),
            self.steps[block].payload.eq(step),
        ]
        m.d.sync += [
            step.index.eq(step.index + 1),
            step.first.eq(0),
            left.eq(left - 1),
            step.last.eq(left == 1),
        ]
        with m.If(step.last):
            m.d.sync += busy.eq(0)
        for node in self._nodes.covering(block):
            job = chosen[node.lead]
            more = Signal(range(self._config.slot_beats), name=f"more_{block}_{node.number}")
            m.d.comb += more.eq(Mux(job.length == 0, 0, (job.length - 1) >> shift))
            with m.If(starts[node.number]):
                m.d.sync += [
                    busy.eq(1),
                    step.job.eq(job),
                    step.index.eq(0),
                    step.first.eq(1),
                    step.leads.eq(block == node.lead),
                    left.eq(more),
                    step.last.eq(more == 0),
                ]
