# SPDX-License-Identifier: Apache-2.0
"""Arrivals: which contribution makes a slot whole, over all ports."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..group import GROUP_BITS, SLOT_BITS
from .child import PHASE_BITS, Arrival, GroupEntry, Job

__all__ = ["Arrivals"]


class Arrivals(wiring.Component):
    """Tells of a slot once, when the last of its children has come, whichever that is.

    The marks that the ports set are held here once more, for all to see. In the cycle
    behind a mark its port looks whether all others are there. Those that came in the same cycle all
    find it so; the lowest of them tells. Of a slot whose marks are being taken back, nobody tells:
    those still to be cleared will have to come again.

    Latency 1 cycle, an arrival a cycle at every port.

    Parameters
    ----------
    config : SwitchConfig

    Members
    -------
    arrivals : lane of :class:`Arrival` of each port
    placed, group, entry : strobe: ``entry`` becomes that of ``group``
    jobs : lane of :class:`Job` of each port
    clears, cleared : marks of the slot ``cleared`` are being taken back
    slot, marked : a slot, and each port's mark there, combinational
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "arrivals": In(stream.Signature(Arrival, always_ready=True)).array(config.ports),
            "placed": In(1),
            "group": In(GROUP_BITS),
            "entry": In(GroupEntry),
            "jobs": Out(stream.Signature(Job, always_ready=True)).array(config.ports),
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
            arrival, job = self.arrivals[p], self.jobs[p].payload
            entry = entries.read_port(domain="comb")
            known = Signal(data.StructLayout({"members": config.ports, "node": 3}),
                           name=f"known_{p}", reset_less=True)
            m.d.comb += entry.addr.eq(arrival.payload.turn.group)
            m.d.sync += [
                latest[p].eq(arrival.payload),
                known.members.eq(entry.data.context.members),
                known.node.eq(entry.data.node),
                counts[p].eq(arrival.valid & arrival.payload.counts
                             & entry.data.context.members[p]),
            ]
            here = []
            for mark in marks:
                read = mark.read_port(domain="comb")
                m.d.comb += read.addr.eq(latest[p].turn.slot)
                here.append(read.data == latest[p].turn.phase)
            lower = Cat(counts[other] & (latest[other].turn.slot == latest[p].turn.slot)
                        for other in range(p))
            m.d.comb += [
                self.jobs[p].valid.eq(counts[p] & (~known.members | Cat(here)).all()
                                      & ~lower.any()
                                      & ~(self.clears & (latest[p].turn.slot == self.cleared))),
                job.turn.eq(latest[p].turn),
                job.node.eq(known.node),
                job.ports.eq(known.members),
                job.length.eq(latest[p].length),
            ]
        return m
