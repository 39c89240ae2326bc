# SPDX-License-Identifier: Apache-2.0
"""The fabric harness around a switch that forwards frames, and that breaks one rule at a time."""

import dataclasses

import crossed
import pytest
from crossed import crossed_verilog

from flytrim.sim.build import build_fabric
from flytrim.sim.fabric import Fabric, SimulationError, SinkMode

pytestmark = pytest.mark.model

FRAMES = [bytes(range(1, size + 1)) for size in (60, 61, 64, 65, 1, 8, 9, 200)]


@dataclasses.dataclass
class _Config:
    ports: int
    width: int


@pytest.fixture(scope="module", params=[(4, 64), (2, 512)], ids=["4x64", "2x512"])
def switch(request):
    """(ports, bytes a beat, program)."""
    ports, width = request.param
    return ports, width // 8, build_fabric(_Config(ports, width), crossed_verilog(ports, width))


@pytest.fixture(scope="module")
def program():
    return build_fabric(_Config(4, 64), crossed_verilog(4, 64))


def beats(frames, lanes):
    return sum(-(-len(frame) // lanes) for frame in frames)


def test_every_port_takes_and_gives_frames_bit_exact_and_counts_beats(switch):
    ports, lanes, program = switch
    with Fabric(program) as fabric:
        fabric.reset()
        for port in range(ports):
            for frame in FRAMES[port:]:
                fabric.send(port, frame, error=len(frame) == 9)
        ran = fabric.drain(10_000)
    assert ran.faults == [] and not ran.irq
    for port in range(ports):
        left = [each for each in ran.frames if each.port == port ^ 1]
        assert [each.frame for each in left] == FRAMES[port:]
        assert [each.error for each in left] == [len(frame) == 9 for frame in FRAMES[port:]]
        assert all(each.last - each.first + 1 == beats([each.frame], lanes) for each in left)
        assert ran.beats_in[port] == ran.beats_out[port ^ 1] == beats(FRAMES[port:], lanes)


def test_the_clock_runs_to_the_cycle_that_is_told_and_never_back(program):
    with Fabric(program) as fabric:
        fabric.reset(8)
        assert [fabric.run(until).cycle for until in (8, 20, 10, 150)] == [8, 20, 20, 150]


def test_frames_enter_back_to_back_from_their_cycle_on(program):
    with Fabric(program) as fabric:
        fabric.reset()
        for start, frame in ((40, FRAMES[0]), (0, FRAMES[1]), (100, FRAMES[2])):
            fabric.send(1, frame, start)
        counts = [fabric.run(until).beats_in[1] for until in (40, 41, 47, 48, 56, 100, 101, 108)]
    # Eight beats each, the second right behind the first.
    assert counts == [0, 1, 7, 8, 16, 16, 17, 24]


def test_a_run_in_parts_is_the_run_in_one(program):
    def play(*stops):
        left = []
        with Fabric(program) as fabric:
            fabric.reset()
            fabric.sink(1, SinkMode.RANDOM, rate=100, seed=3)
            for number, frame in enumerate(FRAMES * 4):
                fabric.send(number % 4, frame, 30 * number)
            for stop in stops:
                ran = fabric.run(stop)
                assert ran.faults == []
                left += ran.frames
            return left, ran

    whole, last = play(3000)
    parts, end = play(*range(10, 3001, 13), 3000)
    assert whole == parts and last.beats_out == end.beats_out
    assert len(whole) == 32 and play(3000)[0] == whole


@pytest.mark.parametrize("mode", list(SinkMode), ids=lambda mode: mode.name.lower())
def test_finds_nothing_in_a_switch_that_keeps_the_rules(program, mode):
    with Fabric(program) as fabric:
        fabric.reset()
        for port in range(4):
            fabric.sink(port, mode, rate=100, seed=port + 1)
            for frame in FRAMES:
                fabric.send(port, frame)
        ran = fabric.drain(20_000)
    assert ran.faults == [] and len(ran.frames) == 4 * len(FRAMES)


@pytest.mark.parametrize(("fault", "sentence"), [
    (crossed.DROPS_VALID, "tx1: valid dropped before the transfer"),
    (crossed.CHANGES, "tx1: payload changed while stalled"),
    (crossed.HAS_GAPS, "tx1: a gap after"),
    (crossed.NOT_READY, "rx0: tready is low"),
    (crossed.KEEPS_END, "tx1: a frame stays open after 468 bytes"),
])
def test_finds_each_broken_rule(program, fault, sentence):
    with Fabric(program) as fabric:
        fabric.reset()
        fabric.write(0, fault)
        fabric.sink(1, SinkMode.RANDOM, rate=100, seed=7)
        for frame in FRAMES:
            fabric.send(0, frame)
        ran = fabric.drain(20_000)
    assert any(sentence in each for each in ran.faults), ran.faults


def test_a_drain_that_does_not_end_says_so(program):
    with Fabric(program) as fabric:
        fabric.reset()
        fabric.sink(1, SinkMode.RANDOM, rate=0)
        fabric.send(0, FRAMES[0])
        fabric.send(2, FRAMES[0], 5000)
        ran = fabric.drain(4000)
    assert ran.cycle == 4000
    assert ran.faults == ["cycle 4000: rx2: frames that wait to enter: 1",
                          "cycle 4000: drain: frames still leave"]


def test_frames_leave_during_register_accesses_and_are_told_by_the_next_run(program):
    with Fabric(program) as fabric:
        fabric.reset()
        for port in range(4):
            fabric.send(port, FRAMES[0])
        for number in range(20):
            fabric.write(4, number)
            assert fabric.read(4) == number
        ran = fabric.run(0)
        assert ran.irq and len(ran.frames) == 4 and ran.faults == []
        fabric.write(4, 0)
        assert not fabric.run(0).irq


def test_a_register_access_that_is_not_answered_is_given_up(program):
    with Fabric(program) as fabric:
        fabric.reset()
        fabric.write(0, crossed.SILENT)
        with pytest.raises(SimulationError, match="read of 0x004: axil: no answer to a read of"):
            fabric.read(4)


@pytest.mark.parametrize(("port", "frame", "why"), [
    (4, b"x", "no such port"), (0, b"", "a frame has an unusable length"),
    (0, bytes(65537), "a frame has an unusable length")])
def test_a_program_that_ends_early_says_why(program, port, frame, why):
    with Fabric(program) as fabric:
        fabric.send(port, frame)
        with pytest.raises(SimulationError, match=f"the simulation ended early: {why}"):
            fabric.run(10)


def test_records_waves_from_when_it_is_told(tmp_path):
    program = build_fabric(_Config(2, 64), crossed_verilog(2, 64), "vcd")
    path = tmp_path / "wave.vcd"
    with Fabric(program, path) as fabric:
        fabric.reset()
        fabric.run(100)
        fabric.record()
        fabric.run(200)
        fabric.record(False)
        fabric.run(1000)
    times = [int(line[1:]) for line in path.read_text().splitlines() if line[:1] == "#"]
    # Half cycles, and 256 cycles behind the end.
    assert (times[0], times[-1]) == (2 * 100, 2 * (200 + 256) - 1)


def test_reset_forgets_what_was_queued(program):
    with Fabric(program) as fabric:
        fabric.reset()
        fabric.send(0, FRAMES[7])
        fabric.run(20)
        fabric.reset()
        ran = fabric.drain(1000)
        assert ran.frames == [] and ran.faults == []
        fabric.send(0, FRAMES[0])
        assert [each.frame for each in fabric.drain(2000).frames] == [FRAMES[0]]
