# SPDX-License-Identifier: Apache-2.0
"""The replay harness and a bench in cocotb say the same of the same frames, cycle by cycle.

Each stream that leaves is compared in order: words, bytes, error flags, and the cycles in which
they leave, counted from the first beat that enters.
"""

import json
import os
import random
from pathlib import Path

import cocotb
import frames
import harness
import pytest
from amaranth import Shape
from bench import FLOWS, NicBench

from flytrim.config import NicConfig
from flytrim.context import MetaRecord
from flytrim.driver import Device
from flytrim.sim.build import build, device_verilog
from flytrim.sim.replay import Kind, Replay

#: Frames that go through both, where ``REPLAY_FRAMES`` says nothing else.
COUNT = 600
#: What stands above these in a metadata record is the side band.
RECORD_BITS = Shape.cast(MetaRecord).width
KINDS = {Kind.TRIM: "m_axis_trim", Kind.BYPASS: "m_axis_bypass"}


def frames_of(seed):
    """(frame, MAC error) of every frame of a run."""
    rng = random.Random(seed)
    count = int(os.environ.get("REPLAY_FRAMES", COUNT))
    return [(frames.random_frame(rng), rng.random() < 0.05) for _ in range(count)]


@pytest.mark.model
def test_replay_says_what_the_bench_says(nic, tmp_path, monkeypatch):
    model, parameters = nic
    report = tmp_path / "bench.json"
    monkeypatch.setenv("REPLAY_REPORT", str(report))
    assert harness.run(model, __name__, parameters=parameters) == 1
    from_bench = json.loads(report.read_text())

    # The side band goes past all that is compared.
    config = NicConfig(**parameters | {"side_width": 0})
    from_replay = replayed(build(config, device_verilog(config)), frames_of(harness.seed()))
    assert sorted(from_replay) == sorted(from_bench)
    for stream, items in from_bench.items():
        for number, (one, other) in enumerate(zip(items, from_replay[stream], strict=False)):
            assert one == other, f"{stream}, item {number}"
        assert len(items) == len(from_replay[stream]) > COUNT // 10, stream


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def the_same_frames(dut):
    bench = await NicBench(dut).start()
    for data, error in frames_of(harness.seed()):
        bench.send(data, error=error)
    await bench.finish(at_least=COUNT)
    entered = [frame.first_cycle for frame in bench.source.accepted]
    begun = entered[0]
    found = {name: [[frame.data.hex(), frame.error, frame.first_cycle - begun]
                    for frame in bench.seen[name]] for name in KINDS.values()}
    found |= {
        "m_axis_meta": [[word & (1 << RECORD_BITS) - 1, cycle - begun] for word, cycle in zip(
            bench.seen["m_axis_meta"], bench.record_cycles, strict=True)],
        "m_axis_verdict": [[word, cycle - begun] for word, cycle in zip(
            bench.seen["m_axis_verdict"], entered, strict=True)],
    }
    if "REPLAY_REPORT" in os.environ:
        Path(os.environ["REPLAY_REPORT"]).write_text(json.dumps(found))


def replayed(program, sent):
    """What the replay harness says of ``sent``: {stream: items in order}."""
    with Replay(program) as replay:
        replay.reset()
        Device(replay).insert_flows(FLOWS)
        replay.feed(sent)
        events = list(replay.events())
        begun = replay.totals.first_beat
    found = {name: [[event.body.hex(), bool(event.flags & 1), event.cycle - begun]
                    for event in events if event.kind == kind] for kind, name in KINDS.items()}
    for kind, name in ((Kind.METADATA, "m_axis_meta"), (Kind.VERDICT, "m_axis_verdict")):
        found[name] = [[int.from_bytes(event.body, "little"), event.cycle - begun]
                       for event in events if event.kind == kind]
    return found
