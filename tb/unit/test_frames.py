# SPDX-License-Identifier: Apache-2.0
"""The frame factory: its two writers agree, its mix holds every verdict, its packets read back."""

import os
import random
from collections import Counter

import pytest
import roce
from frames import FLOWS, PAYLOAD, RocePacket, flow_fields, good_frame, random_frame
from judged import MODEL
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from flytrim.verdict import Reason, Verdict

SEED = int(os.environ.get("SEED", 1))
UNDEFINED = [code for code in range(256) if code not in roce.EXTENSIONS]


@pytest.mark.parametrize("opcode", [*roce.OPCODES, UNDEFINED[0], UNDEFINED[-1]])
def test_the_fast_writer_and_scapy_write_the_same_bytes(opcode):
    rng = random.Random(f"{SEED}/{opcode}")
    for turn in range(40):
        packet = RocePacket(opcode=opcode, payload=rng.randbytes(turn),
                            **{**flow_fields(rng, rng.choice(FLOWS)), "minimum": 0})
        assert packet.to_bytes() == roce.build(packet.to_scapy()), f"SEED={SEED} {packet}"


@pytest.mark.parametrize("field", ["ip_length", "udp_length", "ip_checksum"])
def test_a_field_that_is_to_lie_does_in_both_writers(field):
    packet = RocePacket(opcode="RC_SEND_ONLY", payload=b"abcd", icrc=b"icrc", minimum=0,
                        **{field: 77})
    assert packet.to_bytes() == roce.build(packet.to_scapy())


@pytest.mark.parametrize("opcode", PAYLOAD)
def test_a_frame_reads_back_as_the_layers_it_was_made_of(opcode):
    fields = {"immediate": 0x11223344, "address": 1 << 60, "rkey": 5, "dma_length": 6, "psn": 9}
    packet = RocePacket(opcode=opcode, payload=b"hello", **fields)
    seen = Ether(packet.to_bytes())
    assert seen[Raw].load == b"hello" and seen[roce.BTH].pad == bytes(3)
    assert seen[roce.BTH].icrc == roce.icrc(packet.to_bytes())
    for layer in roce.EXTENSIONS[packet.opcode]:
        for name in {field.name for field in layer.fields_desc} & set(fields):
            assert seen[layer].getfieldval(name) == fields[name]


def test_a_mix_is_repeated_by_its_seed():
    first, second = random.Random(SEED), random.Random(SEED)
    assert all(random_frame(first) == random_frame(second) for _ in range(500))


def test_a_good_frame_is_trimmed_unless_longer_than_its_preset():
    rng = random.Random(SEED)
    for _ in range(3000):
        frame = good_frame(rng)
        reason = MODEL.judge(frame).reason
        assert reason in (Reason.NONE, Reason.MESSAGE_LENGTH), f"SEED={SEED} {frame.hex()}"


def test_a_mix_holds_every_verdict_and_every_reason_of_a_single_frame():
    rng = random.Random(SEED)
    judged = [MODEL.judge(random_frame(rng)) for _ in range(20000)]
    seen = Counter(each.reason for each in judged)
    assert set(seen) == set(Reason) - {Reason.MAC_ERROR, Reason.OVERFLOW}, SEED
    assert 0.4 < sum(each.verdict == Verdict.TRIM for each in judged) / len(judged) < 0.8, SEED
    assert {each.flow for each in judged} == {None, *range(len(FLOWS))}, SEED
