# SPDX-License-Identifier: Apache-2.0
"""Port table: the UDP destination ports in use, and how many flows have each."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PortTable"]


class PortTable(wiring.Component):
    """Counts a flow in and out in one step. A lookup a cycle, latency 1.

    A command sets ``adds`` and ``drops`` with their ports and holds them; four cycles later
    ``fits`` is right, ``commit`` may strobe, and ``added`` holds for three cycles more. There is
    one place more than ports: a new port is written there before it counts.

    Parameters
    ----------
    ports : int
        Distinct ports.
    flows : int
        Flows that a port may have.

    Members
    -------
    port, known : a lookup, and one cycle later whether a flow has this port
    adds, added : a flow of port ``added`` is to come
    drops, dropped : a flow of port ``dropped`` is to go; it is in the table
    fits : there is a place for ``added``, after the drop
    commit : both happen, visible to lookups from the next cycle on
    """

    def __init__(self, ports, flows):
        self._ports, self._flows = ports, flows
        super().__init__({
            "port": In(16), "known": Out(1),
            "adds": In(1), "added": In(16),
            "drops": In(1), "dropped": In(16),
            "fits": Out(1), "commit": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        places = range(self._ports + 1)
        used = Signal(len(places))
        ports = [Signal(16, name=f"port_{n}") for n in places]
        flows = [Signal(range(self._flows + 1), name=f"flows_{n}") for n in places]
        m.d.sync += self.known.eq(
            Cat(taken & (port == self.port) for taken, port in zip(used, ports, strict=True)).any())

        has_added, has_dropped, free, lowest, last = (
            Signal(len(places), name=name)
            for name in ("has_added", "has_dropped", "free", "lowest", "last"))
        comes, goes, came, went = (Signal(len(places), name=name)
                                   for name in ("comes", "goes", "came", "went"))
        m.d.sync += [
            free.eq(~used),
            lowest.eq(free & -free),
            comes.eq(Mux(has_added.any(), has_added, lowest) & self.adds.replicate(len(places))),
            goes.eq(has_dropped & self.drops.replicate(len(places))),
            self.fits.eq(has_added.any() | (free & ~lowest).any() | (goes & last).any()),
            # Flows are counted a cycle later, which no lookup sees.
            came.eq(comes & self.commit.replicate(len(places))),
            went.eq(goes & self.commit.replicate(len(places))),
        ]
        for n in places:
            m.d.sync += [
                has_added[n].eq(used[n] & (ports[n] == self.added)),
                has_dropped[n].eq(used[n] & (ports[n] == self.dropped)),
                last[n].eq(flows[n] == 1),
            ]
            with m.If(self.commit):
                m.d.sync += used[n].eq(comes[n] | (used[n] & ~(goes[n] & last[n])))
            with m.If(lowest[n]):
                m.d.sync += ports[n].eq(self.added)
            with m.If(came[n] ^ went[n]):
                m.d.sync += flows[n].eq(Mux(came[n], flows[n] + 1, flows[n] - 1))
        return m
