# SPDX-License-Identifier: Apache-2.0
"""The driver does the same whatever lies between it and the device."""

import dataclasses
import random
import struct

import cocotb
import harness
import pytest
from agents import AxiLite, AxiLiteError, Edges
from agents.bus import drive
from bar import CONFIG, OFFSET, told, write_bar
from bench import config_of_run
from running import running

from flytrim import __version__
from flytrim.driver import (
    Count,
    Counters,
    Device,
    DeviceError,
    FlowCounters,
    MappedFile,
    Registers,
    SocketBus,
    TableError,
    flow_fields,
)
from flytrim.errors import InputError
from flytrim.flow_cam import FlowOperation, FlowStatus
from flytrim.model import Flow
from flytrim.sim.build import build, device_verilog
from flytrim.sim.replay import Replay
from flytrim.verdict import Reason

A, B = (Flow(name=name, src="10.0.0.1", dst="10.0.0.9", dqpn=dqpn, message_bytes=4)
        for name, dqpn in (("a", 0x11), ("b", 0x12)))
SIX = Flow(name="six", src="fd00::1", dst="fd00::9", dqpn=0x11, udp_sport=7, vlan=100)


#: Registers that read otherwise in a file, which only holds what is written.
ACTING = {"flow_status", "interrupt_status", "counters.command"}


def script(bus):
    """What any device answers that takes these flows."""
    device = Device(bus)
    device.insert_flows([A, SIX])
    device.replace_flow(0, B)
    device.remove_flow(1)
    device.insert_flow(1, SIX)
    flows = [device.read_flow(1, "six")]
    device.disable_flow(1)
    flows.append(device.read_flow(1, "six"))
    device.enable_flow(1)
    flows.append(device.read_flow(1, "six"))
    device.restart_flow(1)
    device.enable_events("overflow", "damaged")
    device.clear_events("overflow")
    device.clear_counters()
    return {"identity": device.identity, "flows": flows, "counters": device.counters(),
            "flow_counters": device.flow_counters(1),
            **{name: device.read(name) for name in Registers() if name not in ACTING}}


def refusals(bus):
    """What a device with a flow table refuses: the outcome, and what is said of it."""
    device = Device(bus)
    device.insert_flow(0, A)
    refused = []
    for method, *arguments in (
            (device.insert_flow, 0, B), (device.insert_flow, 1, A),
            (device.insert_flow, device.identity.flows, B),
            (device.insert_flow, 1, Flow(**vars(A) | {"vlan": 5})),
            (device.replace_flow, 1, B), (device.remove_flow, 1), (device.read_flow, 1),
            (device.restart_flow, 1)):
        with pytest.raises(TableError) as error:
            method(*arguments)
        refused.append((error.value.code, str(error.value)))
    with pytest.raises(DeviceError, match="^register max_frame: "):
        device.write("max_frame")
    device.remove_flow(0)
    return refused


REFUSED = [
    ("occupied", 'flow 0, "b": insert is refused: The number is taken by another flow.'),
    ("duplicate", 'flow 1, "a": insert is refused: The key is registered under another number.'),
    ("bad_number", f'flow {CONFIG.flows}, "b": insert is refused: The table has no such number.'),
    ("overlap", ('flow 1, "a": insert is refused: The key differs from a registered one in VLAN '
                 "or source port only.")),
    ("empty", 'flow 1, "b": replace is refused: The number has no flow.'),
    *(("empty", f"flow 1: {operation} is refused: The number has no flow.")
      for operation in ("delete", "read", "restart")),
]


def expected(config):
    """What ``script`` finds."""
    registers = Registers()
    words = {name: {field: reset or 0 for field, reset in registers.reset(name).items()}
             for name in registers if name not in ACTING}
    words |= told(config)
    words["interrupt_enable"] |= {"overflow": 1, "damaged": 1}
    for name, fields in flow_fields(SIX).items():
        words[name] = registers.unpack(name, registers.pack(name, **fields))
    words["flow_command"] = {"flow": 1, "op": FlowOperation.READ}
    nothing = Counters(
        Count(0, 0), dict.fromkeys(Reason, Count(0, 0)),
        dict.fromkeys(("header", "payload", "cut", "tail"), 0), None, (0,) * 16,
        dict.fromkeys(("trim", "bypass", "meta"), 0),
        {"trim": config.queue_beats, "bypass": config.queue_beats, "meta": config.queue_records})
    identity = __version__, config.commit, config.width, config.flows, config.max_frame, True
    return {"identity": identity, "flows": [SIX, dataclasses.replace(SIX, disabled=True), SIX],
            "counters": nothing, "flow_counters": FlowCounters(0, 0), **words}


@pytest.mark.model
def test_over_the_replay_harness():
    with Replay(build(CONFIG, device_verilog(CONFIG))) as replay:
        replay.reset()
        assert script(replay) == expected(CONFIG)
        replay.reset()
        assert refusals(replay) == [(code, f"register flow_status: {text}")
                                    for code, text in REFUSED]


def _without_counters(found):
    return {name: value for name, value in found.items() if not name.startswith("counters")}


@pytest.mark.model
def test_over_a_running_simulation(tmp_path):
    path = tmp_path / "registers"
    with running(build(CONFIG, device_verilog(CONFIG)), path), SocketBus(path) as bus:
        # Its frames are none of these flows', and are counted.
        assert _without_counters(script(bus)) == _without_counters(expected(CONFIG))
        counters = Device(bus).counters()
        assert counters.received.frames > 0 == counters.reasons[Reason.NONE].frames
        Device(bus).remove_flow(0)
        Device(bus).remove_flow(1)
        assert [code for code, _ in refusals(bus)] == [code for code, _ in REFUSED]


@pytest.mark.model
def test_over_a_simulated_port(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) == 1


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def the_driver_works_over_a_simulated_port(dut):
    config, edges = config_of_run(), Edges(dut)
    master = AxiLite(dut, "s_axil", random.Random(cocotb.RANDOM_SEED))
    access = {"read": master.read, "write": master.write, "error": AxiLiteError}
    await edges.start()
    assert await drive(script, **access) == expected(config)
    await edges.reset()
    codes = [code for code, _ in await drive(refusals, **access)]
    assert codes == [code for code, _ in REFUSED]


@pytest.fixture
def bar(tmp_path):
    return write_bar(tmp_path / "resource0")


def test_over_a_file(bar):
    with MappedFile(bar, offset=OFFSET) as bus:
        assert script(bus) == expected(CONFIG)
    words = bar.read_bytes()
    assert words[:OFFSET] == b"\xa5" * OFFSET
    registers, at = Registers(), OFFSET + Registers().address("flow.qp")
    assert words[at:at + 4] == struct.pack("<I", registers.pack("flow.qp", qpn=SIX.dqpn))
    with Device.open(bar, offset=OFFSET) as device:
        assert device.identity.width == CONFIG.width


def test_what_is_no_device_is_refused(bar, tmp_path):
    with (pytest.raises(DeviceError, match=r"resource0: register id reads 0xa5a5a5a5, not "
                        r"0x464c5954: this is no flytrim device"), Device.open(bar)):
        pass
    with (pytest.raises(InputError, match="none: cannot be opened as a device: No such file"),
          Device.open(tmp_path / "none")):
        pass
    for offset in (8192, 16):
        with (pytest.raises(InputError, match="resource0: cannot be mapped"),
              Device.open(bar, offset=offset)):
            pass


def test_a_fault_names_the_register(bar):
    with Device.open(bar, offset=OFFSET) as device:
        for fault, access in (
                (r"no register 'flow\.pq'", lambda: device.read("flow.pq")),
                (r"register flow\.qp has no field pqn: it has qpn$",
                 lambda: device.write("flow.qp", pqn=1)),
                (r"flow\.qp\.qpn is a whole number, not 1\.5",
                 lambda: device.write("flow.qp", qpn=1.5)),
                (r"register interrupt_status has no field nope: it has ",
                 lambda: device.wait_for("nope")),
                (r"flow\.qp\.qpn has 24 bits: 0x1000000 does not fit",
                 lambda: device.write("flow.qp", qpn=1 << 24))):
            with pytest.raises(DeviceError, match=f"^{fault}"):
                access()


def test_what_a_device_does_not_have_is_said(tmp_path):
    bar = write_bar(tmp_path / "plain", dataclasses.replace(CONFIG, counters=False))
    with Device.open(bar, offset=OFFSET) as device:
        assert not device.identity.counters
        for access in (device.counters, device.clear_counters, lambda: device.flow_counters(0)):
            with pytest.raises(DeviceError, match="^register features: this device was built wi"):
                access()


def test_events_are_waited_for_and_cleared(bar):
    registers = Registers()
    with MappedFile(bar, offset=OFFSET) as bus:
        device, address = Device(bus), registers.address("interrupt_status")
        assert device.events() == set()
        with pytest.raises(DeviceError, match=r"register interrupt_status: no damaged in 0\.01 s"):
            device.wait_for("damaged", seconds=0.01)
        bus.write(address, registers.pack("interrupt_status", damaged=1, command_done=1))
        assert device.wait_for("damaged", "overflow") == {"damaged"}
        assert device.events() == {"damaged", "command_done"}
        # A one clears: none must be written for an event that was not named.
        for clear in (device.clear_events,
                      lambda name: device.change("interrupt_status", **{name: 1})):
            bus.write(address, registers.pack("interrupt_status", damaged=1, command_done=1))
            clear("damaged")
            assert bus.read(address) == registers.pack("interrupt_status", damaged=1)


def test_a_table_that_stays_busy_is_given_up(bar):
    registers = Registers()
    with MappedFile(bar, offset=OFFSET) as bus:
        bus.write(registers.address("flow_status"), registers.pack("flow_status", busy=1))
        with pytest.raises(DeviceError, match="register flow_status: stays busy for 10,000 reads"):
            Device(bus).insert_flow(0, A)


def test_names_of_operations_and_outcomes_are_those_of_the_hardware():
    registers = Registers()
    for operation in FlowOperation:
        assert registers.value("flow_command", "op", operation.name.lower()) == operation
    for status in FlowStatus:
        assert registers.choice("flow_status", "code", status).name == status.name.lower()
    assert registers.choice("flow_status", "code", 15).name == "unknown_15"
