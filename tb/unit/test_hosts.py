# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts: what they send, what they refuse, and how they heal losses."""

import struct

import pytest
import roce
from roce_packet import RocePacket

from flytrim.fabric.hosts import Host
from flytrim.fabric.packets import Channel, FrameFault

MACS = {"src_mac": bytes.fromhex("0200000000fe"), "dst_mac": bytes.fromhex("020000000101")}
BACK = Channel(**MACS, src="10.0.0.254", dst="10.0.0.1", qpn=0x201, psn=0xFFFFFE, immediate=True)
OUT = Channel(src_mac=MACS["dst_mac"], dst_mac=MACS["src_mac"], src="10.0.0.1", dst="10.0.0.254",
              qpn=0x101, psn=0xFFFFFF)
FIELDS = {"opcode": "UC_SEND_ONLY_IMM", "src": "10.0.0.254", "dst": "10.0.0.1", "dqpn": 0x201,
          "src_mac": "02:00:00:00:00:fe", "dst_mac": "02:00:00:00:01:01", "tos": 2}


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 1024])
def test_frames_are_those_of_the_tests_own_writer_and_are_read_back(size):
    payload = bytes(n % 251 + 1 for n in range(size))
    frame = BACK.frame(payload, 0xABCDEF, immediate=0x1234)
    assert frame == RocePacket(**FIELDS, payload=payload, psn=0xABCDEF, immediate=0x1234,
                               migreq=0).to_bytes()
    assert BACK.read(frame) == (0xABCDEF, payload, 0x1234, False)
    # The switch's own choices: migration state, time to live, congestion met, identification.
    other = RocePacket(**{**FIELDS, "tos": 0xB8 | 3}, payload=payload, psn=5, ttl=1,
                       identification=77).to_bytes()
    assert BACK.read(other) == (5, payload, 0, True)
    assert OUT.read(OUT.frame(payload, 7)) == (7, payload, None, False)


@pytest.mark.parametrize(("changes", "why"), [
    ({"dst_mac": "02:00:00:00:01:02"}, "destination MAC is 020000000102, not 020000000101"),
    ({"src_mac": "02:00:00:00:01:02"}, "source MAC"), ({"vlans": ((0x8100, 1),)}, "EtherType"),
    ({"src": "10.0.0.253"}, "source address"), ({"dst": "10.0.0.2"}, "destination address"),
    ({"ip_checksum": 1}, "IP checksum"), ({"ttl": 0}, "time to live"), ({"tos": 0}, "ECN"),
    ({"udp_sport": 1}, "UDP source port"), ({"udp_dport": 1}, "UDP destination port"),
    ({"udp_checksum": 1}, "UDP checksum"), ({"udp_length": 30}, "UDP length"),
    ({"opcode": "UC_SEND_ONLY"}, "opcode is 0x24, not 0x25"), ({"tver": 1}, "header version"),
    ({"pkey": 1}, "P_Key"), ({"becn": 1}, "congestion bits"), ({"dqpn": 1}, "queue pair"),
    ({"ack_request": 1}, "acknowledge request"), ({"icrc": b"nope"}, "ICRC is 6e6f7065, not"),
    ({"tail": bytes(9)}, "frame length"), ({"pad": 1}, "pad of 1 bytes behind 2"),
    ({"payload": b"", "pad": 3}, "pad of 3 bytes behind 0"),
], ids=str)
def test_a_frame_that_is_wrong_in_a_field_is_refused(changes, why):
    frame = RocePacket(**{**FIELDS, "payload": b"ab", **changes}).to_bytes()
    with pytest.raises(FrameFault, match=why):
        BACK.read(frame)


def test_pads_that_are_not_zero_are_refused():
    frame = bytearray(RocePacket(**FIELDS, payload=b"abc\1").to_bytes())
    frame[43] |= 1 << 4
    frame[-4:] = roce.masked_icrc(bytes(frame[14:-4]))
    with pytest.raises(FrameFault, match="pad of 1 bytes behind 3"):
        BACK.read(bytes(frame))
    with pytest.raises(FrameFault, match="Ethernet pad"):
        OUT.read(OUT.frame(b"", 5)[:-1] + b"\1")


def test_a_frame_that_is_wrong_in_a_bit_or_cut_is_refused():
    frame = BACK.frame(b"abcdef", 5)
    # But TTL, DSCP, MigReq, SE, and identification with its part of the checksum, nothing is free.
    for byte in (*range(14), *range(46, 54), *range(56, len(frame))):
        changed = bytearray(frame)
        changed[byte] ^= 1
        with pytest.raises(FrameFault):
            BACK.read(bytes(changed))
    for size in range(len(frame)):
        with pytest.raises(FrameFault):
            BACK.read(frame[:size])


class Desk:
    """A host whose frames are kept, and whose network is the test."""

    def __init__(self, **options):
        self.sent, self.done = [], []
        self.host = Host("host 0", OUT, BACK, send=self._send,
                         done=lambda now, data: self.done.append((now, data)),
                         **{"payload": 4, "window": 4, "timer": 100, **options})

    def _send(self, now, frame):
        packet = OUT.read(frame)
        self.sent.append((now, (packet.psn - OUT.psn) % (1 << 24), packet.payload))
        return now + 1

    def answer(self, now, number, payload=None, **fields):
        self.host.receive(now, BACK.frame(struct.pack("<I", number) if payload is None else payload,
                                          (BACK.psn + number) % (1 << 24), **fields))

    def numbers(self):
        numbers = [number for _, number, _ in self.sent]
        self.sent.clear()
        return numbers


DATA = bytes(range(40))


def test_a_window_is_in_flight_and_each_result_lets_one_more_go():
    desk = Desk()
    desk.host.reduce(0, DATA)
    assert desk.sent == [(0, n, DATA[4 * n:4 * n + 4]) for n in range(4)]
    desk.numbers()
    desk.answer(10, 1)
    assert desk.numbers() == []         # packet 4 waits for result 0
    desk.answer(11, 0)
    assert desk.numbers() == [4, 5]
    for number in (2, 3, 4, 5, 6, 7, 8):
        desk.answer(20, number)
    assert desk.numbers() == [6, 7, 8, 9] and desk.done == [] and desk.host.wants == 9
    desk.answer(30, 9)
    assert desk.done == [(30, b"".join(struct.pack("<I", n) for n in range(10)))]
    desk.host.reduce(40, b"")
    assert desk.sent == [(40, 10, b"")]
    desk.answer(50, 10, b"")
    assert desk.done[1:] == [(50, b"")] and desk.host.answered == 11 and not desk.host.faults


def test_what_is_not_answered_in_time_is_sent_again_and_nothing_else():
    desk = Desk()
    desk.host.reduce(0, DATA[:12])
    assert desk.numbers() == [0, 1, 2] and desk.host.deadline == 101
    desk.answer(50, 1)
    desk.host.wake(100)
    assert desk.numbers() == []
    desk.host.wake(101)
    assert desk.sent == [(101, 0, DATA[:4]), (101, 2, DATA[8:12])]
    assert desk.host.deadline == 202 and desk.host.counts["retransmitted"] == 2
    desk.answer(110, 0)
    desk.answer(110, 2)
    desk.host.wake(202)
    assert len(desk.sent) == 2 and desk.host.deadline is None


def test_a_result_that_comes_again_is_counted_and_must_be_the_same():
    desk = Desk()
    desk.host.reduce(0, DATA[:8])
    for _ in range(3):
        desk.answer(10, 0)
    assert desk.host.counts["results_again"] == 2 and not desk.host.faults
    desk.answer(20, 0, b"abcd")
    assert desk.host.faults == ["host 0, cycle 20: result 0 came again with other bytes"]
    assert desk.host.answered == 1


@pytest.mark.parametrize(("number", "payload", "fields", "why"), [
    (4, None, {}, "PSN 0x2 answers no contribution"),
    (-1, None, {}, "PSN 0xfffffd answers no contribution"),
    (1, b"ab", {}, "result 1 has 2 bytes, not 4"),
    (1, None, {"immediate": 5}, "result 1 lacks children 0x5"),
])
def test_a_result_that_cannot_be_is_a_fault_and_no_answer(number, payload, fields, why):
    desk = Desk()
    desk.host.reduce(0, DATA)
    desk.answer(9, number, struct.pack("<i", number) if payload is None else payload, **fields)
    assert desk.host.faults == [f"host 0, cycle 9: {why}"] and desk.host.answered == 0
    desk.host.receive(10, b"\0" * 60)
    assert desk.host.faults[1].startswith("host 0, cycle 10: destination MAC")
