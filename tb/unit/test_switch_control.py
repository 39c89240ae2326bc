# SPDX-License-Identifier: Apache-2.0
"""SwitchControl: what its registers do; the driver of a switch over the whole control plane."""

import functools
import random
from collections import Counter

import cocotb
import harness
import pytest
from agents import AxiLite, AxiLiteError, Edges
from agents.bus import drive
from blocks import SWITCH

from flytrim import __version__
from flytrim.driver import (
    AbortedSlot,
    DeviceError,
    GroupCounters,
    Registers,
    StragglingSlot,
    Switch,
    SwitchIdentity,
    TableError,
)
from flytrim.flow_cam import FlowCommand
from flytrim.group import (
    Aborted,
    GroupCommand,
    GroupOperation,
    GroupStatus,
    Route,
    Straggler,
    Template,
)
from flytrim.groups import SwitchFile
from flytrim.model import Child, Flow, Group, Header
from flytrim.registers import load_switch
from flytrim.telemetry import SwitchCounts

LIMIT = {"timeout_time": 2, "timeout_unit": "ms"}
REGISTERS = Registers(load_switch(ports=SWITCH.ports, groups=SWITCH.groups))
#: Where the page of the switch is.
PAGE = 4096 * SWITCH.ports
NOTHING = SwitchCounts(SWITCH).const({}).as_bits()


@pytest.mark.model
def test_switch_control(control):
    assert harness.run(control, __name__) >= 15


class Bench:
    """The plane, with a core that takes its time and a list of what it was told.

    Attributes
    ----------
    commands, templates, flows : what left, each as a dict; of flows the port, too
    outcome : status of the next commands
    pause : cycles that the core takes for a command; None: for ever
    """

    def __init__(self, dut):
        self.dut, self.rng, self.edges = dut, random.Random(cocotb.RANDOM_SEED), Edges(dut)
        self.master = AxiLite(dut, "plane__bus_", self.rng)
        self.bare = AxiLite(dut, "bare__axil", self.rng)
        self.commands, self.templates, self.flows = [], [], []
        self.outcome, self.pause, self._running = GroupStatus.DONE, 3, None
        self._waited = 0
        self.drive(commands__ready=0, status=0, straggler__valid=0, aborted__valid=0,
                   counts=NOTHING)
        for n in range(SWITCH.ports):
            self.drive(**{f"flows__{n}__ready": 1, f"damaged__{n}": 0})
        self.edges.every(self._core)

    def drive(self, **values):
        for name, value in values.items():
            getattr(self.dut, f"plane__{name}").value = value

    def value(self, name):
        return int(getattr(self.dut, f"plane__{name}").value)

    def _core(self):
        if self.edges.in_reset:
            self._running = None
            self.drive(commands__ready=0)
            return
        if self.value("template_write"):
            self.templates.append((self.value("template_port"), self.value("template_group"),
                                   Template.from_bits(self.value("template"))))
        for n in range(SWITCH.ports):
            if self.value(f"flows__{n}__valid"):
                self.flows.append((n, FlowCommand.from_bits(self.value(f"flows__{n}__payload"))))
        valid, payload = self.value("commands__valid"), self.value("commands__payload")
        assert self._running is None or (valid, payload) == (1, self._running), (
            "a command changed while it ran")
        if valid and self.value("commands__ready"):
            self.commands.append(GroupCommand.from_bits(payload))
            self._running, valid = None, 0
            self.drive(commands__ready=0, status=self.rng.getrandbits(4))
        if valid:
            self._waited = self._waited + 1 if self._running is not None else 0
            self._running = payload
            if self.pause is not None and self._waited >= self.pause:
                self.drive(commands__ready=1, status=int(self.outcome))

    async def start(self):
        await self.edges.start()
        return self

    async def write(self, name, **fields):
        await self.master.write(PAGE + REGISTERS.address(name), REGISTERS.pack(name, **fields))

    async def read(self, name):
        words = [await self.master.read(PAGE + REGISTERS.address(name) + 4 * n)
                 for n in range(REGISTERS.words(name))]
        return REGISTERS.unpack(name, sum(word << 32 * n for n, word in enumerate(words)))

    async def run(self, function):
        """What a function of a :class:`Switch` returns."""
        return await drive(lambda bus: function(Switch(bus)), read=self.master.read,
                           write=self.master.write, error=AxiLiteError)

    async def offer(self, stream, payload):
        """Offer until it is taken."""
        self.drive(**{f"{stream}__valid": 1, f"{stream}__payload": payload.as_bits()})
        while True:
            await self.edges.wait()
            if self.value(f"{stream}__ready"):
                break
        self.drive(**{f"{stream}__valid": 0,
                      f"{stream}__payload": self.rng.getrandbits(len(payload.as_value()))})


def some_header(rng, **given):
    six = rng.random() < 0.5
    bits = {"src_mac": 48, "dst_mac": 48, "src": 128 if six else 32, "dst": 128 if six else 32,
            "dqpn": 24, "psn": 24, "udp_sport": 16, "udp_dport": 16, "dscp": 6, "ecn": 2, "ttl": 8,
            "flow_label": 20, "pkey": 16, "va": 64, "rkey": 32, "src_qp": 24, "pcp": 3}
    fields = {name: rng.getrandbits(width) for name, width in bits.items()}
    fields |= {name: fields[name].to_bytes(16 if six else 4, "big") for name in ("src", "dst")}
    return Header(**fields | {"opcode": rng.choice((0x04, 0x2B, 0x24)),
                              "vlan": rng.choice((None, 1, 4094))} | given)


def template_of(header):
    """What the hardware is to be told of a header, from the contract of :class:`Template`."""
    tagged = header.vlan is not None
    return {
        "dst_mac": header.dst_mac, "src_mac": header.src_mac, "tagged": tagged,
        "tci": header.pcp << 13 | (header.vlan or 0), "ipv6": header.src.version == 6,
        "src": int(header.src), "dst": int(header.dst), "dscp": header.dscp, "ecn": header.ecn,
        "ttl": header.ttl, "flow_label": header.flow_label, "sport": header.udp_sport,
        "dport": header.udp_dport, "opcode": header.opcode, "pkey": header.pkey,
        "qpn": header.dqpn, "psn": header.psn, "va": header.va,
        "rkey": header.qkey if header.opcode in (0x64, 0x65) else header.rkey,
        "src_qp": header.src_qp}


def some_group(rng, number=0, *, ports=(0, 2)):
    window = rng.choice((1, 2, 4))
    members = [Child(Flow(f"c{number}_{port}", f"10.0.{port}.1", "10.0.0.9", number), port,
                     some_header(rng), rng.getrandbits(24), relay=rng.random() < 0.5)
               for port in ports]
    parent = members.pop(rng.randrange(len(members))) if rng.random() < 0.5 else None
    roles = {role: tuple(child.port for child in members if rng.random() < 0.5)
             for role in ("sources", "receivers") if rng.random() < 0.5}
    return Group(
        name=f"g{number}", op=rng.choice(("sum", "min", "max")), dtype=rng.choice(("fp32", "bf16")),
        nan=rng.choice(("propagate", "ignore")), window=window, base=2 * window * rng.randrange(2),
        timeout=rng.getrandbits(32), children=tuple(members), parent=parent,
        resend=rng.getrandbits(32), **roles)


#: Bits of an operation, from the contract: 1 the greater one, 2 a NaN loses, 4 no sum.
OPERATIONS = {("sum", "propagate"): 0, ("sum", "ignore"): 0, ("min", "propagate"): 4,
              ("max", "propagate"): 5, ("min", "ignore"): 6, ("max", "ignore"): 7}


def check_start(command, number, group):
    """A command that starts a group is to say all of it."""
    context = command.context
    assert (command.operation, command.group) == (GroupOperation.START, number)
    ports = [child.port for child in group.children]
    masks = {"members": [member.port for member in group.members],
             "parent": [group.parent.port] if group.parent else [],
             "sources": ports if group.sources is None else group.sources,
             "receivers": ports if group.receivers is None else group.receivers,
             "relays": [member.port for member in group.members
                        if member.relay or member is group.parent]}
    for name, mask in masks.items():
        assert context[name] == sum(1 << port for port in mask), name
    assert (context.operation, context.type) == (
        OPERATIONS[group.op, group.nan],
        ("fp32", "int32", "bf16", "fp16").index(group.dtype))
    assert (context.base, context.last, context.timeout, context.resend) == (
        group.base, 2 * group.window - 1, group.timeout, group.resend)
    for child in group.members:
        assert command.start_psn[child.port] == child.start_psn
    assert all(command.start_psn[port] == 0 for port in range(SWITCH.ports, 16))


@cocotb.test(**LIMIT)
async def a_switch_says_what_it_was_built_with(dut):
    bench = await Bench(dut).start()
    identity = await bench.run(lambda switch: switch.identity)
    assert identity == SwitchIdentity(__version__, 0x89ABCDEF, 64, 3, 5, 8, 64, ("fp32", "bf16"),
                                      "fused", True)
    device = await bench.run(lambda switch: switch.port(2).identity)
    assert (device.width, device.flows, device.commit) == (64, 5, 0x89ABCDEF)
    for access in (lambda switch: switch.port(3), lambda switch: switch.forward({0: 3})):
        with pytest.raises(DeviceError, match="port 3: this switch has 3: 0 to 2"):
            await bench.run(access)


@cocotb.test(**LIMIT)
async def a_group_is_started_with_all_that_is_said_of_it(dut):
    bench = await Bench(dut).start()
    for _ in range(8):
        number = bench.rng.randrange(SWITCH.groups)
        group = some_group(bench.rng, number, ports=bench.rng.choice(((0, 1), (2,), (0, 1, 2))))
        bench.pause = bench.rng.randrange(40)
        await bench.run(lambda switch, number=number, group=group: switch.start_group(
            number, group))
        check_start(bench.commands.pop(), number, group)
    await bench.run(lambda switch: switch.stop_group(3))
    await bench.run(lambda switch: switch.flush(4, 0xABCDEF))
    stop, flush = bench.commands
    assert (stop.operation, stop.group) == (GroupOperation.STOP, 3)
    assert (flush.operation, flush.group, flush.offset) == (GroupOperation.FLUSH, 4, 0xABCDEF)


@cocotb.test(**LIMIT)
async def what_the_core_refuses_is_said(dut):
    bench = await Bench(dut).start()
    for status in GroupStatus:
        bench.outcome = status
        if status is GroupStatus.DONE:
            await bench.run(lambda switch: switch.stop_group(1))
            continue
        with pytest.raises(TableError) as error:
            await bench.run(lambda switch: switch.stop_group(1))
        assert error.value.code == status.name.lower()
        assert str(error.value).startswith("register group_status: group 1: stop is refused: ")


@cocotb.test(**LIMIT)
async def a_template_is_written_in_one_cycle_or_refused(dut):
    bench = await Bench(dut).start()
    for opcode in (None, 0x64, 0x65, 0x2A):
        header = some_header(bench.rng, qkey=0x80010000, **{"opcode": opcode} if opcode else {})
        port, group = bench.rng.randrange(SWITCH.ports), bench.rng.randrange(SWITCH.groups)
        await bench.run(functools.partial(
            Switch.set_template, port=port, group=group, header=header))
        assert bench.templates == [(port, group, Template.const(template_of(header)))]
        bench.templates.clear()
        assert await bench.run(Switch.events) == {"command_done"}
        await bench.run(lambda switch: switch.clear_events("command_done"))
    for port, group, code in ((0, SWITCH.groups, "bad_group"), (SWITCH.ports, 0, "bad_port"),
                              (15, 63, "bad_group")):
        with pytest.raises(TableError) as error:
            await bench.run(functools.partial(
                Switch.set_template, port=port, group=group, header=some_header(bench.rng)))
        assert error.value.code == code
    assert not bench.templates and not bench.commands


@cocotb.test(**LIMIT)
async def no_operation_is_refused_at_once(dut):
    bench = await Bench(dut).start()
    for operation in (0, 5, 6, 7):
        await bench.write("interrupt_status", command_done=1)
        await bench.write("group_command", op=operation)
        assert await bench.read("group_status") == {"code": GroupStatus.UNKNOWN, "busy": 0}
        assert (await bench.read("interrupt_status"))["command_done"]
    assert not bench.templates and not bench.commands


@cocotb.test(**LIMIT)
async def a_command_holds_still_and_those_behind_it_are_lost(dut):
    bench = await Bench(dut).start()
    bench.pause = None
    await bench.write("group.timeout", cycles=7)
    await bench.write("group_command", op=GroupOperation.START, group=1)
    for name in ("group.members", "group.function", "group.slots", "group.timeout", "start_psn[0]",
                 "group_offset"):
        address = PAGE + REGISTERS.address(name)
        await bench.master.write(address, bench.rng.getrandbits(32))
    for operation in (GroupOperation.STOP, GroupOperation.TEMPLATE, 0):
        await bench.write("interrupt_status", command_lost=1)
        assert (await bench.read("group_status"))["busy"]
        await bench.write("group_command", op=operation, group=2)
        assert await bench.read("interrupt_status") == {
            "command_done": 0, "command_lost": 1, "straggler": 0, "aborted": 0, "ports": 0}
    bench.pause, bench.outcome = 0, GroupStatus.RUNNING
    await bench.edges.wait(5)
    assert await bench.read("group_status") == {"code": GroupStatus.RUNNING, "busy": 0}
    assert (await bench.read("interrupt_status"))["command_done"]
    command, = bench.commands
    assert (command.operation, command.group, command.context.timeout) == (
        GroupOperation.START, 1, 7)
    assert not bench.templates


@cocotb.test(**LIMIT)
async def reset_ends_a_command(dut):
    bench = await Bench(dut).start()
    bench.pause = None
    await bench.write("group_command", op=GroupOperation.STOP)
    await bench.edges.wait(3)
    assert bench.value("commands__valid")
    await bench.edges.reset()
    await bench.edges.wait()
    assert not bench.value("commands__valid")
    bench.pause = 2
    await bench.run(lambda switch: switch.stop_group(2))
    assert [command.group for command in bench.commands] == [2]


@cocotb.test(**LIMIT)
async def forwarding_is_as_it_was_written(dut):
    bench = await Bench(dut).start()
    for routes in ({0: 2, 1: 0}, {2: 2}, {}, {0: 1, 1: 2, 2: 0}):
        await bench.run(lambda switch, routes=routes: switch.forward(routes))
        width = 5
        for port in range(SWITCH.ports):
            route = Route.from_bits(bench.value("forward") >> width * port & (1 << width) - 1)
            assert route.enable == (port in routes)
            assert not route.enable or route.port == routes[port]


@cocotb.test(**LIMIT)
@cocotb.parametrize(event=["straggler", "aborted"])
async def the_next_one_waits_until_software_has_cleared_the_last(dut, event):
    bench = await Bench(dut).start()
    shape, names = {"straggler": (Straggler, ("group", "offset", "missing")),
                    "aborted": (Aborted, ("group", "offset", "cause"))}[event]
    expected = []

    async def offer():
        for _ in range(12):
            group, offset = bench.rng.randrange(64), bench.rng.getrandbits(24)
            last = bench.rng.getrandbits(16) if event == "straggler" else bench.rng.choice((1, 2))
            expected.append((group, offset, last))
            await bench.offer(event, shape.const(dict(zip(names, expected[-1], strict=True))))
            await bench.edges.wait(bench.rng.choice((0, 0, 30)))

    assert await bench.run(getattr(Switch, event)) is None
    await bench.run(lambda switch: switch.enable_events(event))
    task, found = cocotb.start_soon(offer()), []
    while len(found) < 12:
        assert len(expected) - len(found) <= 2
        slot = await bench.run(getattr(Switch, event))
        if slot is None:
            continue
        found.append(slot)
    await task
    if event == "straggler":
        assert found == [StragglingSlot(group, offset, tuple(
            port for port in range(16) if missing >> port & 1))
            for group, offset, missing in expected]
    else:
        assert found == [AbortedSlot(group, offset, {1: "lengths", 2: "parity"}[cause])
                         for group, offset, cause in expected]
    assert not await bench.run(Switch.events)


@cocotb.test(**LIMIT)
async def the_interrupt_is_high_while_an_event_is_enabled(dut):
    bench = await Bench(dut).start()

    async def irq():
        await bench.edges.wait(4)
        return bench.value("irq")

    await bench.write("group_command", op=0)
    assert not await irq()
    await bench.write("interrupt_enable", command_done=1)
    assert await irq()
    await bench.write("interrupt_status", command_done=1)
    assert not await irq()
    # An event of a port is enabled there, and the port is enabled here.
    for port in range(SWITCH.ports):
        bench.drive(**{f"damaged__{port}": 1})
        await bench.edges.wait()
        bench.drive(**{f"damaged__{port}": 0})
        await bench.run(lambda switch, port=port: switch.port(port).enable_events("damaged"))
        assert (await bench.read("interrupt_status"))["ports"] == 1 << port
        assert not await irq()
        await bench.write("interrupt_enable", ports=1 << port)
        assert await irq()
        await bench.run(lambda switch, port=port: switch.port(port).clear_events("damaged"))
        assert not await irq() and not (await bench.read("interrupt_status"))["ports"]


@cocotb.test(**LIMIT)
@cocotb.parametrize(rate=[0.1, 1.0])
async def everything_is_counted(dut, rate):
    bench = await Bench(dut).start()
    strobes = "contribution", "duplicate", "out_of_window", "bounds", "replay", "result"
    outcomes, flags = ("result", "aborted", "flushed"), ("inexact", "overflow", "invalid")
    counted, in_use, most = Counter(), 0, 0
    for clears in (False, True, False):
        if clears:
            await bench.run(Switch.clear_counters)
            counted.clear()
            most = in_use
        for _ in range(300):
            def happens(*what):
                happened = bench.rng.random() < rate
                counted[what] += happened
                return int(happened)

            def happen(flag):
                many = sum(bench.rng.random() < rate for _ in range(SWITCH.ports // 2))
                counted[flag,] += many
                return many

            in_use = bench.rng.randrange(2 * SWITCH.window + 1)
            most = max(most, in_use)
            ports = [{name: happens("port", port, name) for name in strobes}
                     for port in range(SWITCH.ports)]
            groups = [{name: happens("group", group, name) for name in outcomes}
                      for group in range(SWITCH.groups)]
            counts = SwitchCounts(SWITCH).const(
                {"ports": ports, "groups": groups, "in_use": in_use,
                 **{flag: happen(flag) for flag in flags}})
            bench.drive(counts=counts.as_bits())
            await bench.edges.wait()
        idle = SwitchCounts(SWITCH).const({"in_use": in_use}).as_bits()
        bench.drive(counts=idle)
        await bench.edges.wait(20)
        found = await bench.run(Switch.counters)
        for port, counters in enumerate(found.ports):
            assert counters == tuple(counted["port", port, name] for name in strobes), port
        assert (found.inexact, found.overflow, found.invalid) == tuple(
            counted[flag,] for flag in flags)
        assert (found.in_use, found.most_in_use) == (in_use, most)
        for group in range(SWITCH.groups):
            assert await bench.run(lambda switch, group=group: switch.group_counters(
                group)) == GroupCounters(*(counted["group", group, name] for name in outcomes))


@cocotb.test(**LIMIT)
async def a_switch_that_does_not_count_says_so_and_refuses_its_counters(dut):
    bench = await Bench(dut).start()
    assert not await bench.bare.read(REGISTERS.address("features"))
    counters = [name for name in REGISTERS if name.startswith("counters.")]
    assert len(counters) > 40
    for name in counters:
        with pytest.raises(AxiLiteError, match="answered 2"):
            await bench.bare.read(REGISTERS.address(name))
    await bench.bare.write(REGISTERS.address("forward[2]"), 1 << 8 | 1)
    assert int(dut.bare__forward.value) == (1 << 4 | 1) << 10


@cocotb.test(**LIMIT)
async def a_file_is_written_whole(dut):
    bench = await Bench(dut).start()
    groups = [some_group(bench.rng, 0, ports=(0, 1, 2)), some_group(bench.rng, 1, ports=(1, 2))]
    file = SwitchFile(SWITCH, tuple(groups), {0: 1}, 250)
    await bench.run(lambda switch: switch.configure(file))
    for (number, group), command in zip(enumerate(groups), bench.commands, strict=True):
        check_start(command, number, group)
    assert bench.templates == [
        (child.port, number, Template.const(template_of(child.header)))
        for number, group in enumerate(groups) for child in group.members]
    assert [(port, command.operation, command.flow, command.key.src) for port, command
            in bench.flows] == [(child.port, 1, number, int(child.flow.src))
                                for number, group in enumerate(groups)
                                for child in group.members]
