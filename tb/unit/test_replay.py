# SPDX-License-Identifier: Apache-2.0
"""The replay harness against a device that breaks one rule at a time."""

import struct
import subprocess
from pathlib import Path

import pytest

from flytrim.config import NicConfig
from flytrim.sim import verilator
from flytrim.sim.build import build
from flytrim.sim.replay import (
    Kind,
    Output,
    Replay,
    SimulationError,
    SinkMode,
    commands,
    read_command,
    write_command,
)
from flytrim.sim.verilator import wave_format

pytestmark = pytest.mark.model

FRAMES = [bytes(range(1, size + 1)) for size in (60, 61, 64, 65, 1, 8, 9, 200)]
STALLED = {Output.BYPASS: SinkMode.RANDOM, Output.METADATA: SinkMode.RANDOM}


VERILOG = Path(__file__).parents[1].joinpath("data", "faulty_nic.v").read_text()


@pytest.fixture(scope="module")
def program():
    return build(NicConfig(width=64, max_frame=1514), VERILOG)


def play(program, *, fault=0, sinks=(), frames=FRAMES, errors=()):
    """Run ``frames`` and give all events."""
    with Replay(program) as replay:
        replay.reset()
        replay.write(0, fault)
        for output, mode in dict(sinks).items():
            replay.sink(output, mode, rate=100, seed=7)
        replay.feed((frame, n in errors) for n, frame in enumerate(frames))
        return list(replay.events())


def said(events):
    """What the harness found, without repetitions."""
    return {event.body.decode() for event in events if event.kind in (Kind.VIOLATION, Kind.HANG)}


@pytest.mark.parametrize("mode", list(SinkMode), ids=lambda mode: mode.name.lower())
def test_finds_nothing_in_a_device_that_keeps_the_rules(program, mode):
    events = play(program, sinks=dict.fromkeys(Output, mode), errors={3})
    assert said(events) == set()
    frames = [event for event in events if event.kind == Kind.BYPASS]
    assert [frame.body for frame in frames] == FRAMES
    assert [frame.flags for frame in frames] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert [event.body[0] for event in events if event.kind == Kind.METADATA] == [*range(8)]


def test_sends_back_to_back_and_counts_cycles_alike_in_every_run(program):
    first, second = play(program), play(program)
    assert first == second
    entered = [event.cycle for event in first if event.kind == Kind.VERDICT]
    beats = [-(-len(frame) // 8) for frame in FRAMES]
    assert [cycle - entered[0] for cycle in entered] == [sum(beats[:n]) for n in range(8)]
    summary = Replay.summary(first[-1])
    assert (summary.frames, summary.verdicts, summary.stalls) == (8, 8, 0)
    assert summary.beats == summary.last_beat - summary.first_beat + 1 == sum(beats)


@pytest.mark.parametrize(("fault", "sentence"), [
    (1, "bypass: valid dropped before the transfer"),
    (2, "bypass: payload changed while stalled"),
    (3, "bypass: tkeep is empty or has a hole"),
    (4, "bypass: tkeep has 4 of 8 bytes before the last beat"),
    (5, "bypass: byte 7 beyond tkeep is 0x5a, not zero"),
    (6, "rx: tready is low"),
    (7, "drain: after 198657 cycles 8 frames have no verdict"),
    (8, "bypass: a packet stays open after 468 bytes"),
    (9, "verdict: record 0x00000109 belongs to no frame"),
    (12, "meta: valid dropped before the transfer"),
    (13, "meta: payload changed while stalled"),
])
def test_finds_each_broken_rule(program, fault, sentence):
    assert sentence in said(play(program, fault=fault, sinks=STALLED))


def test_an_output_that_waits_for_ready_never_comes(program):
    patient = {Output.BYPASS: SinkMode.AFTER_VALID}
    events = play(program, fault=14, sinks=patient)
    assert not [event for event in events if event.kind == Kind.BYPASS]


def test_a_register_access_is_answered_or_given_up(program):
    with Replay(program) as replay:
        replay.reset()
        replay.write(0x10, 0xCAFEF00D)
        assert replay.read(0x10) == 0xCAFEF00D
        replay.write(0, 10)
        with pytest.raises(SimulationError,
                           match="read of 0x010: axil: no answer to a read of 0x010"):
            replay.read(0x10)
    with Replay(program) as replay:
        replay.reset()
        replay.write(0, 11)
        with pytest.raises(SimulationError, match="axil: bvalid before the write was taken"):
            replay.write(4, 1)


ACCESSES = [write_command(0x10, 0xCAFEF00D), read_command(0x10), write_command(0x14, 1),
            read_command(0x14), read_command(0x10)]
ANSWERS = [(Kind.WRITTEN, 0, struct.pack("<I", 0x10)),
           (Kind.DATA, 0, struct.pack("<II", 0x10, 0xCAFEF00D)),
           (Kind.WRITTEN, 0, struct.pack("<I", 0x14)), (Kind.DATA, 0, struct.pack("<II", 0x14, 1)),
           (Kind.DATA, 0, struct.pack("<II", 0x10, 0xCAFEF00D))]


def parted(events):
    """(answers to register accesses, all other events)."""
    answers = [event for event in events if event.kind in (Kind.WRITTEN, Kind.DATA)]
    return answers, [event for event in events if event not in answers]


def play_with(program, *items):
    with Replay(program) as replay:
        replay.reset()
        replay.feed((item, False if item in FRAMES else None) for item in items)
        return parted([*replay.events()])


def test_registers_are_accessed_while_frames_enter(program):
    _, undisturbed = play_with(program, *FRAMES, *FRAMES)
    *accesses, last = ACCESSES
    mixed = [item for pair in zip(FRAMES, accesses, strict=False) for item in pair]
    answers, others = play_with(program, *mixed, *FRAMES[4:], *FRAMES, last)
    assert others == undisturbed
    assert [(kind, flags, body) for kind, flags, cycle, body in answers] == ANSWERS
    # Each within the frame that follows it, or the two where these are a beat each.
    entered = [event.cycle for event in others if event.kind == Kind.VERDICT]
    assert [sum(cycle < event.cycle for cycle in entered) for event in answers] == [2, 3, 4, 6, 16]


def test_an_access_waits_for_the_one_before_it(program):
    _, undisturbed = play_with(program, *FRAMES)
    answers, others = play_with(program, FRAMES[0], *ACCESSES, *FRAMES[1:])
    assert [(kind, flags, body) for kind, flags, cycle, body in answers] == ANSWERS
    first, second = ([event.cycle for event in events if event.kind == Kind.VERDICT]
                     for events in (undisturbed, others))
    gap = second[1] - first[1]
    assert [one - other for one, other in zip(second, first, strict=True)] == [0, *[gap] * 7]
    # The last one has only begun when the next frame enters.
    assert answers[-2].cycle == second[1] < answers[-1].cycle


def test_reset_and_end_wait_for_an_access(program):
    reset = struct.pack("<BxHI", 6, 0, 8)
    stream = b"".join([reset, write_command(0x10, 5), reset, read_command(0x10), *commands([])])
    events = subprocess.run([program], input=stream, stdout=subprocess.PIPE, check=True).stdout
    answers, at = [], 0
    while at < len(events):
        kind, flags, size, _ = struct.unpack_from("<BBxxIQ", events, at)
        answers.append((kind, flags, events[at + 16:at + 16 + size]))
        at += 16 + size
    assert answers[:2] == [(Kind.WRITTEN, 0, struct.pack("<I", 0x10)),
                           (Kind.DATA, 0, struct.pack("<II", 0x10, 5))]
    assert [kind for kind, *_ in answers[2:]] == [Kind.SUMMARY]


@pytest.mark.parametrize("frames", [FRAMES * 100, []], ids=["frames", "end"])
def test_an_access_without_an_answer_is_given_up_meanwhile(program, frames):
    with Replay(program) as replay:
        replay.reset()
        replay.write(0, 10)
        replay.feed([(read_command(0x10), None), *((frame, False) for frame in frames)])
        answers, others = parted([*replay.events()])
    assert [(event.kind, event.flags) for event in answers] == [(Kind.DATA, 0xFF)]
    assert said(others) == {"axil: no answer to a read of 0x010"}
    assert answers[0].cycle == 8 + 2 + 1000
    if frames:
        assert replay.totals.beats == replay.totals.last_beat - replay.totals.first_beat + 1


def test_an_error_among_the_frames_reaches_the_reader(program):
    def frames():
        yield FRAMES[0], False
        raise OSError("the disk is gone")

    with Replay(program) as replay:
        replay.reset()
        replay.feed(frames())
        with pytest.raises(OSError, match="the disk is gone"):
            list(replay.events())


def test_a_harness_that_ends_early_says_why(program):
    with Replay(program) as replay:
        replay.feed([(b"", False)])
        with pytest.raises(SimulationError, match="a frame has an unusable length"):
            list(replay.events())


@pytest.mark.parametrize("side_width", [1, 40, 256])
def test_drives_a_device_with_a_side_band(side_width):
    verilog = VERILOG.replace("[0:0]   s_axis_rx_tuser", f"[{side_width}:0] s_axis_rx_tuser")
    verilog = verilog.replace("[0:0]   m_axis_bypass_tuser",
                              f"[{side_width}:0] m_axis_bypass_tuser")
    verilog = verilog.replace("[255:0] m_axis_meta_tdata",
                              f"[{255 + side_width}:0] m_axis_meta_tdata")
    program = build(NicConfig(width=64, max_frame=1514, side_width=side_width), verilog)
    events = play(program, errors={3})
    assert said(events) == set()
    frames = [event for event in events if event.kind == Kind.BYPASS]
    assert [frame.body for frame in frames] == FRAMES
    assert [frame.flags for frame in frames] == [0, 0, 0, 1, 0, 0, 0, 0]


@pytest.fixture(scope="module", params=["fst", "vcd"])
def waves(request):
    """(kind, program that records waves of it)."""
    if request.param == "fst" and wave_format()[0] != "fst":
        pytest.skip(wave_format()[1])
    return request.param, build(NicConfig(width=64, max_frame=1514), VERILOG, request.param)


def record(program, path, span, *, frames=FRAMES, whole=True):
    with Replay(program, path) as replay:
        replay.reset()
        replay.feed(((frame, False) for frame in frames), span)
        for event in replay.events():
            if not whole and event.kind == Kind.VERDICT:
                break
    return event


def times(path):
    """First and last time in a file of waves."""
    if path.suffix == ".vcd":
        steps = [int(line[1:]) for line in path.read_text().splitlines() if line[:1] == "#"]
        return steps[0], steps[-1]
    # The header, which is completed when the file is closed: kind 0, bytes, first and last time.
    kind, _, first, last = struct.unpack_from(">BQQQ", path.read_bytes())
    assert kind == 0
    return first, last


def test_records_waves_of_the_frames_asked_for(waves, tmp_path):
    kind, program = waves
    path = tmp_path / f"wave.{kind}"
    frames = [bytes(64)] * 1000
    record(program, path, range(100, 110), frames=frames)
    few = path.stat().st_size
    # Eight cycles of reset and 100 frames of 8 beats; then 10 frames and what is in flight.
    start, end = 8 + 100 * 8, 8 + 110 * 8 + 256
    assert times(path) == (2 * start, 2 * end - 1)
    record(program, path, range(100, 500), frames=frames)
    assert path.stat().st_size > few
    record(program, path, range(2000, 2001), frames=frames)
    assert path.stat().st_size < few


def test_waves_are_whole_when_a_run_is_given_up(waves, tmp_path):
    kind, program = waves
    path = tmp_path / f"wave.{kind}"
    record(program, path, range(0, 8), frames=FRAMES * 10_000, whole=False)
    first, last = times(path)
    assert first == 2 * 8
    assert last > first + 2 * 32


def test_waves_do_not_fill_the_disk(waves, tmp_path):
    kind, program = waves
    path = tmp_path / f"wave.{kind}"
    record(program, path, range(0, 5000), frames=[bytes(64)] * 5000)
    first, last = times(path)
    assert last - first + 1 == 2 * 5000


def test_says_what_is_missing_for_fst(monkeypatch):
    monkeypatch.setattr(verilator, "_has_header", lambda name: name == "zlib.h")
    kind, reason = wave_format()
    assert kind == "vcd"
    assert reason.startswith("FST needs the headers of lz4 and zlib, and lz4.h is missing (")
    monkeypatch.setattr(verilator, "_has_header", lambda name: True)
    assert wave_format() == ("fst", None)
