# SPDX-License-Identifier: Apache-2.0
"""What the reference model trims and drops, against frames known from their Scapy packets."""

import background
import pytest
import roce
from frames import PAYLOAD, background_frames, roce_frame, roce_packet, runt
from judged import (
    BOTH,
    CARELESS,
    CUT,
    DATA,
    MODEL,
    PLAIN6,
    STACKS,
    assert_bypass,
    assert_drop,
    assert_trim,
)
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from flytrim.model import Flow, NicModel
from flytrim.verdict import Reason, Verdict

# What is trimmed


@BOTH
@STACKS
@pytest.mark.parametrize("opcode", PAYLOAD)
def test_every_payload_opcode_leaves_exactly_its_payload_and_record(opcode, vlans, fields):
    packet = roce_packet(
        opcode, DATA, vlans=vlans, psn=0xABCDEF, solicited=1, ack_request=1, tos=0xB6,
        immediate=0xDEADBEEF, address=0x0123456789ABCDEF, rkey=0xCAFEF00D, dma_length=33, **fields)
    bth, reth = packet[roce.BTH], packet.getlayer(roce.RETH)
    immediate = packet.getlayer(roce.ImmDt), packet.getlayer(roce.IETH)
    assert_trim(
        roce.build(packet), packet[Raw].load, "plain6" if IPv6 in packet else "plain4",
        opcode=bth.opcode, psn=bth.psn, pad_count=-len(packet[Raw].load) % 4, cut=0,
        solicited=bth.solicited, ack_request=bth.ack_request,
        ecn=(packet[IPv6].tc if IPv6 in packet else packet[IP].tos) & 3,
        immediate=immediate[0].immediate if immediate[0] else immediate[1].rkey if immediate[1]
        else 0,
        address=reth.address if reth else 0, rkey=reth.rkey if reth else 0,
        dma_length=reth.dma_length if reth else 0)


@BOTH
@pytest.mark.parametrize("size", [*range(10), 63, 64, 65, 1024, 4096, 9000])
def test_a_payload_of_any_length_is_cut_at_its_last_byte(size, fields):
    packet = roce_packet("UC_SEND_ONLY", bytes(n % 255 + 1 for n in range(size)), **fields)
    payload = packet[Raw].load if Raw in packet else b""
    assert_trim(roce.build(packet), payload, "plain6" if IPv6 in packet else "plain4")


def test_a_zero_length_message_is_trimmed_to_a_record_alone():
    assert_trim(roce_frame("RC_WRITE_ONLY_IMM", immediate=7), b"", immediate=7)


@pytest.mark.parametrize("opcode", ["RC_SEND_FIRST", "RC_WRITE_MIDDLE", "RC_SEND_LAST"])
@pytest.mark.parametrize("pad", range(4))
def test_a_pad_count_is_cut_from_every_place_of_a_message(opcode, pad):
    assert_trim(roce_frame(opcode, DATA, pad=pad), DATA, pad_count=pad)


@pytest.mark.parametrize("tail", [b"\xff" * 40, b"\0", bytes(range(200))])
def test_bytes_after_the_datagram_are_ethernet_pad_whatever_they_hold(tail):
    assert_trim(roce_frame("RC_SEND_ONLY", b"abcd", tail=tail), b"abcd")


@pytest.mark.parametrize("outer", [0x8100, 0x88A8, 0x9100])
@pytest.mark.parametrize("inner", [0x8100, 0x88A8, 0x9100])
def test_two_tags_of_any_tpid_are_followed(outer, inner):
    assert_trim(roce_frame("RC_SEND_ONLY", DATA, vlans=((outer, 0xFFFF), (inner, 0))), DATA)


@BOTH
@pytest.mark.parametrize("free", [
    {"dst_mac": "ff:ff:ff:ff:ff:ff"}, {"ttl": 1}, {"tos": 0xFF}, {"flow_label": 0xFFFFF},
    {"pkey": 1}, {"solicited": 1}, {"migreq": 0}, {"ack_request": 1}, {"fecn": 1}, {"becn": 1},
    {"reserved": 0x3F}, {"reserved7": 0x7F}, {"udp_sport": 0}, {"vlans": ((0x8100, 9),)},
    {"psn": 0xFFFFFF}, {"identification": 0xFFFF},
], ids=lambda free: next(iter(free)))
def test_what_is_no_part_of_the_key_may_have_any_value(free, fields):
    flow = "plain6" if fields is PLAIN6 else "plain4"
    assert_trim(roce_frame("RC_SEND_ONLY", DATA, **fields, **free), DATA, flow)


@pytest.mark.parametrize("checksum", [0, 1, 0xFFFF])
def test_a_udp_checksum_is_not_verified(checksum):
    assert_trim(roce_frame("RC_SEND_ONLY", DATA, udp_checksum=checksum), DATA)


def test_the_icrc_is_not_verified_where_the_flow_ignores_it():
    assert_trim(roce_frame("RC_SEND_ONLY", DATA, icrc=b"nope", **CARELESS), DATA, "careless")


@BOTH
@STACKS
def test_every_bit_that_the_icrc_covers_is_checked(fields, vlans):
    frame = roce_frame("RC_WRITE_ONLY_IMM", DATA, vlans=vlans, **fields)
    udp = 14 + 4 * len(vlans) + (40 if fields is PLAIN6 else 20)
    masked = (udp + 6, udp + 7, udp + 12)            # UDP checksum; FECN, BECN, reserved
    for byte in (*masked, *range(udp + 16, len(frame))):
        for bit in range(8):
            changed = bytearray(frame)
            changed[byte] ^= 1 << bit
            expected = Reason.NONE if byte in masked else Reason.ICRC
            assert MODEL.judge(bytes(changed)).reason == expected, (byte, bit)


def test_duplicate_and_missing_psn_pass_through():
    for psn in (5, 5, 9, 0):
        assert_trim(roce_frame("RC_SEND_ONLY", DATA, psn=psn), DATA, psn=psn)


# What is dropped

SMALL = NicModel(MODEL.flows, max_frame=1514)


def test_a_frame_past_max_frame_is_oversize_and_ends_there():
    data = bytes(n % 251 for n in range(1600))
    fits = roce_frame("RC_SEND_ONLY", data[:1514 - 58])
    assert len(fits) == 1514 and SMALL.judge(fits).verdict == Verdict.TRIM
    assert_drop(roce_frame("RC_SEND_ONLY", data), Reason.OVERSIZE, data[:1514 - 54], SMALL)
    assert_drop(roce_frame("RC_SEND_ONLY", b"abcd", tail=bytes(1457)), Reason.OVERSIZE, b"abcd",
                SMALL)


def test_a_bypass_frame_past_max_frame_is_oversize_too():
    judged = SMALL.judge(background.tcp(size=2000))
    assert (judged.verdict, judged.reason) == (Verdict.DROP, Reason.OVERSIZE)
    assert judged.bypass == background.tcp(size=2000)[:1514] and judged.error
    assert judged.payload is None and judged.opcode is None and judged.flow is None


def test_a_frame_that_the_mac_marked_is_mac_error_where_it_would_be_trimmed():
    assert_drop(roce_frame("RC_SEND_ONLY", DATA), Reason.MAC_ERROR, DATA, mac_error=True)


def test_a_bypass_frame_keeps_the_error_flag_of_the_mac():
    assert_bypass(background.tcp(), Reason.NOT_UDP, mac_error=True)
    assert_bypass(roce_frame("CNP", bytes(16)), Reason.OPCODE, "plain4", mac_error=True)


@BOTH
def test_a_frame_that_ends_before_its_ip_length_is_truncated(fields):
    packet = roce_packet("RC_WRITE_ONLY_IMM", DATA, **fields)
    frame = roce.build(packet)
    begin = frame.index(packet[Raw].load)
    for size in range(begin, len(frame)):
        assert_drop(frame[:size], Reason.TRUNCATED, packet[Raw].load[:size - begin])


def test_a_cut_payload_that_is_truncated_keeps_its_cut_count():
    judged = MODEL.judge(roce_frame("UC_SEND_ONLY", bytes(70), **CUT)[:84])
    assert (judged.reason, judged.length, judged.cut) == (Reason.TRUNCATED, 84 - 74, 6)


def test_of_several_drop_reasons_the_first_in_order_is_reported():
    long = roce_frame("RC_SEND_ONLY", bytes(2000))
    assert SMALL.judge(long[:1600], mac_error=True).reason == Reason.OVERSIZE
    assert SMALL.judge(long[:1500], mac_error=True).reason == Reason.MAC_ERROR
    assert SMALL.judge(long[:1500]).reason == Reason.TRUNCATED


@pytest.mark.parametrize("frame, mac_error, reason", [
    (roce_frame("RC_SEND_ONLY", DATA), False, Reason.OVERFLOW),
    (roce_frame("CNP", bytes(16)), True, Reason.OVERFLOW),
    (background.tcp(), False, Reason.OVERFLOW),
    (background.tcp(size=2000), False, Reason.OVERSIZE),
    (roce_frame("RC_SEND_ONLY", DATA), True, Reason.MAC_ERROR),
    (roce_frame("RC_SEND_ONLY", DATA)[:70], False, Reason.TRUNCATED),
], ids=["trim", "control", "bypass", "oversize", "mac error", "truncated"])
def test_a_frame_without_room_is_dropped_whole(frame, mac_error, reason):
    judged = SMALL.judge(frame, mac_error)
    dropped = judged.overflowed()
    assert (dropped.verdict, dropped.reason, dropped.flow) == (Verdict.DROP, reason, judged.flow)
    assert dropped.payload is None and dropped.bypass is None and set(dropped[6:]) == {None}


# All of them


@pytest.mark.parametrize("size", range(1, 60))
def test_runts_leave_bit_exact_down_to_one_byte(size):
    for frame in (background.tcp(), roce_frame("RC_SEND_ONLY", dqpn=1), bytes(60), b"\xff" * 60):
        judged = MODEL.judge(runt(size, frame))
        assert judged.verdict == Verdict.BYPASS and judged.bypass == frame[:size]


def test_nothing_of_the_background_is_ever_trimmed():
    assert len(background_frames()) > 60
    for frame in background_frames():
        judged = MODEL.judge(frame)
        assert judged.verdict == Verdict.BYPASS and judged.bypass == frame, frame.hex()


@pytest.mark.parametrize("changes", [
    {"dst": "fd00::1"}, {"dqpn": 1 << 24}, {"dqpn": -1}, {"udp_dport": 65536}, {"vlan": 4096},
    {"udp_sport": -1}, {"message_bytes": -1}, {"excess": "drop"}, {"icrc": "maybe"}, {"src": "w0"},
], ids=str)
def test_a_flow_with_a_value_out_of_range_is_refused(changes):
    with pytest.raises(ValueError):
        Flow(**{"name": "w0", "src": "10.0.0.1", "dst": "10.0.0.2", "dqpn": 1, **changes})


@pytest.mark.parametrize("other", [{}, {"vlan": 5}, {"udp_sport": 5}], ids=str)
def test_two_flows_with_one_key_are_refused(other):
    fields = {"src": "10.0.0.1", "dst": "10.0.0.2", "dqpn": 1}
    with pytest.raises(ValueError, match="'a' and 'b' have one key"):
        NicModel([Flow("a", **fields), Flow("b", **fields, **other)])
