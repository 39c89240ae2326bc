# SPDX-License-Identifier: Apache-2.0
"""``flytrim sim`` and ``flytrim flows``: captures in."""

import sys
from pathlib import Path

import click
from rich.console import Console

from ..errors import InputError
from .options import FrameRange
from .terminal import check_folder, progress_bar, say, warn, write

__all__ = ["find", "sim"]

#: Frames to record waves of where nothing else is said.
WAVE_FRAMES = 200


@click.command()
@click.argument("capture", type=click.Path())
@click.option("--flows", "flows_path", required=True, type=click.Path(), metavar="FLOWS.toml",
              help="The device and its registered flows.")
@click.option("--out", required=True, type=click.Path(), metavar="DIR",
              help="Folder for verdicts.jsonl, bypass.pcap, report.json and report.html.")
@click.option("--check", type=click.Choice(["all", "sample", "none"]), default="all",
              show_default=True, help="Frames to hold against the model; sample: one of 100.")
@click.option("--wave", is_flag=True,
              help=f"Record waves of the first {WAVE_FRAMES} frames: wave.fst, or wave.vcd.")
@click.option("--wave-frames", type=FrameRange(), metavar="FIRST:COUNT",
              help="Record waves of these frames; at most 5000 cycles.")
@click.option("--registers", type=click.Path(), metavar="SOCKET",
              help="Where flytrim regs and flytrim monitor find the device while it runs. The "
                   "model does not follow what they change: give --check none along with that.")
def sim(capture, flows_path, out, check, wave, wave_frames, registers):
    """Run CAPTURE (pcap or pcapng) through the RTL, each frame checked against the model."""
    # Late, so that --help and a fault in the arguments do not wait for the hardware's imports.
    from .. import flows
    from ..sim.capture import Capture
    from ..sim.compare import Difference
    from ..sim.run import Options, run
    from ..sim.table import print_figures

    setup = flows.load(flows_path)
    source = Capture.scan(capture)
    for warning in source.warnings:
        warn(warning)
    waves = wave_frames or range(WAVE_FRAMES if wave else 0)
    if waves and waves.start >= source.frames:
        raise InputError(f"{capture}: has {source.frames} frames, and --wave-frames begins with "
                         f"frame {waves.start}: begin below {source.frames}")
    options = Options(check, waves, registers)
    try:
        with progress_bar(source.frames) as progress:
            figures = run(source, setup, out, options, warn=warn, say=say,
                          progress=progress)
    except Difference as difference:
        remedy = (f"; if flows were changed through {registers}, give --check none"
                  if registers else "")
        click.echo(f"flytrim: RTL and model disagree: {difference}{remedy}", err=True)
        sys.exit(1)
    print_figures(figures, Console(highlight=False))
    click.echo(f"Results are in {out}; report.html there shows more.")


@click.command("flows")
@click.argument("capture", type=click.Path())
@click.option("--udp-dport", type=click.IntRange(1, 65535), default=4791, show_default=True,
              help="UDP destination port of the flows.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE",
              help="Where to write; standard output if not given.")
def find(capture, udp_dport, output):
    """Print the RoCEv2 flows of CAPTURE as a FLOWS.toml that can be run at once."""
    from ..discover import find_flows, flows_toml
    from ..sim.capture import Capture

    if output is not None:
        check_folder(output)
    source = Capture.scan(capture)
    for warning in source.warnings:
        warn(warning)
    with progress_bar(source.frames) as progress:
        found = find_flows(_counted((frame for _, frame in source), progress), udp_dport)
    useful = sum(flow.to_trim for flow in found)
    if not useful:
        raise InputError(f"{capture}: nothing to trim: {_nothing(source.frames, found, udp_dport)}")
    text = flows_toml(found, Path(capture).name)
    if output is None:
        click.echo(text, nl=False)
        return
    write(output, text)
    click.echo(f"{useful} flow{'s' if useful > 1 else ''} to trim in {output}.")


def _nothing(frames, found, port):
    """Why there is nothing to trim, and what to do about it."""
    if not found:
        return (f"none of its {frames:,} frames is RoCEv2 to UDP port {port}; give --udp-dport for "
                f"another port")
    if any(flow.packets for flow in found):
        return "its RoCEv2 payload is management alone (queue pair 0 or 1)"
    flows = "flow carries" if len(found) == 1 else "flows carry"
    return (f"its {len(found)} RoCEv2 {flows} no payload, only acknowledgements, requests or "
            f"notifications")


def _counted(items, progress):
    """``items``, with a word to ``progress`` now and then."""
    for number, item in enumerate(items):
        if progress and number % 1000 == 0:
            progress(number)
        yield item
