# SPDX-License-Identifier: Apache-2.0
"""Control of a lean link: its registers, and what they do."""

from amaranth import Cat, Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .. import __version__
from ..axis import axil_members
from ..registers import load_lean
from ..registers.bank import RegisterBank
from ..telemetry.total import Total
from . import container as c
from .context import Template, WriteContext, WriteTemplate

__all__ = ["LeanControl"]

#: Counters of the strobes of the same name, and of containers by what became of them.
_STROBES = ("opened", "dropped")
_FAULTS = {"accepted": c.Fault.NONE, **{str(fault): fault for fault in c.Fault if fault}}


class LeanControl(wiring.Component):
    """Registers behind AXI4-Lite; a write to ``flow_command`` gives one end a flow.

    Members
    -------
    axil_* : AXI4-Lite slave
    framer, restorer : lanes of what each end is to know
    opened, dropped : as of :class:`Framer`
    ended, fault, lost, missing : as of :class:`Restorer`
    """

    prefix = "axil"

    def __init__(self, config, address_width):
        self._config, self._address_width = config, address_width
        super().__init__({
            **axil_members("axil", address_width),
            "framer": Out(stream.Signature(WriteContext, always_ready=True)),
            "restorer": Out(stream.Signature(WriteTemplate, always_ready=True)),
            "opened": In(1), "dropped": In(1),
            "ended": In(1), "fault": In(c.Fault), "lost": In(1), "missing": In(15),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.bank = bank = RegisterBank(load_lean(), address_width=self._address_width)
        for name, member in bank.bus.signature.members.items():
            inner, outer = getattr(bank.bus, name), getattr(self, f"axil_{name}")
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        m.d.comb += [
            bank.capability__width.eq(config.width),
            bank.capability__flows.eq(config.flows),
            bank.capability__ethernet.eq(config.ethernet),
            bank.container__bytes.eq(config.container_bytes),
            bank.build__commit.eq(config.commit),
            bank.features__counters.eq(1),
        ]
        for field, number in zip(("major", "minor", "patch"), __version__.split("."), strict=True):
            m.d.comb += getattr(bank, f"version__{field}").eq(int(number))

        framer, restorer = self.framer.payload, self.restorer.payload
        context = framer.context
        for template in (context.template, restorer.template):
            m.d.comb += [template[name].eq(getattr(bank, f"flow__template__{name}"))
                         for name, _ in data.Layout.cast(Template)]
        m.d.comb += [
            self.framer.valid.eq(bank.flow_command__written & bank.flow_command__framer),
            self.restorer.valid.eq(bank.flow_command__written & bank.flow_command__restorer),
            *(each.flow.eq(bank.flow_command__flow) for each in (framer, restorer)),
            *(each.enable.eq(bank.flow_command__enable) for each in (framer, restorer)),
            context.lean_id.eq(bank.flow__tag__lean_id),
            context.flush.eq(bank.flow__flush__cycles),
            context.routed.eq(bank.flow__options__routed),
            *(context[name].eq(getattr(bank, f"flow__route__{name}"))
              for name in ("source", "destination", "hop_limit")),
            *(context[f"{name}_mac"].eq(Cat(getattr(bank, f"flow__{name}_mac_low__bits"),
                                            getattr(bank, f"flow__{name}_mac_high__bits")))
              for name in ("dst", "src")),
        ]

        amounts = {name: getattr(self, name) for name in _STROBES}
        amounts |= {name: self.ended & (self.fault == fault) for name, fault in _FAULTS.items()}
        amounts["lost"] = self.missing & (self.lost & self.ended).replicate(15)
        for name, amount in amounts.items():
            total = m.submodules[f"total_{name}"] = Total(len(amount))
            m.d.comb += [total.i.valid.eq(1), total.i.payload.eq(amount),
                         getattr(bank, f"counters__{name}__count").eq(total.o)]
        return m
