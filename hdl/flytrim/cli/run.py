# SPDX-License-Identifier: Apache-2.0
"""``flytrim sim`` and ``flytrim flows``: captures in."""

import contextlib
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
@click.argument("capture", type=click.Path(), required=False)
@click.option("--top", type=click.Choice(["nic", "switch"]), default="nic", show_default=True,
              help="An endpoint, or a switch that reduces the groups of FLOWS.toml.")
@click.option("--port", "ports", type=click.Path(), multiple=True, metavar="CAPTURE",
              help="What enters a switch: the first one given port 0, the next one port 1, and so "
                   "on.")
@click.option("--flows", "flows_path", required=True, type=click.Path(), metavar="FLOWS.toml",
              help="The device and its registered flows.")
@click.option("--out", required=True, type=click.Path(), metavar="DIR",
              help="Folder for verdicts.jsonl, bypass.pcap, report.json and report.html; of a "
                   "switch for report.json, and tx0.pcap and so on, what left each port.")
@click.option("--check", type=click.Choice(["all", "sample", "none"]), default="all",
              show_default=True, help="Frames to hold against the model; sample: one of 100.")
@click.option("--wave", is_flag=True,
              help=f"Record waves of the first {WAVE_FRAMES} frames: wave.fst, or wave.vcd.")
@click.option("--wave-frames", type=FrameRange(), metavar="FIRST:COUNT",
              help="Record waves of these frames; at most 5000 cycles.")
@click.option("--registers", type=click.Path(), metavar="SOCKET",
              help="Where flytrim regs and flytrim monitor find the device while it runs. The "
                   "model does not follow what they change: give --check none along with that.")
@click.pass_context
def sim(context, capture, top, ports, flows_path, out, check, wave, wave_frames, registers):
    """Run CAPTURE (pcap or pcapng) through the RTL, each frame checked against the model.

    With --top switch a capture enters each port instead, all from the same cycle on, and what
    leaves is checked: --port, --flows and --out are its options.
    """
    if top == "switch":
        _check_switch_options(context, capture, ports)
        _sim_switch(ports, flows_path, out)
        return
    if ports:
        raise click.UsageError("--port is for a switch: give --top switch as well.")
    if capture is None:
        raise click.UsageError("Missing argument 'CAPTURE'.")
    # Late, so that --help and a fault in the arguments do not wait for the hardware's imports.
    from .. import flows
    from ..sim.run import Options, run
    from ..sim.table import print_figures

    setup = flows.load(flows_path)
    source = _scan(capture)
    waves = wave_frames or range(WAVE_FRAMES if wave else 0)
    if waves and waves.start >= source.frames:
        raise InputError(f"{capture}: has {source.frames} frames, and --wave-frames begins with "
                         f"frame {waves.start}: begin below {source.frames}")
    options = Options(check, waves, registers)
    remedy = (f"; if flows were changed through {registers}, give --check none"
              if registers else "")
    with progress_bar(source.frames) as progress, _disagreed(remedy):
        figures = run(source, setup, out, options, warn=warn, say=say, progress=progress)
    print_figures(figures, Console(highlight=False))
    click.echo(f"Results are in {out}; report.html there shows more.")


def _check_switch_options(context, capture, ports):
    if capture is not None:
        raise click.UsageError(f"CAPTURE is for a NIC: give a switch --port {capture}, and one "
                               f"--port more for each further port.")
    if not ports:
        raise click.UsageError("Missing option '--port': what enters port 0, then port 1, and so "
                               "on.")
    for name in ("check", "wave", "wave_frames", "registers"):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} is for a NIC: remove it.")


def _sim_switch(ports, flows_path, out):
    from .. import groups
    from ..sim.switch_run import run_switch
    from ..sim.switch_table import print_switch_figures

    setup = groups.load(flows_path)
    if len(ports) > setup.config.ports:
        raise InputError(f"{flows_path}: the switch has {setup.config.ports} ports, and --port is "
                         f"given {len(ports)} times: give fewer, or more 'ports' in [device]")
    sources = [_scan(capture) for capture in ports]
    with progress_bar(sum(source.frames for source in sources)) as progress, _disagreed():
        figures = run_switch(sources, setup, out, say=say, progress=progress)
    print_switch_figures(figures, Console(highlight=False))
    click.echo(f"Results are in {out}.")


def _scan(capture):
    from ..sim.capture import Capture

    source = Capture.scan(capture)
    for warning in source.warnings:
        warn(warning)
    return source


@contextlib.contextmanager
def _disagreed(remedy=""):
    """A difference ends the command with status 1."""
    from ..sim.compare import Difference

    try:
        yield
    except Difference as difference:
        click.echo(f"flytrim: RTL and model disagree: {difference}{remedy}", err=True)
        sys.exit(1)


@click.command("flows")
@click.argument("capture", type=click.Path())
@click.option("--udp-dport", type=click.IntRange(1, 65535), default=4791, show_default=True,
              help="UDP destination port of the flows.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE",
              help="Where to write; standard output if not given.")
def find(capture, udp_dport, output):
    """Print the RoCEv2 flows of CAPTURE as a FLOWS.toml that can be run at once."""
    from ..discover import find_flows, flows_toml

    if output is not None:
        check_folder(output)
    source = _scan(capture)
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
