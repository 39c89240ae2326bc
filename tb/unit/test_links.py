# SPDX-License-Identifier: Apache-2.0
"""Simulated links: how long they take, and what they do to frames."""

from collections import Counter

import pytest

from flytrim.fabric.links import Link

FRAMES = 20_000


def play(frames=FRAMES, size=104, **options):
    """(link, [(number, arrival)] of all copies) of frames back to back."""
    link = Link(7, **{"delay": 100, "rate": 64, **options})
    arrivals = []
    for number in range(frames):
        left, when = link.send(0, bytes(size))
        assert all(arrival > left for arrival in when)
        arrivals += [(number, arrival) for arrival in when]
    return link, arrivals


def test_frames_enter_one_after_another_and_arrive_a_delay_later():
    link = Link(1, delay=100, rate=64)
    # 104 bytes and 24 of preamble, FCS and gap take two cycles; one byte more takes three.
    assert [link.send(now, bytes(size)) for now, size in ((10, 104), (10, 105), (50, 104))] == [
        (12, [112]), (15, [115]), (52, [152])]
    assert link.counts == Counter(frames=3, wire_bytes=128 + 129 + 128)


def test_a_chance_of_loss_is_kept():
    link, arrivals = play(loss=0.1)
    lost = FRAMES - len(arrivals)
    assert link.counts["lost"] == lost and 0.09 < lost / FRAMES < 0.11
    # A lost frame takes the wire as any other.
    assert link.counts["wire_bytes"] == 128 * FRAMES and arrivals[-1][1] > 2 * FRAMES


def test_a_chance_of_duplication_is_kept():
    link, arrivals = play(duplicate=0.1)
    assert link.counts["duplicated"] == len(arrivals) - FRAMES
    assert 0.09 < link.counts["duplicated"] / FRAMES < 0.11
    assert {number for number, _ in arrivals} == set(range(FRAMES))


@pytest.mark.parametrize("most", [1, 4])
def test_no_frame_is_overtaken_by_more_than_was_asked_for(most):
    link, arrivals = play(reorder=most)
    order = [number for number, _ in sorted(arrivals, key=lambda each: (each[1], each[0]))]
    overtaken = [sum(later > number for later in order[max(0, at - 2 * most - 2):at])
                 for at, number in enumerate(order)]
    assert max(overtaken) == most
    assert link.counts["reordered"] > FRAMES / 100


def test_without_chances_order_is_kept_and_nothing_is_lost():
    link, arrivals = play()
    assert [number for number, _ in arrivals] == list(range(FRAMES))
    assert [arrival for _, arrival in arrivals] == sorted(arrival for _, arrival in arrivals)
    assert not link.counts["lost"] + link.counts["duplicated"] + link.counts["reordered"]


def test_a_seed_repeats_what_happens():
    options = {"loss": 0.1, "duplicate": 0.1, "reorder": 3, "frames": 1000}
    assert play(**options)[1] == play(**options)[1]
