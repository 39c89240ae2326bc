# SPDX-License-Identifier: Apache-2.0
"""The reference model and ``tb/roce.py`` against captures and published frames of real devices."""

import json
from collections import Counter
from pathlib import Path

import cypcap
import pytest
import roce
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from flytrim.model import Flow, NicModel
from flytrim.verdict import Reason, Verdict

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no captures: {DATA} is absent")


def frames_of(name):
    with cypcap.open_offline(str(DATA / "captures" / name), cypcap.TstampPrecision.NANO) as capture:
        return [bytes(frame) for _, frame in capture]


def assert_counts(name, flows, trims, total):
    """Hold the model's trims per flow, and each payload, against Scapy's reading of the frame."""
    model = NicModel(flows)
    frames = frames_of(name)
    assert len(frames) == total
    counts = Counter()
    for number, frame in enumerate(frames):
        judged = model.judge(frame)
        assert judged.verdict != Verdict.DROP, f"frame {number}"
        if judged.verdict == Verdict.TRIM:
            counts[model.flows[judged.flow].name] += 1
            packet = Ether(frame)
            assert judged.payload == packet[Raw].load, f"frame {number}"
            assert judged.psn == packet[roce.BTH].psn, f"frame {number}"
        else:
            assert judged.bypass == frame, f"frame {number}"
    assert counts == trims


def test_messages_of_hardware_nics_are_trimmed():
    assert_counts("hns_roce.pcap", [
        Flow("there", "192.168.70.6", "192.168.70.4", 0x45),
        Flow("back", "192.168.70.4", "192.168.70.6", 0x48),
    ], {"there": 67, "back": 1}, total=123)


@pytest.mark.parametrize("name, total", [("roce_capture_read-write-ecn.pcap", 12),
                                         ("test.pcap", 16)])
def test_writes_and_read_responses_of_soft_roce_are_trimmed(name, total):
    senders = {}
    for frame in frames_of(name):
        packet = Ether(frame)
        opcode = packet[roce.BTH].opcode if roce.BTH in packet else None
        if opcode in (0x0A, 0x0D, 0x0E, 0x0F, 0x10):
            key = packet["IP"].src, packet["IP"].dst, packet[roce.BTH].dest_qp
            senders[key] = senders.get(key, 0) + 1
    assert sum(senders.values()) == 5
    flows = [Flow(f"w{n}", *key) for n, key in enumerate(senders)]
    assert_counts(name, flows,
                  {f"w{n}": count for n, count in enumerate(senders.values())}, total)


def near_misses():
    """A flow for every UDP datagram of the corpus that differs from it in the queue pair alone."""
    keys = {}
    for frame in frames_of("bypass_corpus.pcap"):
        packet = Ether(frame)
        if "IP" in packet and UDP in packet and packet["IP"].payload.name == "UDP":
            qpn = bytes(packet[UDP].payload)[5:8].ljust(3, b"\0")
            keys[packet["IP"].src, packet["IP"].dst, int.from_bytes(qpn, "big") ^ 1,
                 packet[UDP].dport] = None
    return [Flow(f"n{n}", *key) for n, key in enumerate(keys)]


def test_odd_frames_without_roce_all_leave_by_bypass_even_when_keys_nearly_match():
    flows = near_misses()
    assert len(flows) > 20
    model = NicModel(flows)
    frames = frames_of("bypass_corpus.pcap")
    assert len(frames) == 1511
    judged = [model.judge(frame) for frame in frames]
    assert [n for n, each in enumerate(judged) if each.verdict != Verdict.BYPASS] == []
    assert all(each.bypass == frame for each, frame in zip(judged, frames, strict=True))
    assert {each.reason for each in judged} >= {
        Reason.TRUNCATED_HEADER, Reason.NOT_IP, Reason.FRAGMENT, Reason.IP_EXTENSION,
        Reason.IP_HEADER, Reason.NOT_UDP, Reason.NOT_ROCE, Reason.LENGTH, Reason.NO_FLOW}


def test_the_icrc_of_published_frames_is_right_exactly_where_they_are():
    rows = json.loads((DATA / "icrc_vectors.json").read_text())
    assert len(rows) == 167
    compared = Counter()
    for row in rows:
        frame = bytes.fromhex(row["frame"])
        if frame[12:14] == b"\x89\x15":
            continue                            # RoCEv1, which flytrim passes by
        _, end = roce.datagram_span(frame)
        assert (roce.icrc(frame) == frame[end - 4:end]) == row["icrc_ok"], row["id"]
        compared[row["icrc_ok"]] += 1
    assert compared == {True: 153, False: 12}


def test_published_frames_survive_a_round_trip_through_the_layers():
    for row in json.loads((DATA / "icrc_vectors.json").read_text()):
        frame = bytes.fromhex(row["frame"])
        packet = Ether(frame)
        assert bytes(packet) == frame, row["id"]
        assert (roce.BTH in packet) == (frame[12:14] != b"\x89\x15"), row["id"]
