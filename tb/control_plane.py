# SPDX-License-Identifier: Apache-2.0
"""The control plane of a switch: pages of registers, with nothing behind them but a bench."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from flytrim.axil_pages import PAGE_WIDTH, AxilPages
from flytrim.axis import AxiLite
from flytrim.control import Control
from flytrim.flow_cam import FlowCommand
from flytrim.switch_control import SwitchControl

__all__ = ["ControlPlane"]


class ControlPlane(wiring.Component):
    """A :class:`Control` for each port and a :class:`SwitchControl` behind one AXI4-Lite port.

    Members
    -------
    bus : AXI4-Lite slave
    flows : commands on the flow tables of the ports; all are done at once
    damaged : strobe of each port
    and all of :class:`SwitchControl` but its own bus and the interrupts of ports.
    """

    def __init__(self, config):
        self._control = SwitchControl(config)
        self._ports = [Control(config.port, PAGE_WIDTH) for _ in range(config.ports)]
        self._core = {name: member for name, member in self._control.signature.members.items()
                      if not name.startswith("axil_") and name != "port_irqs"}
        super().__init__({
            "bus": In(AxiLite(PAGE_WIDTH + ceil_log2(config.ports + 1))),
            "flows": Out(stream.Signature(FlowCommand)).array(config.ports),
            "damaged": In(1).array(config.ports),
            **self._core,
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = self._control
        m.submodules.pages = pages = AxilPages(len(self._ports) + 1)
        connect(m, flipped(self.bus), pages.bus)
        for n, block in enumerate((*self._ports, control)):
            for name, member in pages.pages[n].signature.members.items():
                inner, outer = getattr(block, f"axil_{name}"), getattr(pages.pages[n], name)
                m.d.comb += inner.eq(outer) if member.flow is Out else outer.eq(inner)
        for n, port in enumerate(self._ports):
            m.submodules[f"port_{n}"] = port
            m.d.comb += [port.damaged.eq(self.damaged[n]), control.port_irqs[n].eq(port.irq)]
            connect(m, port.flows, flipped(self.flows[n]))
        for name, member in self._core.items():
            inner, outer = getattr(control, name), getattr(self, name)
            if member.is_signature:
                ends = (inner, flipped(outer)) if member.flow is Out else (flipped(outer), inner)
                connect(m, *ends)
            else:
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m
