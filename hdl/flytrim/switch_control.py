# SPDX-License-Identifier: Apache-2.0
"""Switch control: the registers that a switch has beside those of its ports, and what they do."""

from amaranth import Cat, Module, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from . import __version__
from .axis import axil_members
from .config import SUMS, TYPES
from .group import (
    GROUP_BITS,
    PORT_BITS,
    Aborted,
    GroupCommand,
    GroupOperation,
    GroupStatus,
    Route,
    Straggler,
    Template,
)
from .logic import load_soon
from .registers import load_switch
from .registers.bank import RegisterBank
from .telemetry import SwitchCounts, SwitchTelemetry

__all__ = ["SwitchControl"]


class SwitchControl(wiring.Component):
    """Registers behind AXI4-Lite; turns a write to ``group_command`` into a command.

    The shadow registers may be written again as soon as the write to ``group_command`` is
    answered. A command written while another one runs is lost: software waits for
    ``group_status.busy`` to fall.

    A template, and what is no operation at all, is dealt with here within two cycles; the rest
    waits for the core.

    Parameters
    ----------
    config : SwitchConfig

    Members
    -------
    axil_* : AXI4-Lite slave, a page of 4 KiB
    irq : high while something has happened that software wants to be told of
    port_irqs : interrupt of each port
    commands : stream of :class:`GroupCommand`: START, STOP and FLUSH, which are done as they are
        taken
    status : :class:`GroupStatus` of the command, valid while it is taken
    template_write, template_port, template_group, template : strobe: these headers are from now on
        those of the group's results for the port
    forward : :class:`Route` of frames of each port that are not reduced
    straggler : stream of :class:`Straggler`; taken while software has been told of none
    aborted : stream of :class:`Aborted`, alike
    counts : see :class:`~flytrim.telemetry.SwitchCounts`
    """

    prefix = "axil"

    def __init__(self, config):
        self._config = config
        self._bank = RegisterBank(load_switch(
            ports=config.ports, groups=config.groups, counters=config.counters))
        super().__init__({
            **axil_members("axil", 12),
            "irq": Out(1),
            "port_irqs": In(config.ports),
            "commands": Out(stream.Signature(GroupCommand)),
            "status": In(unsigned(4)),
            "template_write": Out(1),
            "template_port": Out(PORT_BITS),
            "template_group": Out(GROUP_BITS),
            "template": Out(Template),
            "forward": Out(data.ArrayLayout(Route, config.ports)),
            "straggler": In(stream.Signature(Straggler)),
            "aborted": In(stream.Signature(Aborted)),
            "counts": In(SwitchCounts(config)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = self._bank
        for name, member in bank.bus.signature.members.items():
            inner, outer = getattr(bank.bus, name), getattr(self, f"axil_{name}")
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        self._tell_identity(m, bank)
        for port, route in enumerate(self.forward):
            m.d.comb += [route.port.eq(getattr(bank, f"forward_{port}__port")),
                         route.enable.eq(getattr(bank, f"forward_{port}__enable"))]
        events = self._run_commands(m, bank) | {
            "straggler": self._hold(m, bank, "straggler", self.straggler, {
                "straggler__offset": "offset", "straggler__group": "group",
                "straggler_missing__ports": "missing"}),
            "aborted": self._hold(m, bank, "aborted", self.aborted, {
                f"aborted__{field}": field for field in ("offset", "group", "cause")}),
        }
        status, enable = "interrupt_status", "interrupt_enable"
        m.d.comb += [getattr(bank, f"{status}__{name}__set").eq(event)
                     for name, event in events.items()]
        m.d.comb += bank.interrupt_status__ports.eq(self.port_irqs)
        m.d.sync += self.irq.eq(
            Cat(getattr(bank, f"{status}__{name}") & getattr(bank, f"{enable}__{name}")
                for name in events).any() | (self.port_irqs & bank.interrupt_enable__ports).any())
        if self._config.counters:
            self._count(m, bank)
        return m

    def _tell_identity(self, m, bank):
        config = self._config
        m.d.comb += [
            bank.capability__width.eq(config.width),
            bank.capability__ports.eq(config.ports),
            bank.capability__groups.eq(config.groups),
            bank.slots__window.eq(config.window),
            bank.slots__bytes.eq(config.slot_bytes),
            bank.build__commit.eq(config.commit),
            bank.arithmetic__types.eq(sum(1 << TYPES.index(name) for name in config.types)),
            bank.arithmetic__sum.eq(SUMS.index(config.sum)),
            bank.features__counters.eq(config.counters),
        ]
        for field, number in zip(("major", "minor", "patch"), __version__.split("."), strict=True):
            m.d.comb += getattr(bank, f"version__{field}").eq(int(number))

    def _run_commands(self, m, bank):
        """Events of commands, by name."""
        config, written = self._config, bank.group_command__written
        operation, group, port = (getattr(bank, f"group_command__{field}")
                                  for field in ("op", "group", "port"))
        running, code = Signal(), Signal(4)
        command, taken = Signal(GroupCommand, reset_less=True), Signal(GroupCommand)
        takes, is_template, is_for_core, done = Signal(), Signal(), Signal(), Signal()
        bad_group, bad_port = Signal(), Signal()
        m.d.comb += [
            takes.eq(written & ~running),
            is_template.eq(operation == GroupOperation.TEMPLATE),
            is_for_core.eq(Cat(operation == each for each in GroupOperation
                               if each is not GroupOperation.TEMPLATE).any()),
            bad_group.eq(group >= config.groups),
            bad_port.eq(port >= config.ports),
            self.template_write.eq(takes & is_template & ~bad_group & ~bad_port),
            self.template_group.eq(group),
            self.template_port.eq(port),
            taken.operation.eq(operation), taken.group.eq(group), taken.port.eq(port),
            taken.offset.eq(bank.group_offset__offset),
            *(taken.context[part].eq(getattr(bank, f"{register}__{field}"))
              for register, fields in _GROUP_SHADOW.items() for field, part in fields.items()),
            *(taken.start_psn[n].eq(getattr(bank, f"start_psn_{n}__psn"))
              for n in range(config.ports)),
        ]
        # A further write changes the shadow two cycles later at the earliest.
        load_soon(m, Value.cast(command), Value.cast(taken), takes & is_for_core, name="loads",
                  reset=None)
        m.d.comb += [
            self.commands.payload.eq(command),
            done.eq(self.commands.valid & self.commands.ready),
        ]
        with m.If(done):
            m.d.sync += [running.eq(0), self.commands.valid.eq(0), code.eq(self.status)]
        with m.Else():
            m.d.sync += self.commands.valid.eq(running)
        with m.If(takes):
            with m.If(is_for_core):
                m.d.sync += running.eq(1)
            with m.Elif(~is_template):
                m.d.sync += code.eq(GroupStatus.UNKNOWN)
            with m.Elif(bad_group):
                m.d.sync += code.eq(GroupStatus.BAD_GROUP)
            with m.Elif(bad_port):
                m.d.sync += code.eq(GroupStatus.BAD_PORT)
            with m.Else():
                m.d.sync += code.eq(GroupStatus.DONE)
        for field, parts in _template_shadow().items():
            m.d.comb += self.template[field].eq(Cat(getattr(bank, part) for part in parts))
        m.d.comb += [
            bank.group_status__code.eq(code),
            bank.group_status__busy.eq(running | written),
        ]
        return {"command_done": done | (takes & ~is_for_core), "command_lost": written & running}

    def _hold(self, m, bank, event, source, fields):
        """Takes one and holds it until software has cleared ``event``; gives the event's strobe."""
        taken, held = Signal(), Signal.like(source.payload, name=f"{event}_held")
        m.d.comb += [
            source.ready.eq(~getattr(bank, f"interrupt_status__{event}")),
            taken.eq(source.valid & source.ready),
            *(getattr(bank, port).eq(held[field]) for port, field in fields.items()),
        ]
        with m.If(taken):
            m.d.sync += held.eq(source.payload)
        return taken

    def _count(self, m, bank):
        m.submodules.telemetry = telemetry = SwitchTelemetry(self._config)
        m.d.comb += telemetry.counts.eq(self.counts)
        for name, member in telemetry.signature.members.items():
            if name == "counts":
                continue
            inner, outer = getattr(telemetry, name), getattr(bank, f"counters__{name}")
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)


#: Registers of the group shadow, with their fields and where these stand in the context.
_GROUP_SHADOW = {
    "group__members": {"ports": "members", "parent": "parent"},
    "group__function": {"op": "operation", "dtype": "type"},
    "group__slots": {"base": "base", "last": "last"},
    "group__timeout": {"cycles": "timeout"},
    "group__resend": {"cycles": "resend"},
    "group__roles": {"sources": "sources", "receivers": "receivers"},
    "group__relays": {"ports": "relays"},
}


def _template_shadow():
    """The fields of a template, each with the register fields that hold it, the low one first."""
    whole = {
        "tagged": "vlan__tagged", "tci": "vlan__tci", "ipv6": "ip__ipv6", "dscp": "ip__dscp",
        "ecn": "ip__ecn", "ttl": "ip__ttl", "flow_label": "flow_label__label",
        "sport": "ports__sport", "dport": "ports__dport", "opcode": "bth__opcode",
        "pkey": "bth__pkey", "qpn": "qp__qpn", "psn": "psn__psn", "rkey": "rkey__bits",
        "src_qp": "src_qp__qpn",
    }
    parts = {field: [f"{field}_{n}__bits" for n in range(4)] for field in ("src", "dst")}
    parts |= {field: [f"{field}_{half}__bits" for half in ("low", "high")]
              for field in ("dst_mac", "src_mac", "va")}
    parts |= {field: [name] for field, name in whole.items()}
    return {field: [f"template__{name}" for name in names] for field, names in parts.items()}
