# SPDX-License-Identifier: Apache-2.0
"""TrimNic under hostile traffic at full rate while sinks stall: what has no room is dropped whole.

The model follows the drops: whatever else leaves is right in every bit and in order, a frame is
only dropped where room may be short, and when the sinks are back nothing is dropped any more.
"""

import random
from collections import Counter

import harness
import pytest
from hostile import GOOD, hostile_frames
from replayed import FLOWS, play

from flytrim.config import NicConfig
from flytrim.model import NicModel
from flytrim.sim.build import build, device_verilog
from flytrim.sim.replay import Output, SinkMode, idle_command, sink_command
from flytrim.verdict import Reason, Verdict

#: Hostile frames before, while and after sinks stall.
BEFORE, STALLED, AFTER = 100, 2000, 300
ALL = tuple(Output)


@pytest.fixture
def device(width):
    config = NicConfig(width=width)
    return build(config, device_verilog(config)), config


@pytest.fixture
def traffic(request, width):
    """(text that names the run, random source, function that makes hostile frames)."""
    about = f"{request.node.name}, SEED={harness.seed()}"
    rng, config = random.Random(about), NicConfig(width=width)
    return about, rng, lambda count: list(hostile_frames(
        rng, count, beat=config.lanes, max_frame=config.max_frame))


def take_always(config):
    """Commands: every sink is back, and takes all that waits."""
    return [*(sink_command(output, SinkMode.ALWAYS) for output in ALL),
            idle_command(config.queue_beats + config.queue_records)]


def run(device, traffic, stalled, after, record_property):
    """Play ``stalled`` and then ``after`` with all sinks back; outputs that lost frames, how many.

    Whatever comes ``after`` must find room.
    """
    program, config = device
    items = [*stalled, *take_always(config), *after]
    end = sum(not isinstance(item, bytes) for item in stalled)
    lost, damaged, model = Counter(), 0, NicModel(FLOWS, config.max_frame)
    for outcome in play(program, config, items, traffic[0], overflow=True):
        sent = outcome.header
        if outcome.reason is Reason.OVERFLOW:
            assert outcome.index < end, f"{traffic[0]}: frame {outcome.index} is lost: {sent}"
            assert outcome.output is None
            judgement = model.judge(sent.frame, sent.error)
            lost[Output.BYPASS if judgement.payload is None else Output.TRIM] += 1
        elif outcome.verdict is Verdict.DROP and outcome.output is None:
            assert outcome.index < end
            damaged += 1
        elif sent.kind == GOOD:
            assert (outcome.verdict, outcome.output) == (Verdict.TRIM, sent.payload)
    text = (f"{end + len(after):>6,} frames, no room for {lost[Output.BYPASS]:>5,} to bypass, "
            f"{lost[Output.TRIM]:>5,} to trim, {damaged:>4,} damaged ones: {traffic[0]}")
    print(text)
    record_property("overload", text)
    return lost, damaged


@pytest.mark.model
@pytest.mark.parametrize("outputs", [ALL[:1], ALL[1:2], ALL[2:], ALL],
                         ids=["trim", "bypass", "metadata", "all"])
def test_a_sink_that_stalls_for_ever_costs_frames_of_its_own(device, traffic, outputs,
                                                             record_property):
    _, _, frames = traffic
    stalled = [*frames(BEFORE), *(sink_command(output, SinkMode.RANDOM, rate=0)
                                  for output in outputs), *frames(STALLED)]
    lost, damaged = run(device, traffic, stalled, frames(AFTER), record_property)
    # Payloads and their records wait for each other.
    ports = {min(output, Output.BYPASS) if output != Output.METADATA else Output.TRIM
             for output in outputs}
    assert set(lost) == ports
    assert all(lost[port] > STALLED // 10 for port in ports)
    assert damaged > STALLED // 50 or outputs == (Output.BYPASS,)


@pytest.mark.model
def test_sinks_that_stall_for_a_while_cost_frames_until_they_are_back(device, traffic,
                                                                      record_property):
    _, rng, frames = traffic
    stalled = []
    for turn in range(30):
        # Long enough to fill a queue at times, and back for too short a time to empty it.
        long = turn % 10 == 5
        for output in ALL:
            mode = SinkMode.RANDOM if long else rng.choice((SinkMode.ALWAYS, SinkMode.RANDOM))
            stalled.append(sink_command(output, mode, rate=0))
        stalled += frames(800 if long else rng.choice((5, 50, 200)))
    lost, damaged = run(device, traffic, stalled, frames(AFTER), record_property)
    assert lost[Output.TRIM] > 100 and lost[Output.BYPASS] > 20 and damaged > 10


@pytest.mark.model
def test_sinks_that_take_a_beat_now_and_then_cost_whole_frames(device, traffic, record_property):
    _, rng, frames = traffic
    stalled = []
    for rate in (1, 2, 10, 30, 128) * 3:
        slowest = rng.choice(ALL)
        for output in ALL:
            mode = rng.choice((SinkMode.RANDOM, SinkMode.RANDOM, SinkMode.AFTER_VALID))
            if output == slowest:
                mode = SinkMode.RANDOM
            stalled.append(sink_command(output, mode, rate=rate, seed=rng.getrandbits(32)))
        stalled += frames(200)
    lost, damaged = run(device, traffic, stalled, frames(AFTER), record_property)
    assert lost[Output.TRIM] > 100 and lost[Output.BYPASS] > 20 and damaged > 10
