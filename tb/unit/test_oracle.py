# SPDX-License-Identifier: Apache-2.0
"""The reference model and an oracle on top of Scapy agree on hostile frames.

These are the first frames that ``test_hostile.py`` sends through the hardware at 64 bits.
"""

import random
from collections import Counter

import frames
import harness
from hostile import GOOD, hostile_frames
from judged import MODEL
from oracle import opinion

from flytrim.verdict import Reason

ABOUT = f"64 bits, SEED={harness.seed()}, chunk 0"
COUNT = 6000


def test_scapy_and_the_model_agree_on_every_hostile_frame():
    told = Counter()
    for sent in hostile_frames(random.Random(ABOUT), COUNT, beat=8, max_frame=9216):
        # A good frame is the same few hundred times over.
        if sent.kind == GOOD and told[Reason.NONE] > 500:
            continue
        judged, scapy = MODEL.judge(sent.frame, sent.error), opinion(sent.frame, sent.error)
        assert (str(judged.verdict), str(judged.reason)) in [
            (scapy.verdict, reason) for reason in scapy.reasons], f"{ABOUT}: {scapy} {sent}"
        if scapy.payload is not None:
            assert judged.payload == scapy.payload, f"{ABOUT}: {sent}"
        told[judged.reason] += 1
    assert told.total() >= COUNT
    assert min(told[reason] for reason in Reason if reason is not Reason.OVERFLOW) >= 3, told


def test_scapy_and_the_model_agree_on_every_next_header():
    frame = bytearray(frames.roce_frame("RC_SEND_ONLY", b"1234", src="fd00::1", dst="fd00::9"))
    for frame[20] in range(256):
        judged, scapy = MODEL.judge(bytes(frame)), opinion(bytes(frame))
        assert str(judged.reason) in scapy.reasons, f"{frame[20]}: {judged} {scapy}"
