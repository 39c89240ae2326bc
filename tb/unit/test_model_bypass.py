# SPDX-License-Identifier: Apache-2.0
"""What the reference model sends to bypass: each row of the verdict table, in its order."""

import background
import pytest
import roce
from frames import CONTROL, PAYLOAD, roce_frame, roce_packet
from judged import (
    BOTH,
    CUT,
    DATA,
    MODEL,
    ONE_PATH,
    ONLY,
    OTHER_PORT,
    PLAIN4,
    PLAIN6,
    PRESET,
    STACKS,
    TAGGED,
    UNDEFINED,
    assert_bypass,
    assert_trim,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from flytrim.model import Flow, NicModel
from flytrim.verdict import Reason


@BOTH
@STACKS
@pytest.mark.parametrize("opcode", ["RC_WRITE_ONLY_IMM", "RC_SEND_ONLY", "RC_COMPARE_SWAP"])
def test_a_frame_that_ends_inside_an_announced_header_is_truncated_header(opcode, vlans, fields):
    packet = roce_packet(opcode, DATA, vlans=vlans, **fields)
    frame = roce.build(packet)
    headers = len(frame) - 4 - -len(DATA) % 4 - len(packet[Raw].load)
    for size in range(1, headers):
        assert_bypass(frame[:size], Reason.TRUNCATED_HEADER)
    assert MODEL.judge(frame[:headers]).reason != Reason.TRUNCATED_HEADER


def test_a_tver_that_is_not_0_still_announces_extension_headers():
    frame = roce_frame("RC_WRITE_ONLY", tver=1, minimum=0)
    assert_bypass(frame[:-5], Reason.TRUNCATED_HEADER)
    assert_bypass(frame, Reason.OPCODE, "plain4")


@pytest.mark.parametrize("opcode", UNDEFINED)
def test_an_undefined_opcode_announces_nothing(opcode):
    assert_bypass(roce_frame(opcode, minimum=0)[:-4], Reason.OPCODE, "plain4")


@pytest.mark.parametrize("change, end, reason", [
    ({}, 33, Reason.TRUNCATED_HEADER), ({"ip_checksum": 1}, 34, Reason.IP_HEADER),
    ({"udp_dport": 4790}, 42, Reason.NOT_ROCE), ({"dst": "10.0.0.77"}, 53, Reason.TRUNCATED_HEADER),
    ({"dst": "10.0.0.77"}, 54, Reason.NO_FLOW), ({"udp_length": 9}, 53, Reason.TRUNCATED_HEADER),
], ids=str)
def test_a_header_that_is_not_ours_announces_nothing(change, end, reason):
    assert_bypass(roce_frame("RC_SEND_ONLY", b"abcd", **change)[:end], reason)


@pytest.mark.parametrize("frame", [
    background.arp(), background.arp(vlan=5), background.lldp(), background.pause(),
    background.ieee8023(), background.ieee8023(snap=True), background.mpls(), background.rocev1(),
], ids=["arp", "arp in vlan", "lldp", "mac control", "802.3", "snap", "mpls", "rocev1"])
def test_another_ethertype_or_a_length_is_not_ip(frame):
    assert_bypass(frame, Reason.NOT_IP)


@pytest.mark.parametrize("third", [0x8100, 0x88A8, 0x9100])
def test_more_than_two_tags_are_not_ip(third):
    tags = ((0x88A8, 1), (0x8100, 2), (third, 3))
    assert_bypass(roce_frame("RC_SEND_ONLY", DATA, vlans=tags), Reason.NOT_IP)


def test_every_ipv4_fragment_is_fragment_first_middle_and_last():
    parts = background.fragments(roce_packet("RC_SEND_ONLY", DATA, icrc=bytes(4)))
    assert len(parts) > 2
    for part in parts:
        assert_bypass(part, Reason.FRAGMENT)


@pytest.mark.parametrize("bit", range(14))
def test_any_bit_of_the_ipv4_offset_or_mf_is_fragment_whatever_else_is_wrong(bit):
    frame = bytearray(roce_frame("RC_SEND_ONLY", DATA))
    frame[14] = 0x56
    frame[20:22] = (1 << bit).to_bytes(2, "big")
    assert_bypass(bytes(frame), Reason.FRAGMENT)


@pytest.mark.parametrize("flags", ["DF", "evil", 0])
def test_other_ipv4_flags_are_no_fragment(flags):
    packet = roce_packet("RC_SEND_ONLY", DATA)
    packet[IP].flags = flags
    assert_trim(roce.build(packet), packet[Raw].load)


@pytest.mark.parametrize("kind, reason", [
    ("hop-by-hop", Reason.IP_EXTENSION), ("routing", Reason.IP_EXTENSION),
    ("destination", Reason.IP_EXTENSION), ("authentication", Reason.IP_EXTENSION),
    ("hop-by-hop, fragment", Reason.IP_EXTENSION), ("fragment", Reason.FRAGMENT),
    ("fragment-more", Reason.FRAGMENT)])
def test_the_first_ipv6_extension_header_decides_the_reason(kind, reason):
    packet = roce_packet("RC_SEND_ONLY", DATA, icrc=bytes(4), **PLAIN6)
    assert_bypass(background.ipv6_chain(packet, kind), reason)


@pytest.mark.parametrize("number", [0, 43, 50, 51, 60, 135, 139, 140, 253, 254])
def test_every_ipv6_extension_header_number_is_ip_extension_whatever_the_version(number):
    frame = bytearray(roce_frame("RC_SEND_ONLY", DATA, **PLAIN6))
    frame[20], frame[14] = number, 0x50
    assert_bypass(bytes(frame), Reason.IP_EXTENSION)


def test_any_ipv4_option_is_ip_extension():
    assert_bypass(background.ipv4_options(roce_packet("RC_SEND_ONLY", DATA, icrc=bytes(4))),
                  Reason.IP_EXTENSION)


@pytest.mark.parametrize("bit", range(160))
def test_one_wrong_bit_anywhere_in_the_ipv4_header_is_never_trimmed(bit):
    frame = bytearray(roce_frame("RC_SEND_ONLY", DATA))
    frame[14 + bit // 8] ^= 128 >> bit % 8
    judged = MODEL.judge(bytes(frame))
    early = {Reason.FRAGMENT, Reason.IP_EXTENSION} & {judged.reason}
    assert early or judged.reason == Reason.IP_HEADER


@pytest.mark.parametrize("first", [0x44, 0x40, 0x55, 0x65, 0x05])
def test_a_wrong_ipv4_version_or_ihl_is_ip_header_even_with_a_right_checksum(first):
    packet = roce_packet("RC_SEND_ONLY", DATA)
    packet[IP].version, packet[IP].ihl = first >> 4, first & 15
    assert_bypass(bytes(packet), Reason.IP_HEADER)


@pytest.mark.parametrize("version", [v for v in range(16) if v != 6])
def test_a_wrong_ipv6_version_is_ip_header(version):
    packet = roce_packet("RC_SEND_ONLY", DATA, **PLAIN6)
    packet[IPv6].version = version
    assert_bypass(bytes(packet), Reason.IP_HEADER)


def test_an_ipv4_checksum_of_ffff_stands_for_0():
    for identification in range(0x10000):
        frame = roce_frame("RC_SEND_ONLY", DATA, identification=identification)
        if frame[24:26] == b"\0\0":
            break
    assert_trim(frame, DATA)
    assert_trim(frame[:24] + b"\xff\xff" + frame[26:], DATA)


@BOTH
@pytest.mark.parametrize("protocol", [1, 4, 6, 16, 18, 41, 47, 58, 255])
def test_another_protocol_tunnels_included_is_not_udp(protocol, fields):
    packet = roce_packet("RC_SEND_ONLY", DATA, **fields)
    packet[packet.firstlayer().payload.name].setfieldval(
        "nh" if IPv6 in packet else "proto", protocol)
    assert_bypass(bytes(packet), Reason.NOT_UDP)


@pytest.mark.parametrize("dport", [4789, 4790, 4793, 53, 0, 0xB712])
def test_a_port_of_no_registered_flow_is_not_roce(dport):
    assert_bypass(roce_frame("RC_SEND_ONLY", DATA, udp_dport=dport), Reason.NOT_ROCE)


def test_a_port_of_any_registered_flow_is_roce_for_all_addresses():
    frame = roce_frame("RC_SEND_ONLY", DATA, src="10.9.9.9", udp_dport=OTHER_PORT["udp_dport"])
    assert_bypass(frame, Reason.NO_FLOW)


def test_a_tunnel_is_not_looked_into():
    inner = roce_packet("RC_SEND_ONLY", DATA, icrc=bytes(4))
    assert_bypass(background.vxlan(inner), Reason.NOT_ROCE)


@BOTH
@pytest.mark.parametrize("field", ["ip_length", "udp_length"])
@pytest.mark.parametrize("change", [-4, -1, 1, 4, "0", "65535"])
def test_an_ip_or_udp_length_that_lies_is_length(field, change, fields):
    packet = roce_packet("RC_SEND_ONLY", DATA, **fields)
    layer, name = ((UDP, "len") if field == "udp_length" else
                   (IPv6, "plen") if IPv6 in packet else (IP, "len"))
    true = packet.__class__(roce.build(packet))[layer].getfieldval(name)
    wrong = int(change) if isinstance(change, str) else true + change
    assert_bypass(roce_frame("RC_SEND_ONLY", DATA, **fields, **{field: wrong}), Reason.LENGTH)


def test_an_ipv4_length_below_its_header_does_not_wrap_around():
    frame = roce_frame("RC_SEND_ONLY", DATA, ip_length=10, udp_length=0x10000 - 10)
    assert_bypass(frame, Reason.LENGTH)


@BOTH
@pytest.mark.parametrize("opcode", ["RC_SEND_ONLY", "RC_WRITE_ONLY_IMM", "CNP", 0xFF])
@pytest.mark.parametrize("pad", range(4))
def test_headers_pad_and_icrc_that_do_not_fit_are_length(opcode, pad, fields):
    extension = sum(len(layer()) for layer in roce.EXTENSIONS.get(
        roce.OPCODES.get(opcode, opcode), ()))
    least = 8 + 12 + extension + pad + 4
    overhead = 0 if fields is PLAIN6 else 20
    for size, reason in ((least - 1, Reason.LENGTH), (8, Reason.LENGTH), (least, None)):
        judged = MODEL.judge(roce_frame(opcode, DATA, pad=pad, udp_length=size,
                                        ip_length=size + overhead, **fields))
        assert (judged.reason == Reason.LENGTH) == (reason is not None), size


@pytest.mark.parametrize("fields", [TAGGED, ONE_PATH, PLAIN4, PLAIN6, OTHER_PORT],
                         ids=["tagged", "one-path", "ipv4", "ipv6", "other port"])
@pytest.mark.parametrize("field", ["src", "dst", "dqpn"])
def test_a_key_that_differs_in_any_bit_is_no_flow(field, fields):
    options = {"vlans": ((0x8100, 100),), "udp_sport": 69}
    assert MODEL.judge(roce_frame("RC_SEND_ONLY", DATA, **fields, **options)).flow is not None
    frame = roce_frame("RC_SEND_ONLY", DATA, **fields, **options)
    udp = 18 + (40 if ":" in fields["src"] else 20)
    place, size = {"src": (30, 4), "dst": (34, 4), "dqpn": (udp + 13, 3)}[field]
    if ":" in fields["src"] and field != "dqpn":
        place, size = {"src": 26, "dst": 42}[field], 16
    for bit in range(8 * size):
        wrong = bytearray(frame)
        wrong[place + bit // 8] ^= 1 << bit % 8
        if ":" not in fields["src"]:
            wrong[28:30] = b"\0\0"
            wrong[28:30] = (-int.from_bytes(wrong[18:38], "big") % 0xFFFF).to_bytes(2, "big")
        assert_bypass(bytes(wrong), Reason.NO_FLOW)


@pytest.mark.parametrize("vlans, matches", [
    ((), False), (((0x8100, 100),), True), (((0x88A8, 0xF064),), True), (((0x8100, 101),), False),
    (((0x8100, 0),), False), (((0x88A8, 100), (0x8100, 7)), True),
    (((0x88A8, 7), (0x8100, 100)), False),
], ids=str)
def test_a_vlan_of_the_flow_is_compared_with_the_outermost_tag(vlans, matches):
    frame = roce_frame("RC_SEND_ONLY", DATA, vlans=vlans, **TAGGED)
    if matches:
        assert_trim(frame, DATA, "tagged")
    else:
        assert_bypass(frame, Reason.NO_FLOW)


@pytest.mark.parametrize("vlan, fields", [(0x500, PLAIN4), (0, PLAIN6)], ids=["ipv4", "ipv6"])
def test_an_untagged_frame_is_no_flow_even_where_its_ip_header_reads_like_the_vlan(vlan, fields):
    model = NicModel([Flow("tagged", vlan=vlan, **fields)])
    frame = roce_frame("RC_SEND_ONLY", DATA, **fields)
    assert int.from_bytes(frame[14:16], "big") & 0xFFF == vlan
    assert model.judge(frame).reason == Reason.NO_FLOW


def test_a_source_port_of_the_flow_is_compared():
    assert_trim(roce_frame("RC_SEND_ONLY", DATA, udp_sport=69, **ONE_PATH), DATA, "one-path")
    assert_bypass(roce_frame("RC_SEND_ONLY", DATA, udp_sport=70, **ONE_PATH), Reason.NO_FLOW)


@BOTH
@pytest.mark.parametrize("opcode", [*CONTROL, *UNDEFINED])
def test_an_opcode_without_payload_is_opcode(opcode, fields):
    assert_bypass(roce_frame(opcode, bytes(16), **fields), Reason.OPCODE,
                  "plain6" if fields is PLAIN6 else "plain4")


@pytest.mark.parametrize("tver", range(1, 16))
def test_a_tver_that_is_not_0_is_opcode(tver):
    assert_bypass(roce_frame("RC_SEND_ONLY", DATA, tver=tver), Reason.OPCODE, "plain4")

@pytest.mark.parametrize("opcode", ONLY)
def test_an_only_packet_longer_than_the_preset_is_message_length(opcode):
    assert_trim(roce_frame(opcode, b"abcd", **PRESET), b"abcd", "preset")
    assert_trim(roce_frame(opcode, b"abc", **PRESET), b"abc", "preset")
    assert_bypass(roce_frame(opcode, b"abcde", **PRESET), Reason.MESSAGE_LENGTH, "preset")


@pytest.mark.parametrize("opcode", ONLY)
def test_an_only_packet_longer_than_the_preset_is_cut_where_the_flow_says_so(opcode):
    data = bytes(range(70))
    assert_trim(roce_frame(opcode, data, **CUT), data[:64], "cut", cut=6, pad_count=2)
    assert_trim(roce_frame(opcode, data[:64], **CUT), data[:64], "cut", cut=0)


@pytest.mark.parametrize("opcode", [name for name in PAYLOAD if name not in ONLY])
def test_other_places_of_a_message_are_not_held_to_the_preset(opcode):
    assert_trim(roce_frame(opcode, bytes(99), **PRESET), bytes(99), "preset")
    assert_trim(roce_frame(opcode, bytes(99), **CUT), bytes(99), "cut", cut=0)
