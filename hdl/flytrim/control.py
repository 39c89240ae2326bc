# SPDX-License-Identifier: Apache-2.0
"""Control: the register bank, and what its registers do."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from . import __version__
from .axis import axil_members
from .context import FlowRecord
from .flow_cam import FlowCommand
from .logic import KEEP
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
    irq : high while something has happened that software wants to be told of
    flows : stream of :class:`FlowCommand`
    flow_status : outcome of the last command
    flow_read, flow_found : strobe: a cycle later ``flow_found`` is what a command has read
    overflow, damaged : strobes: a frame was dropped
    counters__*, flow_counters__* : ports of these groups of registers, as those of
        :class:`RegisterBank`; absent in a device that does not count
    """

    prefix = "axil"

    def __init__(self, config, address_width):
        self._config, self._address_width = config, address_width
        self._bank = RegisterBank(load(counters=config.counters), address_width=address_width)
        self._readings = {name: member for name, member in self._bank.signature.members.items()
                          if name.startswith(("counters__", "flow_counters__"))}
        super().__init__({
            **self._readings,
            "irq": Out(1),
            "flow_read": In(1),
            "flow_found": In(FlowRecord),
            "overflow": In(1),
            "damaged": In(1),
            **axil_members("axil", address_width),
            "flows": Out(stream.Signature(FlowCommand)),
            "flow_status": In(4),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = self._bank
        ports = [(member, getattr(bank.bus, name), getattr(self, f"axil_{name}"))
                 for name, member in bank.bus.signature.members.items()]
        ports += [(member, getattr(bank, name), getattr(self, name))
                  for name, member in self._readings.items()]
        for member, inner, outer in ports:
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)

        m.d.comb += [
            bank.capability__width.eq(self._config.width),
            bank.capability__flows.eq(self._config.flows),
            bank.max_frame__bytes.eq(self._config.max_frame),
            bank.build__commit.eq(self._config.commit),
            bank.features__counters.eq(self._config.counters),
        ]
        for field, number in zip(("major", "minor", "patch"), __version__.split("."), strict=True):
            m.d.comb += getattr(bank, f"version__{field}").eq(int(number))

        # Taken in the very next cycle, before the bus can bring another write.
        command, pending = self.flows.payload, self.flows.valid
        written, takes = bank.flow_command__written, self.flows.ready & ~pending
        m.d.sync += pending.eq(written & takes)
        m.d.comb += [
            command.operation.eq(bank.flow_command__op),
            command.flow.eq(bank.flow_command__flow),
        ]
        # The shadow, and what is read into it, each register by a strobe of its own.
        for register, fields in _shadow().items():
            load_now = Signal(name=f"{register}_load", attrs=KEEP)
            m.d.sync += load_now.eq(self.flow_read)
            m.d.comb += getattr(bank, f"{register}__load").eq(load_now)
            for field, part in fields.items():
                name = f"{register}__{field}"
                m.d.comb += [
                    part(command).eq(getattr(bank, name)),
                    getattr(bank, f"{name}__next").eq(part(self.flow_found)),
                ]

        running, status = Signal(), "interrupt_status"
        with m.If(pending & self.flows.ready):
            m.d.sync += running.eq(1)
        with m.Elif(self.flows.ready):
            m.d.sync += running.eq(0)
        events = {
            "command_done": running & self.flows.ready, "command_lost": written & ~takes,
            "overflow": self.overflow, "damaged": self.damaged,
        }
        m.d.comb += [getattr(bank, f"{status}__{name}__set").eq(event)
                     for name, event in events.items()]
        m.d.sync += self.irq.eq(Cat(
            getattr(bank, f"{status}__{name}") & getattr(bank, f"interrupt_enable__{name}")
            for name in events).any())
        m.d.comb += [
            bank.flow_status__code.eq(self.flow_status),
            bank.flow_status__busy.eq(pending | ~self.flows.ready | bank.flow_command__written),
        ]
        return m


def _shadow():
    """The shadow registers, each with its fields and where in a flow they stand."""
    def word(name, n):
        return lambda flow: getattr(flow.key, name).word_select(n, 32)

    def key(name):
        return lambda flow: getattr(flow.key, name)

    def context(name):
        return lambda flow: getattr(flow.context, name)

    options = ("check_vlan", "check_sport", "check_icrc", "check_length", "cut", "disabled", "vlan")
    return {
        **{f"flow__{name}_{n}": {"bits": word(name, n)} for name in ("src", "dst")
           for n in range(4)},
        "flow__ports": {"dport": key("dport"), "sport": context("sport")},
        "flow__qp": {"qpn": key("qpn")},
        "flow__options": {"ipv6": key("ipv6"), **{name: context(name) for name in options}},
        "flow__message": {"bytes": context("message_bytes")},
    }
