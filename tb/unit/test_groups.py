# SPDX-License-Identifier: Apache-2.0
"""FLOWS.toml of a switch: what is read, what is refused and in which words."""

import ipaddress
import random

import pytest

from flytrim import groups
from flytrim.config import SwitchConfig
from flytrim.errors import InputError
from flytrim.model import Header


def flow(name, port, more="", header="", **changes):
    fields = {"src": f'"10.0.0.{port + 1}"', "dst": '"10.0.0.9"', "dqpn": "0x11",
              "action": '"reduce"'} | changes
    return "\n".join((
        "[[flow]]", f'name = "{name}"', f"port = {port}",
        *(f"{key} = {value}" for key, value in fields.items() if value), more, "[flow.header]",
        'src_mac = "02:00:00:00:00:09"', f'dst_mac = "02:00:00:00:00:0{port + 1}"', "dqpn = 0x21",
        header, ""))


def group(name, *children, more=""):
    return f"[[group]]\nname = \"{name}\"\nchildren = {[*children]}\n{more}\n"


PAIR = flow("w0", 0) + flow("w1", 1)
G0 = group("g0", "w0", "w1")


@pytest.fixture
def load(tmp_path):
    def load(text):
        path = tmp_path / "flows.toml"
        path.write_text(text)
        return groups.load(path)
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


def test_reads_a_group_with_its_defaults(load):
    file = load(PAIR + G0)
    assert file.config == SwitchConfig()
    assert (file.forward, file.clock_mhz) == ({}, 250)
    found, = file.groups
    assert (found.name, found.ports, found.op, found.dtype, found.nan) == (
        "g0", (0, 1), "sum", "fp32", "propagate")
    assert (found.window, found.base, found.timeout) == (128, 0, 250_000)
    child = found.children[1]
    assert (child.port, child.start_psn, child.flow.name, child.flow.dqpn) == (1, 0, "w1", 0x11)
    assert child.header == Header(
        src_mac=0x020000000009, dst_mac=0x020000000002, src="10.0.0.9", dst="10.0.0.2", dqpn=0x21)


def test_reads_the_device_and_every_key(load):
    file = load("""
        [device]
        width = 64
        clock_mhz = 156.25
        max_frame = 2048
        ports = 3
        groups = 2
        window = 16
        slot_bytes = 256
        forward = [2, -1, 0]
    """ + flow("a", 0) + flow(
        "b", 2, "start_psn = 0xffffff\nudp_dport = 4793\nmessage_bytes = 64\nicrc = 'ignore'",
        """
        src = "fd00::9"
        dst = "fd00::1"
        psn = 7
        opcode = "UC_WRITE_ONLY_IMM"
        udp_sport = 1
        udp_dport = 4793
        vlan = 100
        pcp = 5
        dscp = 26
        ttl = 3
        flow_label = 0xfffff
        pkey = 0x1234
        va = 0xffff_ffff_ffff_0000
        rkey = 0x55
        """) + group("g", "a", "b", more="""
        op = "max"
        dtype = "bf16"
        mode = "tree"
        transport = "uc"
        window = 4
        slot_bytes = 256
        straggler_us = 0.5
        nan = "ignore"
        sum = "exact"
    """))
    assert file.config == SwitchConfig(
        width=64, max_frame=2048, ports=3, groups=2, window=16, slot_bytes=256, sum="exact",
        types=("fp32", "int32", "bf16"))
    assert (file.forward, file.clock_mhz) == ({0: 2, 2: 0}, 156.25)
    found, = file.groups
    assert (found.op, found.dtype, found.nan, found.window, found.timeout) == (
        "max", "bf16", "ignore", 4, 78)
    child = found.children[1]
    assert (child.start_psn, child.flow.udp_dport, child.flow.message_bytes, child.flow.icrc) == (
        0xFFFFFF, 4793, 64, "ignore")
    assert child.header == Header(
        src_mac=0x020000000009, dst_mac=0x020000000003, src="fd00::9", dst="fd00::1", dqpn=0x21,
        psn=7, opcode=0x2B, udp_sport=1, udp_dport=4793, vlan=100, pcp=5, dscp=26, ttl=3,
        flow_label=0xFFFFF, pkey=0x1234, va=0xFFFF_FFFF_FFFF_0000, rkey=0x55)


def test_a_datagram_has_its_key_and_its_source(load):
    text = PAIR + flow("ud", 2, header='opcode = "UD_SEND_ONLY_IMM"\nqkey = 9\nsrc_qp = 0x77')
    header = load(text + group("g0", "w0", "w1", "ud")).groups[0].children[2].header
    assert (header.opcode, header.qkey, header.src_qp, header.dst) == (
        0x65, 9, 0x77, ipaddress.ip_address("10.0.0.3"))


def sized(*windows, device=16):
    """A file with a group of each window; None: that says none."""
    return f"[device]\nwindow = {device}\n" + "".join(
        flow(f"w{n}", 0, dqpn=str(n)) + group(
            f"g{n}", f"w{n}", more=f"window = {window}" if window else "")
        for n, window in enumerate(windows))


def test_slots_are_given_to_the_largest_groups_first(load):
    found = load(sized(1, 8, 2, 4, 1)).groups
    assert [each.base for each in found] == [28, 0, 24, 16, 30]
    assert [each.window for each in load(sized(None, None, None)).groups] == [4, 4, 4]


def test_slots_never_overlap_and_are_aligned(load):
    rng = random.Random(1)
    for _ in range(30):
        windows, left = [], 16
        while left and len(windows) < 16:
            windows.append(min(1 << rng.randrange(5), 1 << left.bit_length() - 1))
            left -= windows[-1]
        found, taken = load(sized(*windows)).groups, set()
        for each in found:
            slots = range(each.base, each.base + 2 * each.window)
            assert each.base % len(slots) == 0 and slots.stop <= 32 and not taken & {*slots}
            taken |= {*slots}


def test_the_same_key_may_come_in_on_two_ports(load):
    same = flow("a", 0, src='"10.0.0.7"') + flow("b", 1, src='"10.0.0.7"')
    assert load(same + group("g", "a", "b")).groups[0].ports == (0, 1)


OTHER = flow("w2", 1, dqpn="0x12")
PORT = "must be the port that it enters on"
HEADER = 'flow "w0": header: '


@pytest.mark.parametrize(("text", "message"), [
    ("", "no group is there to be reduced: add a [[group]]"),
    (PAIR, "no group is there to be reduced: add a [[group]]"),
    ("[devise]", 'unknown key "devise": did you mean "device"?'),
    ("[group]", "group must be a list of tables: write [[group]]"),
    ("[device]\nports = 1\n" + PAIR + G0, "[device]: ports = 1: must be 2 to 16 ports"),
    ("[device]\nflows = 4\n" + PAIR + G0,
     ('[device]: unknown key "flows": known are width, clock_mhz, max_frame, ports, groups, '
      'window, slot_bytes, forward')),
    ("[device]\nwindow = 100\n" + PAIR + G0,
     "[device]: window must be a power of two from 2 to 4096 packets, not 100"),
    ("[device]\nwidth = 1024\nslot_bytes = 64\n" + PAIR + G0,
     "[device]: slot_bytes must be a beat of 128 bytes at least, not 64"),
    ("[device]\nforward = [1, 0]\n" + PAIR + G0,
     ("[device]: forward = [1, 0]: has 2 entries for 4 ports: give one for each, -1 to drop its "
      "frames")),
    ("[device]\nforward = [1, 0, 4, 2]\n" + PAIR + G0,
     ("[device]: forward = [1, 0, 4, 2]: 4 is no port: give 0 to 3, or -1 to drop frames")),
    ("[device]\ngroups = 1\n" + PAIR + G0 + OTHER + group("g1", "w2"),
     ("[[group]] 2: the device has 1 groups and the file 2: remove 1, or give 'groups = 2' in "
      "[device]")),
    (PAIR + '[[group]]\nname = "g0"',
     'group "g0": children is missing: it must be a list of names of flows'),
    (PAIR + group("g0"), 'group "g0": children = []: must be a list of names of flows'),
    (PAIR + '[[group]]\nchildren = ["w0"]',
     ("[[group]] 1: name is missing: it must be 1 to 64 letters, digits, '_', '-' or '.', in "
      "quotes")),
    (PAIR + group("g0", "w0", "w-1"),
     'group "g0": children: there is no flow "w-1": did you mean "w1"?'),
    (PAIR + group("g0", "w0", "other"),
     'group "g0": children: there is no flow "other": add a [[flow]] of that name'),
    (PAIR + group("g0", "w1", "w0"),
     ('group "g0": children: "w0" on port 0 comes behind "w1" on port 1: list them by rising '
      'port, which is the order of summation')),
    (PAIR + OTHER + group("g0", "w0", "w1", "w2"),
     ('group "g0": children "w1" and "w2" are both on port 1: a port has one child of a group: '
      'remove one, or give it another port')),
    (PAIR + group("g0", "w0") + group("g1", "w0", "w1"),
     'group "g1": child "w0" is one of group "g0" already: a flow has one group'),
    (PAIR + group("g0", "w0"),
     ('flow "w1": is a child of no group: name it in the children of one, or remove it')),
    (PAIR + OTHER + G0 + group("g0", "w2"),
     '[[group]] 2: name = "g0" is taken by [[group]] 1: choose another'),
    (PAIR + group("g0", "w0", "w1", more="op = 'mean'"),
     'group "g0": op = "mean": must be "sum", "min" or "max"'),
    (PAIR + group("g0", "w0", "w1", more="dtype = 'fp8'"),
     'group "g0": dtype = "fp8": must be "fp32", "int32", "bf16" or "fp16"'),
    (PAIR + group("g0", "w0", "w1", more="nan = 'drop'"),
     'group "g0": nan = "drop": must be "propagate" or "ignore"'),
    (PAIR + group("g0", "w0", "w1", more="sum = 'kahan'"),
     'group "g0": sum = "kahan": must be "tree", "fused" or "exact"'),
    (PAIR + group("g0", "w0", "w1", more="mode = 'mesh'"),
     'group "g0": mode = "mesh": must be "tree"'),
    *((PAIR + group("g0", "w0", "w1", more=f"{key} = '{value}'"),
       f'group "g0": {key} = "{value}" needs a later version: write "{instead}"')
      for key, value, instead in (("mode", "ring", "tree"), ("mode", "transparent", "tree"),
                                  ("transport", "rc", "uc"))),
    (PAIR + group("g0", "w0", "w1", more="parent = { dqpn = 1 }"),
     'group "g0": parent needs a later version: remove it'),
    (PAIR + group("g0", "w0", "w1", more="window = 3"),
     'group "g0": window = 3: must be a power of two'),
    (PAIR + group("g0", "w0", "w1", more="window = 0"),
     'group "g0": window = 0: must be 1 to 4096 packets, a power of two'),
    (PAIR + group("g0", "w0", "w1", more="slot_bytes = 512"),
     ('group "g0": slot_bytes = 512: the device has slots of 1024 bytes: give '
      "'slot_bytes = 512' in [device]")),
    (PAIR + group("g0", "w0", "w1", more="straggler_us = -1"),
     'group "g0": straggler_us = -1: must be microseconds, or 0 for never'),
    (PAIR + group("g0", "w0", "w1", more="straggler_us = 2e7"),
     ('group "g0": straggler_us = 2e+07: is 5,000,000,000 cycles, more than 32 bits hold: make it '
      'smaller, or 0 for never')),
    (PAIR + G0 + OTHER + group("g1", "w2", more="sum = 'exact'"),
     ('group "g1": sum = "exact": a device adds in one way, and group "g0" has "tree": give both '
      'the same')),
    (sized(16, 1), ("[[group]]: their windows have 17 packets, and that of the device 16: make "
                    "them smaller, or give 'window = 32' in [device]")),
    (sized(4096, 1, device=4096), ("[[group]]: their windows have 4097 packets, and that of the "
                                   "device 4096: make them smaller")),
    (flow("w0", 0, action="") + G0,
     'flow "w0": action is missing: it must be "reduce": a switch has no other flows'),
    (flow("w0", 0, action='"trim"') + G0,
     'flow "w0": action = "trim": must be "reduce": a switch has no other flows'),
    (PAIR.replace("port = 0\n", "") + G0, f'flow "w0": port is missing: it {PORT}'),
    (PAIR.replace("port = 0\n", "port = -1\n") + G0, f'flow "w0": port = -1: {PORT}'),
    (PAIR.replace("port = 1\n", "port = 4\n") + G0,
     ('flow "w1": port = 4: the device has 4 ports, 0 to 3: give one of them, or more \'ports\' in '
      '[device]')),
    (PAIR.replace("port = 0\n", "port = 0\nstart_psn = 0x1000000\n") + G0,
     'flow "w0": start_psn = 16777216: must be the PSN of its first packet, 0 to 0xffffff'),
    (PAIR + flow("w0", 2) + G0, '[[flow]] 3: name = "w0" is taken by [[flow]] 1: choose another'),
    (PAIR + flow("w2", 1) + G0 + group("g1", "w2"),
     ('flow "w2": has the key of flow "w1" (10.0.0.2 to 10.0.0.9, port 4791, QP 0x11): '
      'remove one')),
    (PAIR.replace("port = 0\n", "port = 0\npath_mtu = 1\n") + G0,
     'flow "w0": path_mtu needs a later version: remove it'),
    (flow("w0", 0).partition("[flow.header]")[0] + G0,
     ('flow "w0": header is missing: it must be a table of the headers that results leave with')),
    *((flow("w0", 0, header=header) + G0, HEADER + message) for header, message in (
        ("dqnp = 1", 'unknown key "dqnp": did you mean "dqpn"?'),
        ("vlan = 4095", "vlan = 4095: must be a VLAN ID, 0 to 4094"),
        ("pcp = 1", "pcp = 1 is a part of the VLAN tag: add vlan, 0 for none"),
        ("ttl = 0", "ttl = 0: must be a time to live, 1 to 255"),
        ("dscp = 64", "dscp = 64: must be a DSCP, 0 to 0x3f"),
        ('src = "fd00::1"', ('src = "fd00::1" and dst = "10.0.0.1" are of two IP versions: give '
                             'both as IPv4 or both as IPv6')),
        ('opcode = "RC_SEND_ONLY"',
         ('opcode = "RC_SEND_ONLY": must be "UC_SEND_ONLY", "UC_SEND_ONLY_IMM", "UC_WRITE_ONLY", '
          '"UC_WRITE_ONLY_IMM", "UD_SEND_ONLY" or "UD_SEND_ONLY_IMM"')),
        ('opcode = "UC_WRITE_ONLY"\nva = 0', 'rkey is missing: opcode = "UC_WRITE_ONLY" needs it'),
        ("va = 0", ('va has no place in opcode = "UC_SEND_ONLY": remove it, or give another '
                    'opcode')),
        ('opcode = "UD_SEND_ONLY"\nsrc_qp = 1',
         'qkey is missing: opcode = "UD_SEND_ONLY" needs it'))),
    (flow("w0", 0).replace("02:00:00:00:00:09", "02:00:00:00:00") + G0,
     HEADER + 'src_mac = "02:00:00:00:00": must be a MAC address such as "02:00:00:00:00:01"'),
    (flow("w0", 0).replace("dqpn = 0x21", "") + G0,
     HEADER + "dqpn is missing: it must be the destination queue pair, 0 to 0xffffff"),
])
def test_refuses_with_entry_value_and_remedy(load, text, message):
    assert fault(load, text) == message
