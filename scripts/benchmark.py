# SPDX-License-Identifier: Apache-2.0
"""Line rate and latency of the device at every width, and how fast a replay runs.

    PYTHONPATH=tb:tb/system python scripts/benchmark.py [--widths 64,512] [--frames N]

First table: frames back to back, trimmed and bypassed in turn, each held against the model on every
bit; latency is from a frame's first beat in to its first beat out. Second table: for each header
stack, cycles from the beat that completes the headers to the first beat of a longer payload, and
from the frame's last beat to the payload where that is one beat, which leaves when the frame is
known to be good; each must be one number. Third: N frames of 60 bytes through the compiled harness
alone, and through ``flytrim sim`` with every output and every check; and fewer frames of all kinds
through the harness and through a bench in cocotb, the same ones. SEED is the seed of all that is
random.

Exit status 1 where not every cycle took a beat, a frame was lost, or a stack has two latencies.
"""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import frames
import harness
import test_nic_replay
from rich.console import Console
from rich.table import Table
from scapy.utils import RawPcapWriter

from flytrim.config import WIDTHS, NicConfig
from flytrim.driver import Device
from flytrim.generate import nic_verilog
from flytrim.model import Flow, NicModel
from flytrim.sim.build import build, device_verilog
from flytrim.sim.compare import Comparer
from flytrim.sim.replay import Replay, commands
from flytrim.verdict import Verdict

#: Flows that are registered, and a queue pair of none; most frames are of the first flow.
FLOWS, STRANGER = [Flow(**vars(flow)) for flow in frames.FLOWS], 0x999999
#: Header stacks: opcode and what makes the frame's headers long.
STACKS = {
    "IPv4, SEND": ("RC_SEND_MIDDLE", {}),
    "IPv4, WRITE": ("RC_WRITE_FIRST", {}),
    "IPv4, two tags, WRITE": ("RC_WRITE_FIRST", {"vlans": ((0x88A8, 7), (0x8100, 9))}),
    "IPv6, SEND": ("RC_SEND_MIDDLE", {"src": "fd00::1", "dst": "fd00::9"}),
}
#: Frames of the mixed row.
MIXED = 5000
#: Frames that go through a bench in cocotb.
SLOW = 2000
TOML = """\
[device]
width = 512

[[flow]]
name = "a"
src = "{flow.src}"
dst = "{flow.dst}"
dqpn = {flow.dqpn}
action = "trim"
"""


def around(numbers):
    return sorted({number + step for number in numbers for step in (-1, 0, 1)
                   if 60 <= number + step <= 9216})


def frame_of(size, rng, opcode="RC_SEND_MIDDLE", **fields):
    """A frame of ``size`` bytes whose payload reaches to its end."""
    empty = len(frames.roce_frame(opcode, b"", pad=0, minimum=0, **fields))
    return frames.roce_frame(opcode, rng.randbytes(max(0, size - empty)), pad=0, minimum=0,
                             **fields)


def rows(lanes, rng):
    """(name, frames) of each row of the first table; trimmed and bypassed in turn."""
    sizes = {
        "60 to 200 bytes, each": range(60, 201),
        "60 bytes": [60] * 1000,
        "65 bytes": [65] * 1000,
        "around each beat": around(range(lanes, 9217, lanes)),
        "around powers of two": around(1 << n for n in range(6, 14)),
        "9,216 bytes": [9216] * 20,
    }
    for name, chosen in sizes.items():
        yield name, [frame_of(size, rng, **fields) for size in chosen
                     for fields in ({}, {"dqpn": STRANGER})]
    yield f"{MIXED:,} mixed", [frames.random_frame(rng) for _ in range(MIXED)]


class Run:
    """Frames back to back through the device, each held against the model."""

    def __init__(self, program, config, sent):
        with Replay(program) as replay:
            replay.reset()
            Device(replay).insert_flows(FLOWS)
            replay.feed((frame, False) for frame in sent)
            comparer = Comparer(((None, frame) for frame in sent),
                                NicModel(FLOWS, config.max_frame))
            self.outcomes = list(comparer.outcomes(replay.events()))
            comparer.close(len(sent))
            self.summary = replay.totals

    @property
    def rate(self):
        """Beats accepted a cycle, from the first beat to the last."""
        return self.summary.beats / (self.summary.last_beat - self.summary.first_beat + 1)

    def latency(self, verdict):
        """(least, most) cycles from a frame's first beat in to its first beat out."""
        found = [outcome.cycle_out - outcome.cycle_in for outcome in self.outcomes
                 if outcome.verdict is verdict and outcome.cycle_out is not None]
        return (min(found), max(found)) if found else None


def stack_latencies(program, config, rng, opcode, fields):
    """The latencies of longer payloads, from the beat that completes the header stack, and those
    of payloads of one beat, from the frame's last beat."""
    header = len(frames.roce_frame(opcode, b"", pad=0, minimum=0, **fields)) - 4
    sent = [frame_of(size, rng, opcode, **fields)
            for size in (*range(header + 5, header + 205), *around((512, 1024, 4096, 9216)))]
    longer, shorter = set(), set()
    for outcome in Run(program, config, sent).outcomes:
        cycles = outcome.cycle_out - outcome.cycle_in
        if len(outcome.output) > config.lanes:
            longer.add(cycles - (header - 1) // config.lanes)
        else:
            shorter.add(cycles - (len(outcome.frame) - 1) // config.lanes)
    return longer, shorter


def span(pair):
    return "-" if pair is None else " to ".join(str(end) for end in sorted(set(pair)))


def rate_tables(widths, console):
    """Prints the first two tables; whether all is as it must be."""
    good = True
    rate = Table("bits", "frames", "number", "beats/cycle", "stalls", "lost", "trim", "bypass",
                 box=None, padding=(0, 2, 0, 0))
    fixed = Table("bits", *STACKS, box=None, padding=(0, 2, 0, 0))
    for width in widths:
        rng, config = random.Random(harness.seed()), NicConfig(width=width)
        program = build(config, device_verilog(config), say=console.print)
        for name, sent in rows(config.lanes, rng):
            run = Run(program, config, sent)
            lost = sum(outcome.reason.name == "OVERFLOW" for outcome in run.outcomes)
            good &= run.rate == 1 and not run.summary.stalls and not lost
            rate.add_row(str(width), name, f"{len(sent):,}", f"{run.rate:.3f}",
                         str(run.summary.stalls), str(lost), span(run.latency(Verdict.TRIM)),
                         span(run.latency(Verdict.BYPASS)))
        found = [stack_latencies(program, config, rng, *stack) for stack in STACKS.values()]
        good &= all(len(latencies) == 1 for pair in found for latencies in pair)
        fixed.add_row(str(width), *("; ".join(", ".join(map(str, sorted(each))) for each in pair)
                                    for pair in found))
    console.print(rate)
    console.print("\nCycles from the beat that completes the headers to the first of several beats "
                  "of payload; from the last beat to a payload of one")
    console.print(fixed)
    return good


def replay_speed(count, console):
    """Prints frames a second of the harness alone and of the whole command."""
    rng, config = random.Random(harness.seed()), NicConfig(width=512)
    program = build(config, device_verilog(config), say=console.print)
    some = [frame_of(60, rng, "RC_SEND_ONLY", psn=n, **({"dqpn": STRANGER} if n % 4 == 0 else {}))
            for n in range(500)]
    sent = [some[n % len(some)] for n in range(count)]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        script, capture = Path(folder, "commands"), Path(folder, "capture.pcap")
        with open(script, "wb") as file:
            file.writelines(commands((frame, False) for frame in sent))
        with open(script, "rb") as file:
            begun = time.perf_counter()
            subprocess.run([program], stdin=file, stdout=subprocess.DEVNULL, check=True)
            alone = count / (time.perf_counter() - begun)
        with RawPcapWriter(str(capture), linktype=1) as writer:
            writer.write_header(None)
            for n, frame in enumerate(sent):
                writer.write_packet(frame, sec=n // 1_000_000, usec=n % 1_000_000)
        flows = Path(folder, "flows.toml")
        flows.write_text(TOML.format(flow=FLOWS[0]))
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "flytrim", "sim", capture, "--flows", flows,
                        "--out", Path(folder, "out")], stdout=subprocess.DEVNULL, check=True)
        whole = count / (time.perf_counter() - begun)
    console.print(f"\n{count:,} frames of 60 bytes, 512 bits, {os.cpu_count()} processors:")
    console.print(f"  harness alone   {alone:>10,.0f} frames a second")
    console.print(f"  flytrim sim     {whole:>10,.0f} frames a second, every output, every check")


def against_cocotb(console):
    """Prints frames a second of the harness and of a cocotb bench, for the same frames."""
    config = NicConfig(width=512)
    program = build(config, device_verilog(config), say=console.print)
    model = harness.build(nic_verilog(config), "flytrim_nic")
    os.environ["REPLAY_FRAMES"] = str(SLOW)
    sent = test_nic_replay.frames_of(harness.seed())
    begun = time.perf_counter()
    test_nic_replay.replayed(program, sent)
    quick = SLOW / (time.perf_counter() - begun)
    begun = time.perf_counter()
    with contextlib.redirect_stdout(None):
        harness.run(model, test_nic_replay.__name__, parameters={"width": 512})
    slow = SLOW / (time.perf_counter() - begun)
    console.print(f"\n{SLOW:,} frames of all kinds, 512 bits, the same answers in the same cycles:")
    console.print(f"  replay harness  {quick:>10,.0f} frames a second")
    console.print(f"  cocotb bench    {slow:>10,.0f} frames a second")


@click.command()
@click.option("--widths", default=",".join(map(str, WIDTHS)), show_default=True)
@click.option("--frames", "count", default=1_000_000, show_default=True,
              help="Frames of the replay's part.")
def main(widths, count):
    """Print line rate, latency and replay speed."""
    console = Console(highlight=False, width=120)
    console.print(f"SEED={harness.seed()}")
    good = rate_tables([int(width) for width in widths.split(",")], console)
    replay_speed(count, console)
    against_cocotb(console)
    sys.exit(not good)


if __name__ == "__main__":
    main()
