# SPDX-License-Identifier: Apache-2.0
"""Frames through the RTL with sinks that stall, so that some find no room."""

import os
import random
from collections import Counter

import pytest
from test_cli import FLOWS, FRAMES

from flytrim import flows
from flytrim.driver import Device
from flytrim.model import NicModel
from flytrim.sim.build import build, device_verilog
from flytrim.sim.compare import Comparer, Difference
from flytrim.sim.records import expected_verdict
from flytrim.sim.replay import Event, Kind, Output, Replay, SinkMode
from flytrim.verdict import Reason

pytestmark = pytest.mark.model


@pytest.fixture
def setup(tmp_path):
    (tmp_path / "flows.toml").write_text(FLOWS)
    return flows.load(tmp_path / "flows.toml")


def play(setup, frames, *, rate, **options):
    """Reasons of ``frames`` with sinks ready in ``rate`` of 256 cycles."""
    reasons = Counter()
    with Replay(build(setup.config, device_verilog(setup.config))) as replay:
        replay.reset()
        Device(replay).insert_flows(setup.flows)
        for output in Output:
            replay.sink(output, SinkMode.RANDOM, rate=rate, seed=output + 1)
        replay.feed((frame, n in options.get("errors", ())) for n, frame in enumerate(frames))
        comparer = Comparer(((None, frame) for frame in frames), NicModel(setup.flows), **options)
        reasons.update(outcome.reason for outcome in comparer.outcomes(replay.events()))
        comparer.close(len(frames))
    return reasons


def test_every_frame_leaves_whole_or_is_dropped_for_want_of_room(setup):
    rng = random.Random(int(os.environ.get("SEED", "1")))
    reasons = play(setup, rng.choices(FRAMES, k=3000), rate=40,
                   overflow=setup.config)
    assert reasons.total() == 3000
    assert reasons[Reason.OVERFLOW] > 100
    assert reasons[Reason.NONE] > 100
    assert reasons[Reason.NOT_IP] > 100


def test_damage_is_told_whether_there_was_room_or_not(setup):
    """A verdict that tells damage does not tell whether anything of the frame left."""
    rng = random.Random(int(os.environ.get("SEED", "1")))
    longer = [FRAMES[3][:-2], FRAMES[3][:-1] + b"!", FRAMES[1] * 160]
    frames = rng.choices([*FRAMES, *longer], k=3000)
    errors = {number for number in range(3000) if rng.random() < 0.3}
    reasons = play(setup, frames, rate=40, overflow=setup.config, errors=errors)
    assert reasons.total() == 3000
    for reason in (Reason.OVERFLOW, Reason.MAC_ERROR, Reason.TRUNCATED, Reason.ICRC,
                   Reason.OVERSIZE, Reason.NONE):
        assert reasons[reason] > 30, reason


@pytest.mark.parametrize(("frame", "error", "reason"), [
    (FRAMES[0], True, Reason.MAC_ERROR), (FRAMES[0][:-1] + b"!", False, Reason.NONE),
    (FRAMES[3][:-1] + b"!", False, Reason.ICRC), (FRAMES[1] * 160, False, Reason.OVERSIZE),
    (FRAMES[3], False, Reason.OVERFLOW)])
def test_want_of_room_is_no_excuse_where_there_is_room(setup, frame, error, reason):
    """The same first frame, of which nothing leaves although nothing can be in the way."""
    judgement = NicModel(setup.flows).judge(frame, error)
    body = expected_verdict(reason.verdict, reason, judgement.flow)
    comparer = Comparer([(None, frame)], NicModel(setup.flows), overflow=setup.config,
                        errors={0} if error else set())
    with pytest.raises(Difference, match=r"^frame 0: "):
        list(comparer.outcomes([Event(Kind.VERDICT, 0, 10, body)]))
        comparer.close(1)


def test_a_damaged_frame_is_marked_wherever_it_leaves(setup):
    reasons = play(setup, FRAMES, rate=128, errors={0, 1, 2, 3})
    assert reasons == {Reason.MAC_ERROR: 3, Reason.NOT_IP: 1, Reason.NO_FLOW: 1, Reason.NONE: 1}


def test_want_of_room_is_a_difference_where_none_is_expected(setup):
    with pytest.raises(Difference, match=r"verdict\.reason: expected none, got overflow"):
        play(setup, [FRAMES[3]] * 200, rate=10)
