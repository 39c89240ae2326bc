# SPDX-License-Identifier: Apache-2.0
"""FLOWS.toml: what is read, what is refused and in which words, and the writes that follow."""

import ipaddress

import pytest

from flytrim import flows
from flytrim.driver import Registers, flow_fields
from flytrim.errors import InputError
from flytrim.model import Flow

W0 = """
[[flow]]
name = "w0"
src = "10.0.0.1"
dst = "10.0.0.9"
dqpn = 0x11
"""

OVERLAP = ('flow "w1": overlaps flow "w0", they differ only in vlan or udp_sport: give one another '
           'dqpn or remove it')
OF_A_SWITCH = "is for a switch: run it with flytrim sim --top switch, or"


@pytest.fixture
def load(tmp_path):
    def load(text):
        path = tmp_path / "flows.toml"
        path.write_text(text)
        return flows.load(path)
    return load


def fault(load, text):
    """The message without the file name that begins it."""
    with pytest.raises(InputError) as caught:
        load(text)
    message = str(caught.value)
    assert "\n" not in message
    file, _, rest = message.partition("flows.toml: ")
    assert rest, f"{message!r} does not name the file"
    return rest


def test_reads_a_flow_with_its_defaults(load):
    setup = load(W0)
    [flow] = setup.flows
    assert (flow.name, flow.dqpn, flow.udp_dport) == ("w0", 0x11, 4791)
    assert flow.src == ipaddress.ip_address("10.0.0.1")
    assert (flow.udp_sport, flow.vlan, flow.message_bytes) == (None, None, None)
    assert (flow.icrc, flow.excess) == ("check", "bypass")
    assert (setup.config.width, setup.config.max_frame, setup.clock_mhz) == (512, 9216, 250)


def test_reads_the_device_and_every_key(load):
    setup = load("""
        [device]
        width = 64
        clock_mhz = 156.25
        max_frame = 2048
        [[flow]]
        name = "six"
        src = "2001:db8::1"
        dst = "2001:db8::2"
        dqpn = 0xFFFFFF
        action = "trim"
        udp_dport = 4793
        udp_sport = 0
        vlan = 100
        icrc = "ignore"
        message_bytes = 4
        excess = "cut"
    """)
    [flow] = setup.flows
    assert (setup.config.width, setup.config.max_frame, setup.clock_mhz) == (64, 2048, 156.25)
    assert (flow.udp_sport, flow.vlan, flow.message_bytes, flow.excess) == (0, 100, 4, "cut")
    assert flow.icrc == "ignore"


@pytest.mark.parametrize(("text", "message"), [
    ("", "no flow is registered: add a [[flow]]"),
    ("[devise]", 'unknown key "devise": did you mean "device"?'),
    ("device = 3", "device must be a table: write [device]"),
    ("[flow]", "flow must be a list of tables: write [[flow]]"),
    ("[[group]]", f"[[group]] {OF_A_SWITCH} remove it"),
    *((f"[device]\n{key} = 4", f"[device]: {key} {OF_A_SWITCH} remove it")
      for key in ("ports", "groups", "window", "slot_bytes", "forward")),
    ("[device]\nwidth = 48" + W0,
     "[device]: width = 48: must be 64, 128, 256, 512 or 1024 bits"),
    ("[device]\nwidht = 64" + W0, '[device]: unknown key "widht": did you mean "width"?'),
    ("[device]\nmax_frame = 9217" + W0,
     "[device]: max_frame = 9217: must be 1514 to 9216 bytes"),
    ("[device]\nclock_mhz = 0" + W0,
     "[device]: clock_mhz = 0: must be a clock in MHz, above 0 and up to 10000"),
    ('[[flow]]\nsrc = "10.0.0.1"',
     "[[flow]] 1: name is missing: it must be 1 to 64 letters, digits, '_', '-' or '.', in quotes"),
    ('[[flow]]\nname = "a/b"',
     """flow "a/b": name = "a/b": must be 1 to 64 letters, digits, '_', '-' or '.', in quotes"""),
    (W0.replace("dqpn = 0x11", ""),
     'flow "w0": dqpn is missing: it must be the destination queue pair, 0 to 0xffffff'),
    (W0.replace("0x11", "0x1000000"),
     'flow "w0": dqpn = 16777216: must be the destination queue pair, 0 to 0xffffff'),
    (W0.replace("0x11", "true"),
     'flow "w0": dqpn = true: must be the destination queue pair, 0 to 0xffffff'),
    (W0.replace("0x11", '"17"'),
     'flow "w0": dqpn = "17": must be the destination queue pair, 0 to 0xffffff'),
    (W0.replace("10.0.0.1", "10.0.0.256"),
     'flow "w0": src = "10.0.0.256": must be an IPv4 or IPv6 address such as "10.0.0.1"'),
    (W0.replace("10.0.0.1", "fe80::1%eth0"),
     'flow "w0": src = "fe80::1%eth0": must be an IPv4 or IPv6 address such as "10.0.0.1"'),
    (W0.replace('"10.0.0.1"', "10"),
     'flow "w0": src = 10: must be an IPv4 or IPv6 address such as "10.0.0.1"'),
    (W0.replace("10.0.0.9", "2001:db8::9"),
     ('flow "w0": src = "10.0.0.1" and dst = "2001:db8::9" are of two IP versions: give both as '
      'IPv4 or both as IPv6')),
    (W0.replace("dqpn", "dqnp"), 'flow "w0": unknown key "dqnp": did you mean "dqpn"?'),
    (W0 + "udp_dprot = 4791", 'flow "w0": unknown key "udp_dprot": did you mean "udp_dport"?'),
    (W0 + "udp_dport = 0", 'flow "w0": udp_dport = 0: must be a UDP port, 1 to 65535'),
    (W0 + "udp_sport = 65536", 'flow "w0": udp_sport = 65536: must be a UDP port, 0 to 65535'),
    (W0 + "vlan = 4095", 'flow "w0": vlan = 4095: must be a VLAN ID, 0 to 4094'),
    (W0 + "message_bytes = 0",
     'flow "w0": message_bytes = 0: must be 1 to 2147483648 bytes'),
    (W0 + 'excess = "drop"', 'flow "w0": excess = "drop": must be "bypass" or "cut"'),
    (W0 + 'excess = "cut"',
     'flow "w0": excess = "cut" has no length to cut to: add message_bytes'),
    (W0 + 'icrc = "verify"', 'flow "w0": icrc = "verify": must be "check" or "ignore"'),
    (W0 + "icrc = true", 'flow "w0": icrc = true: must be "check" or "ignore"'),
    (W0 + 'action = "reduce"', f'flow "w0": action = "reduce" {OF_A_SWITCH} write "trim"'),
    *((W0 + f"{key} = 1", f'flow "w0": {key} {OF_A_SWITCH} remove it')
      for key in ("port", "start_psn", "header")),
    (W0 + 'action = "reassemble"',
     'flow "w0": action = "reassemble" needs a later version: write "trim"'),
    (W0 + 'action = "pass"', 'flow "w0": action = "pass": must be "trim"'),
    *((W0 + f"{key} = 1", f'flow "w0": {key} needs a later version: remove it')
      for key in ("path_mtu", "order", "buffer", "lean_id", "flush_ns")),
    (W0 + W0, '[[flow]] 2: name = "w0" is taken by [[flow]] 1: choose another'),
    (W0 + W0.replace("w0", "w1"),
     ('flow "w1": has the key of flow "w0" (10.0.0.1 to 10.0.0.9, port 4791, QP 0x11): '
      'remove one')),
    (W0 + W0.replace("w0", "w1") + "vlan = 3", OVERLAP),
    (W0 + "udp_sport = 1" + W0.replace("w0", "w1") + "udp_sport = 2", OVERLAP),
])
def test_refuses_with_entry_value_and_remedy(load, text, message):
    assert fault(load, text) == message


def test_what_is_written_of_a_flow_reads_as_that_flow(load):
    written = [
        Flow("w0", "10.0.0.1", "10.0.0.9", 0x11),
        Flow("w" * 64, "fd00::1", "fd00::9", 0xFFFFFF, udp_dport=4793, udp_sport=0, vlan=0,
             message_bytes=4, excess="cut", icrc="ignore"),
    ]
    assert list(load("\n".join(map(flows.flow_toml, written))).flows) == written
    assert flows.flow_toml(written[0]) == W0.lstrip() + 'action = "trim"\n'


def test_takes_as_many_flows_as_the_table_has_entries_and_no_more(load):
    def text(count):
        return "".join(W0.replace("w0", f"w{n}").replace("0x11", str(n)) for n in range(count))
    assert len(load(text(64)).flows) == 64
    assert fault(load, text(66)) == (
        "[[flow]] 65: the flow table has 64 entries and the file 66 flows: remove 2, or ask for a "
        "larger table with 'flows = 4096' in [device]")
    assert load("[device]\nflows = 128\n" + text(66)).config.hashed
    assert fault(load, "[device]\nflows = 100\n" + text(66)) == (
        "[device]: flows must be 1 to 64, or a power of two from 128 to 65536, not 100")


def test_refuses_what_is_no_toml_and_what_is_not_there(load, tmp_path):
    assert fault(load, "flow = ").startswith("is not TOML: ")
    with pytest.raises(InputError, match=r"none\.toml: cannot be read: No such file"):
        flows.load(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"binary\.toml: is not TOML"):
        flows.load(tmp_path / "binary.toml")


def test_a_flow_becomes_the_fields_of_its_registers(load):
    device = Registers()
    setup = load(W0 + "udp_sport = 7\nvlan = 100\nmessage_bytes = 4\nexcess = 'cut'\n"
                 "icrc = 'ignore'\n"
                 + W0.replace("w0", "six").replace("10.0.0.", "2001:db8::"))
    first, second = map(flow_fields, setup.flows)
    assert {device.address(name) for name in first} == set(range(0x100, 0x130, 4))
    assert [first[f"flow.src[{n}]"]["bits"] for n in range(4)] == [0x0A000001, 0, 0, 0]
    assert first["flow.ports"] == {"dport": 4791, "sport": 7}
    assert first["flow.options"] == {"ipv6": 0, "check_vlan": 1, "check_sport": 1, "check_icrc": 0,
                                     "check_length": 1, "cut": 1, "disabled": 0, "vlan": 100}
    assert (first["flow.qp"], first["flow.message"]) == ({"qpn": 0x11}, {"bytes": 4})
    assert [second[f"flow.dst[{n}]"]["bits"] for n in range(4)] == [9, 0, 0, 0x20010DB8]
    assert (second["flow.options"]["ipv6"], second["flow.options"]["check_icrc"]) == (1, 1)


def test_a_register_refuses_values_and_names_that_do_not_fit():
    device = Registers()
    with pytest.raises(ValueError, match=r"flow\.qp\.qpn has 24 bits: 0x1000000 does not fit"):
        device.pack("flow.qp", qpn=1 << 24)
    with pytest.raises(KeyError, match=r"register flow\.qp has no field pqn"):
        device.pack("flow.qp", pqn=1)
    with pytest.raises(KeyError, match="no register 'flow.pq'"):
        device.address("flow.pq")
