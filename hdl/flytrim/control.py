# SPDX-License-Identifier: Apache-2.0
"""Control: the register bank, and what its registers do."""

from amaranth import Cat, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from . import __version__
from .axis import axil_members
from .flow_cam import FlowCommand
from .registers import load
from .registers.bank import RegisterBank

__all__ = ["Control"]


class Control(wiring.Component):
    """Registers behind AXI4-Lite; turns a write to ``flow_command`` into a flow table command.

    The shadow registers may be written again as soon as the write to ``flow_command`` is answered.
    A command written while another one runs is lost: software waits for ``flow_status.busy`` to
    fall.

    Members
    -------
    axil_* : AXI4-Lite slave
    flows : stream of :class:`FlowCommand`
    flow_status : outcome of the last command
    """

    prefix = "axil"

    def __init__(self, config, address_width):
        self._config, self._address_width = config, address_width
        super().__init__({
            **axil_members("axil", address_width),
            "flows": Out(stream.Signature(FlowCommand)),
            "flow_status": In(4),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(load(), address_width=self._address_width)
        for name, member in bank.bus.signature.members.items():
            inner, outer = getattr(bank.bus, name), getattr(self, f"axil_{name}")
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)

        m.d.comb += [
            bank.capability__width.eq(self._config.width),
            bank.capability__flows.eq(self._config.flows),
            bank.max_frame__bytes.eq(self._config.max_frame),
            bank.build__commit.eq(self._config.commit),
        ]
        for field, number in zip(("major", "minor", "patch"), __version__.split("."), strict=True):
            m.d.comb += getattr(bank, f"version__{field}").eq(int(number))

        # Taken in the very next cycle, before the bus can bring another write.
        command, pending = self.flows.payload, self.flows.valid
        key, context = command.key, command.context
        m.d.sync += pending.eq(bank.flow_command__written & self.flows.ready & ~pending)
        m.d.comb += [
            command.operation.eq(bank.flow_command__op),
            command.flow.eq(bank.flow_command__flow),
            key.ipv6.eq(bank.flow__options__ipv6),
            key.src.eq(Cat(getattr(bank, f"flow__src_{n}__bits") for n in range(4))),
            key.dst.eq(Cat(getattr(bank, f"flow__dst_{n}__bits") for n in range(4))),
            key.dport.eq(bank.flow__ports__dport),
            key.qpn.eq(bank.flow__qp__qpn),
            context.check_sport.eq(bank.flow__options__check_sport),
            context.sport.eq(bank.flow__ports__sport),
            context.check_vlan.eq(bank.flow__options__check_vlan),
            context.vlan.eq(bank.flow__options__vlan),
            context.check_icrc.eq(bank.flow__options__check_icrc),
            context.check_length.eq(bank.flow__options__check_length),
            context.cut.eq(bank.flow__options__cut),
            context.message_bytes.eq(bank.flow__message__bytes),
        ]
        m.d.comb += [
            bank.flow_status__code.eq(self.flow_status),
            bank.flow_status__busy.eq(pending | ~self.flows.ready | bank.flow_command__written),
        ]
        return m
