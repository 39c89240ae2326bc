# SPDX-License-Identifier: Apache-2.0
"""Switch telemetry: what ports and groups contribute and get, how full slots are, how sums end."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..logic import KEEP
from ..registers import switch_rows
from .gather import Gather
from .total import Total

__all__ = ["SwitchCounts", "SwitchTelemetry"]

#: Strobes of a port, each with the counter in the register description that it counts in.
PORT_STROBES = {"contribution": "contributions", "duplicate": "duplicates",
                "out_of_window": "out_of_window", "bounds": "bounds", "replay": "replays",
                "result": "results"}
#: Strobes of a group, alike.
GROUP_STROBES = {"result": "results", "aborted": "aborted", "flushed": "flushed"}
#: Flags of results.
FLAGS = ("inexact", "overflow", "invalid")


class SwitchCounts(data.StructLayout):
    """What the data path of a switch tells to be counted, anew in every cycle.

    Members
    -------
    ports : of each port a strobe each: ``contribution`` to a slot, ``duplicate``,
        ``out_of_window`` and ``bounds`` of packets that make none, ``result`` that was sent and
        ``replay`` of one that was sent again
    groups : of each group a strobe each: ``result`` of a slot that made one, ``flushed`` where that
        is without a child, ``aborted`` of a slot that made none
    in_use : slots that wait for a child
    inexact, overflow, invalid : results that have such an element; those of two ports each, or
        more, can end at a time
    """

    def __init__(self, config):
        super().__init__({
            "ports": data.ArrayLayout(
                data.StructLayout(dict.fromkeys(PORT_STROBES, 1)), config.ports),
            "groups": data.ArrayLayout(
                data.StructLayout(dict.fromkeys(GROUP_STROBES, 1)), config.groups),
            "in_use": range(config.slots + 1),
            **dict.fromkeys(FLAGS, range(config.ports // 2 + 1)),
        })


class SwitchTelemetry(wiring.Component):
    """Counts what strobes out of the data path tell. Nothing in the data path waits for it.

    Each reading is named as its register field in the group ``counters`` of the description of a
    switch's registers, and means what is said there.

    Parameters
    ----------
    config : SwitchConfig

    Members
    -------
    counts : :class:`SwitchCounts`
    """

    def __init__(self, config):
        self._config = config
        self._ports, self._groups = switch_rows(config.ports), switch_rows(config.groups)
        super().__init__({
            "counts": In(SwitchCounts(config)),
            "command__clear": In(1),
            "slots_in_use__now": Out(16),
            "slots_in_use__most": Out(16),
            **{f"{flag}__count": Out(64) for flag in FLAGS},
            "port__index": In(range(self._ports)),
            **{f"port__{name}__count": Out(64) for name in PORT_STROBES.values()},
            "group__index": In(range(self._groups)),
            **{f"group__{name}__count": Out(64) for name in GROUP_STROBES.values()},
        })

    def elaborate(self, platform):
        m = Module()
        counts = Signal(SwitchCounts(self._config))
        # One register for what comes from all over the switch, and one a counter for the clear.
        m.d.sync += counts.eq(self.counts)
        self._count_sources(m, "port", counts.ports, PORT_STROBES)
        self._count_sources(m, "group", counts.groups, GROUP_STROBES)
        for flag in FLAGS:
            m.submodules[flag] = total = Total(len(counts[flag]))
            m.d.comb += [
                total.i.valid.eq(1),
                total.i.payload.eq(counts[flag]),
                total.clear.eq(self._clear(m, flag)),
                getattr(self, f"{flag}__count").eq(total.o),
            ]

        most, clear = Signal(unsigned(16)), self._clear(m, "slots")
        m.d.sync += most.eq(Mux(clear | (counts.in_use > most), counts.in_use, most))
        m.d.comb += [self.slots_in_use__now.eq(counts.in_use), self.slots_in_use__most.eq(most)]
        return m

    def _clear(self, m, name):
        """The strobe a cycle later, from a register for this one: it has to reach many."""
        clear = Signal(name=f"clear_{name}", attrs=KEEP)
        m.d.sync += clear.eq(self.command__clear)
        return clear

    def _count_sources(self, m, name, strobes, names):
        """Counters of each port, or of each group."""
        rows = len(getattr(self, f"{name}__index"))
        m.submodules[f"{name}s"] = sources = Gather(1 << rows, names)
        m.d.comb += [
            *(sources.strobes[n].eq(each) for n, each in enumerate(strobes)),
            sources.clear.eq(self._clear(m, name)),
            sources.index.eq(getattr(self, f"{name}__index")),
            *(getattr(self, f"{name}__{counter}__count").eq(sources.o[strobe])
              for strobe, counter in names.items()),
        ]
