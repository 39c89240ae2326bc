# SPDX-License-Identifier: Apache-2.0
"""The driver of a switch over a file: where things are, and what is no switch.

What it makes the hardware do is in :mod:`test_switch_control`.
"""

import dataclasses
import re
import struct
from pathlib import Path

import pytest
from bar import OFFSET, write_bar, write_switch_bar

from flytrim import __version__, groups
from flytrim.config import SwitchConfig
from flytrim.driver import Device, DeviceError, MappedFile, Registers, Switch, SwitchIdentity
from flytrim.errors import InputError
from flytrim.group import AbortCause, GroupOperation, GroupStatus
from flytrim.model import Flow, Header
from flytrim.registers import load_switch

CONFIG = SwitchConfig(ports=5, width=128, groups=7, window=32, slot_bytes=512, sum="exact",
                      types=("int32", "fp16"), commit=0xCAFE)
IDENTITY = SwitchIdentity(__version__, 0xCAFE, 128, 5, 7, 32, 512, ("int32", "fp16"), "exact", True)
HEADER = Header(src_mac=1, dst_mac=0x0200_0000_0001, src="10.0.0.9", dst="10.0.0.1", dqpn=0x123456)
REGISTERS = Registers(load_switch(ports=5, groups=7))


@pytest.fixture
def bar(tmp_path):
    return write_switch_bar(tmp_path / "resource0", CONFIG)


def word(bar, page, address):
    return struct.unpack_from("<I", bar.read_bytes(), OFFSET + 4096 * page + address)[0]


def test_pages_are_those_of_the_ports_and_of_the_switch(bar):
    with Switch.open(bar, offset=OFFSET) as switch:
        assert switch.identity == IDENTITY
        assert [switch.port(n).identity.flows for n in range(5)] == [7] * 5
        switch.port(3).insert_flow(6, Flow("a", "10.0.0.1", "10.0.0.9", 0x654321))
        switch.set_template(2, 6, HEADER)
        switch.forward({1: 4})
    port = Registers()
    assert [word(bar, page, port.address("flow.qp")) for page in range(5)] == [0, 0, 0, 0x654321, 0]
    assert word(bar, 5, REGISTERS.address("template.qp")) == 0x123456
    assert word(bar, 5, REGISTERS.address("template.dst_mac_high")) == 0x0200
    assert word(bar, 5, REGISTERS.address("group_command")) == 4 << 16 | 2 << 8 | 6
    assert word(bar, 5, REGISTERS.address("forward[1]")) == 1 << 8 | 4
    assert bar.read_bytes()[:OFFSET] == b"\xa5" * OFFSET


def test_a_port_is_a_device_by_its_offset(bar):
    with Device.open(bar, offset=OFFSET + 2 * 4096) as device:
        assert device.identity.flows == 7
    with (pytest.raises(DeviceError, match="register id reads 0x464c5953, not 0x464c5954"),
          Device.open(bar, offset=OFFSET + 5 * 4096)):
        pass


def test_what_is_no_switch_is_refused(bar, tmp_path):
    with (pytest.raises(DeviceError, match=(
            r"resource0: register id of page 0 reads 0xa5a5a5a5, not 0x464c5953: this is no "
            r"flytrim switch")), Switch.open(bar)):
        pass
    nic = write_bar(tmp_path / "nic")
    with (pytest.raises(DeviceError, match=(
            r"nic: register id: 0x1000 is beyond the 4,096 bytes that can be mapped; a switch has "
            r"registers of its own behind those of its ports, and this is none")),
            Switch.open(nic, offset=OFFSET)):
        pass
    with (pytest.raises(InputError, match="none: cannot be opened as a device"),
          Switch.open(tmp_path / "none")):
        pass


def test_there_are_no_more_ports_than_a_switch_can_have(tmp_path):
    path = tmp_path / "ports"
    one = write_bar(tmp_path / "one").read_bytes()[OFFSET:]
    path.write_bytes(one * 17)
    with (pytest.raises(DeviceError, match="register id of page 16 reads 0x464c5954"),
          Switch.open(path)):
        pass


def test_what_a_switch_does_not_have_is_said(tmp_path):
    bar = write_switch_bar(tmp_path / "plain", dataclasses.replace(CONFIG, counters=False))
    with Switch.open(bar, offset=OFFSET) as switch:
        for access in (switch.counters, switch.clear_counters, lambda: switch.group_counters(0),
                       lambda: switch.read("counters.inexact")):
            with pytest.raises(DeviceError, match="^register features: this device was built wi"):
                access()
        with pytest.raises(DeviceError, match=r"^no register 'start_psn\[5\]'"):
            switch.write("start_psn[5]", psn=0)
        with pytest.raises(DeviceError, match="^port 5: this switch has 5: 0 to 4$"):
            switch.port(5)
        assert "straggler" in list(switch) and "counters.inexact" not in list(switch)


def test_a_group_that_it_does_not_have_has_no_counters(bar):
    with Switch.open(bar, offset=OFFSET) as switch:
        assert switch.group_counters(6) == (0, 0, 0)
        with pytest.raises(DeviceError, match="^group 7: this switch has 7: 0 to 6$"):
            switch.group_counters(7)


def test_a_switch_that_stays_busy_is_given_up(bar):
    page = OFFSET + 5 * 4096
    with MappedFile(bar, offset=page) as bus:
        bus.write(REGISTERS.address("group_status"), REGISTERS.pack("group_status", busy=1))
    with (Switch.open(bar, offset=OFFSET) as switch,
          pytest.raises(DeviceError, match="register group_status: stays busy for 10,000 reads")):
        switch.stop_group(0)


def test_names_of_operations_and_outcomes_are_those_of_the_hardware():
    for operation in GroupOperation:
        assert REGISTERS.value("group_command", "op", operation.name.lower()) == operation
    for status in GroupStatus:
        assert REGISTERS.choice("group_status", "code", status).name == status.name.lower()
    for cause in AbortCause:
        assert REGISTERS.choice("aborted", "cause", cause).name == cause.name.lower()


def test_the_file_and_the_program_on_the_page_work(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "fpga" / "switch.md").read_text()
    text, script = (re.search(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
                    for language in ("toml", "python"))
    monkeypatch.chdir(tmp_path)
    Path("flows.toml").write_text(text)
    config = groups.load("flows.toml").config
    padded = write_switch_bar(tmp_path / "padded", config)
    Path("bar").write_bytes(padded.read_bytes()[OFFSET:])
    exec(re.sub(r'"/sys/[^"]*"', '"bar"', script), {})
    registers = Registers(load_switch(ports=2, groups=16))
    with MappedFile("bar", offset=2 * 4096) as bus:
        last = {name: registers.unpack(name, bus.read(registers.address(name)))
                for name in ("group.members", "group.slots", "template.qp", "group_command",
                             "forward[0]")}
    assert last == {"group.members": {"ports": 3, "parent": 0},
                    "group.slots": {"base": 0, "last": 255},
                    "template.qp": {"qpn": 0x21},
                    "group_command": {"group": 0, "port": 0, "op": GroupOperation.START},
                    "forward[0]": {"port": 1, "enable": 1}}
