# SPDX-License-Identifier: Apache-2.0
"""TrimSwitch: frames of several ports in; sums of what their flows carry, and all else, out."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import ceil_log2

from .axil_pages import PAGE_WIDTH, AxilPages
from .axis import axil_members, axis_members, wire
from .egress import Egress
from .group import Route
from .logic import select
from .port import Port
from .reduction import Reducer
from .shared import copies
from .switch_control import SwitchControl

__all__ = ["TrimSwitch"]


class TrimSwitch(wiring.Component):
    """Trims registered flows at every port, reduces them over the ports, and answers each child.

    Flow n of a port is its child of group n. Frames that are not trimmed leave by the static map of
    ports, bit-exact, when all of a frame has come; each output is shared frame by frame. No output
    has a gap inside a frame.

    Parameters
    ----------
    config : SwitchConfig

    Members
    -------
    s_axis_rx{n}_* : frames from the MAC of port n, AXI4-Stream; ``tready`` is always 1
    m_axis_tx{n}_* : frames to it
    s_axil_* : registers, AXI4-Lite: a page of 4 KiB for each port, as that of a ``TrimNic``, and
        one behind them for the switch
    irq : high while an interrupt that is let out is set, in any of the pages
    """

    def __init__(self, config):
        self._config = config
        ports = range(config.ports)
        members = {}
        for port in ports:
            members |= axis_members(f"s_axis_rx{port}", In, config.width, user=1)
            members |= axis_members(f"m_axis_tx{port}", Out, config.width, user=1)
        super().__init__({
            **members,
            **axil_members("s_axil", PAGE_WIDTH + ceil_log2(config.ports + 1)),
            "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        numbers = range(config.ports)
        m.submodules.pages = pages = AxilPages(config.ports + 1)
        m.submodules.control = control = SwitchControl(config)
        m.submodules.reducer = reducer = Reducer(config)
        ports = copies("flytrim_port", lambda: Port(config.port, whole=True), config.ports,
                       ("prefix",))
        egresses = copies("flytrim_egress", lambda: Egress(config, reducer.in_flight), config.ports)
        for n in numbers:
            m.submodules[f"port_{n}"], m.submodules[f"egress_{n}"] = ports[n], egresses[n]

        for name in pages.bus.signature.members:
            outer, inner = getattr(self, f"s_axil_{name}"), getattr(pages.bus, name)
            m.d.comb += inner.eq(outer) if self.signature.members[
                f"s_axil_{name}"].flow is In else outer.eq(inner)
        for page, slave in zip(pages.pages, [*ports, control], strict=True):
            for name, member in page.signature.members.items():
                outer, inner = getattr(page, name), getattr(slave, f"axil_{name}")
                m.d.comb += inner.eq(outer) if member.flow is Out else outer.eq(inner)

        connect(m, control.commands, reducer.commands)
        connect(m, reducer.straggler, control.straggler)
        connect(m, reducer.aborted, control.aborted)
        m.d.comb += [control.status.eq(reducer.status), self.irq.eq(control.irq)]
        for n, (port, egress) in enumerate(zip(ports, egresses, strict=True)):
            wire(m, self, f"s_axis_rx{n}", port)
            wire(m, self, f"m_axis_tx{n}", egress, "axis")
            connect(m, port.trim, reducer.payload[n])
            connect(m, port.meta, reducer.meta[n])
            connect(m, reducer.records[n], egress.records)
            connect(m, reducer.beats[n], egress.beats)
            m.d.comb += [
                # Slots take what comes.
                port.trim_room.eq(1),
                port.meta_room.eq(1),
                reducer.room[n].eq(egress.room),
                egress.placed.eq(reducer.placed),
                egress.placed_group.eq(reducer.group),
                egress.entry.eq(reducer.entry),
                egress.running.eq(reducer.running),
                control.port_irqs[n].eq(port.irq),
                egress.written.eq(control.template_write & (control.template_port == n)),
                egress.group.eq(control.template_group),
                egress.headers.eq(control.template),
            ]
            self._forward(m, n, port.bypass, egresses, control.forward[n])
        if config.counters:
            self._count(m, reducer, control.counts)
        return m

    def _forward(self, m, n, source, egresses, route):
        """What a port does not trim, to one of the others; a change waits for a frame's end."""
        now = Signal(Route, name=f"route_{n}")
        with m.If(~source.valid | source.ready & source.payload.last):
            m.d.sync += now.eq(route)
        sinks = [egress.forwarded[n] for egress in egresses]
        here = [now.enable & (now.port == number) for number in range(len(sinks))]
        for sink, chosen in zip(sinks, here, strict=True):
            m.d.comb += [sink.valid.eq(source.valid & chosen), sink.payload.eq(source.payload)]
        # To nowhere, it is taken and gone.
        m.d.comb += source.ready.eq(
            select((chosen, sink.ready) for sink, chosen in zip(sinks, here, strict=True))
            | ~(now.enable & (now.port < len(sinks))))

    def _count(self, m, reducer, counts):
        """What is told of ports, groups and results, to the counters."""
        ended = [(lane.valid, lane.payload) for lane in reducer.outcomes]
        for n, port in enumerate(counts.ports):
            sent = reducer.records[n]
            m.d.comb += [port[name].eq(getattr(reducer, name)[n]) for name in (
                "contribution", "duplicate", "out_of_window", "bounds")]
            m.d.comb += [port.result.eq(sent.valid & ~sent.payload.again),
                         port.replay.eq(sent.valid & sent.payload.again)]
        for number, group in enumerate(counts.groups):
            here = [valid & (outcome.turn.group == number) for valid, outcome in ended]
            m.d.comb += [group[name].eq(Cat(
                each & flag for each, (_, outcome) in zip(here, ended, strict=True)
                for flag in [{"result": outcome.done, "aborted": outcome.cause.any(),
                              "flushed": outcome.done & outcome.partial}[name]]).any())
                for name in ("result", "aborted", "flushed")]
        m.d.comb += [
            counts.in_use.eq(reducer.in_use),
            *(counts[name].eq(sum(valid & (outcome.done | outcome.up) & outcome.flags[bit]
                                  for valid, outcome in ended))
              for name, bit in (("inexact", 0), ("overflow", 2), ("invalid", 4))),
        ]
