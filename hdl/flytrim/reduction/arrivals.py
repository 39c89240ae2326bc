# SPDX-License-Identifier: Apache-2.0
"""Arrivals: which contribution makes a slot whole, over all ports, and what that calls for."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..group import GROUP_BITS, SLOT_BITS
from .child import PHASE_BITS, Arrival, GroupEntry, Job

__all__ = ["Arrivals"]


class Arrivals(wiring.Component):
    """Tells of a slot once, when the last of its members has come, whichever that is.

    The marks that the ports set are held here once more, for all to see. In the cycle
    behind a mark its port looks whether all others are there. Those that came in the same cycle all
    find it so; the lowest of them tells. Of a slot whose marks are being taken back, nobody tells:
    those still to be cleared will have to come again. Where a group has a parent, it is told of the
    children first, and then once more when the parent's answer has come, too.

    Latency 1 cycle, an arrival a cycle at every port.

    Parameters
    ----------
    config : SwitchConfig

    Members
    -------
    arrivals : lane of :class:`Arrival` of each port
    again : lane of :class:`Arrival` of each port, a cycle behind it in ``arrivals``
    placed, group, entry : strobe: ``entry`` becomes that of ``group``
    jobs, asked : lanes of :class:`Job` of each port: of a slot that is whole, and of what is asked
        for again in the same cycle
    clears, cleared : marks of the slot ``cleared`` are being taken back
    slot, marked : a slot, and each port's mark there, combinational
    """

    def __init__(self, config):
        self._config = config
        lanes = stream.Signature(Job, always_ready=True)
        super().__init__({
            "arrivals": In(stream.Signature(Arrival, always_ready=True)).array(config.ports),
            "again": In(stream.Signature(Arrival, always_ready=True)).array(config.ports),
            "placed": In(1),
            "group": In(GROUP_BITS),
            "entry": In(GroupEntry),
            "jobs": Out(lanes).array(config.ports),
            "asked": Out(lanes).array(config.ports),
            "clears": In(1),
            "cleared": In(SLOT_BITS),
            "slot": In(SLOT_BITS),
            "marked": Out(data.ArrayLayout(PHASE_BITS, config.ports)),
        })

    def elaborate(self, platform):
        m = Module()
        config, ports = self._config, range(self._config.ports)
        m.submodules.entries = entries = memory.Memory(
            shape=GroupEntry, depth=max(2, config.groups), init=[])
        write = entries.write_port()
        m.d.comb += [
            write.addr.eq(self.group), write.data.eq(self.entry), write.en.eq(self.placed)]
        marks = []
        for p in ports:
            m.submodules[f"marks_{p}"] = store = memory.Memory(
                shape=PHASE_BITS, depth=config.slots, init=[])
            write, sweep = store.write_port(), store.read_port(domain="comb")
            arrival = self.arrivals[p]
            m.d.comb += [
                write.addr.eq(arrival.payload.turn.slot),
                write.data.eq(arrival.payload.turn.phase),
                write.en.eq(arrival.valid),
                sweep.addr.eq(self.slot),
                self.marked[p].eq(sweep.data),
            ]
            marks.append(store)

        latest = [Signal(Arrival, name=f"latest_{p}", reset_less=True) for p in ports]
        counts = Signal(config.ports)
        for p in ports:
            arrival = self.arrivals[p]
            entry = entries.read_port(domain="comb")
            known = Signal(data.StructLayout({
                "children": config.ports, "parent": config.ports, "sources": config.ports,
                "node": 3}), name=f"known_{p}", reset_less=True)
            context = entry.data.context
            m.d.comb += entry.addr.eq(arrival.payload.turn.group)
            m.d.sync += [
                latest[p].eq(arrival.payload),
                known.children.eq(context.members & ~context.parent),
                known.parent.eq(context.parent),
                known.sources.eq(context.sources),
                known.node.eq(entry.data.node),
                counts[p].eq(arrival.valid & arrival.payload.counts & context.members[p]),
            ]
            here = []
            for mark in marks:
                read = mark.read_port(domain="comb")
                m.d.comb += read.addr.eq(latest[p].turn.slot)
                here.append(read.data == latest[p].turn.phase)
            lower = Cat(counts[other] & (latest[other].turn.slot == latest[p].turn.slot)
                        for other in range(p))
            clearing = self.clears & (latest[p].turn.slot == self.cleared)
            self._tell(m, p, latest[p], known, Cat(here), counts[p] & ~lower.any() & ~clearing)
            self._ask(m, p, known)
        return m

    def _tell(self, m, p, latest, known, here, counts):
        """The job of a slot that has become whole."""
        job, whole, answered = self.jobs[p].payload, Signal(name=f"whole_{p}"), Signal(
            name=f"answered_{p}")
        m.d.comb += [
            whole.eq((~known.children | here).all()),
            answered.eq((known.parent & here).any()),
            self.jobs[p].valid.eq(counts & whole & (~known.parent[p] | answered)),
            job.turn.eq(latest.turn),
            job.node.eq(known.node),
            job.up.eq(known.parent.any() & ~answered),
            job.down.eq(answered),
            job.ports.eq(Mux(job.up, known.parent, known.children)),
            job.unsized.eq(~Mux(job.down, known.parent, known.sources)[p]),
            job.length.eq(Mux(job.unsized, self._config.slot_bytes, latest.length)),
        ]

    def _ask(self, m, p, known):
        """The job of what is asked for again."""
        again, job = self.again[p].payload, self.asked[p].payload
        m.d.comb += [
            self.asked[p].valid.eq(self.again[p].valid),
            job.turn.eq(again.turn),
            # A group is looked up for every packet and order, whatever becomes of it.
            job.node.eq(known.node),
            job.again.eq(1),
            job.up.eq(again.repeats),
            job.ports.eq(Mux(again.repeats, known.parent, 1 << p)),
            job.unsized.eq(again.repeats | ~known.sources[p]),
            job.length.eq(Mux(job.unsized, self._config.slot_bytes, again.length)),
        ]
