# SPDX-License-Identifier: Apache-2.0
"""Hostile frames: repeated by their seed, of every kind and size, and the good ones are good."""

import random

import harness
import pytest
import roce
from hostile import GOOD, KINDS, hostile_frames
from judged import MODEL

from flytrim.verdict import Verdict

MAX_FRAME = 9216


@pytest.fixture(scope="module")
def made():
    return list(hostile_frames(random.Random(harness.seed()), 20_000, beat=8, max_frame=MAX_FRAME))


def of_kind(made, kind):
    return [sent.frame for sent in made if sent.kind == kind]


def ipv4_of(frame):
    """Where the IPv4 header of a frame without tags is, or None."""
    return 14 if frame[12:14] == b"\x08\x00" and len(frame) >= 60 else None


def test_a_mix_is_repeated_by_its_seed(made):
    again = hostile_frames(random.Random(harness.seed()), 20_000, beat=8, max_frame=MAX_FRAME)
    assert list(again) == made


def test_every_hostile_frame_stands_between_good_ones_that_are_trimmed(made):
    assert [sent.kind == GOOD for sent in made] == [True, *[False, True] * 20_000]
    for sent in {sent.frame: sent for sent in made if sent.kind == GOOD}.values():
        judged = MODEL.judge(sent.frame)
        assert (judged.verdict, judged.payload) == (Verdict.TRIM, sent.payload)


def test_there_are_hundreds_of_every_kind_and_some_giants(made):
    counts = {kind: len(of_kind(made, kind)) for kind in KINDS}
    assert counts.pop("giant") >= 50 and min(counts.values()) >= 300, counts


def test_frames_are_cut_at_every_byte_down_to_one(made):
    # A second fault may give a cut frame another length.
    assert len({*range(1, 200)} - {len(frame) for frame in of_kind(made, "cut")}) <= 3
    assert {*range(1, 60)} <= {len(frame) for frame in of_kind(made, "runt")}


def test_giants_stand_around_the_longest_frame_and_far_beyond(made):
    sizes = {len(frame) for frame in of_kind(made, "giant")}
    assert {MAX_FRAME - 1, MAX_FRAME, MAX_FRAME + 1, MAX_FRAME + 8} <= sizes
    assert max(sizes) == 1 << 16


def test_ipv4_headers_of_every_length_come(made):
    found = {frame[l3] & 15 for frame in of_kind(made, "options") if (l3 := ipv4_of(frame))}
    assert found >= {*range(16)} - {5}


def test_every_opcode_comes(made):
    opcodes = {frame[l3 + 28] for frame in of_kind(made, "opcode") if (l3 := ipv4_of(frame))}
    assert len(opcodes - {*roce.EXTENSIONS}) > 60


def test_the_mac_marks_frames_of_every_kind(made):
    assert {sent.kind for sent in made if sent.error} == set(KINDS)
