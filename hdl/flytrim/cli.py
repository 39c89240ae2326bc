# SPDX-License-Identifier: Apache-2.0
"""The command ``flytrim``.

Exit status: 0 all well, 1 RTL and model disagree, 2 something given cannot be worked with, 130
interrupted.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from . import __version__
from .config import MAX_FRAME, NicConfig
from .errors import InputError

__all__ = ["cli", "main"]

#: Captures with fewer frames are done before a progress bar could be read.
PROGRESS_FRAMES = 20_000
#: Frames to record waves of where nothing else is said.
WAVE_FRAMES = 200


class _FrameRange(click.ParamType):
    """``FIRST:COUNT`` or ``COUNT`` as a range of frame numbers."""

    name = "frames"

    def convert(self, value, param, ctx):
        first, _, count = value.rpartition(":")
        try:
            first, count = int(first or 0), int(count)
        except ValueError:
            count = 0
        if count < 1 or first < 0:
            self.fail(f"{value!r} is no range of frames: write FIRST:COUNT, such as 0:200.")
        return range(first, first + count)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flytrim")
def cli():
    """Packet-trimming hardware for collective traffic: simulate it, generate it."""


@cli.command()
@click.argument("capture", type=click.Path())
@click.option("--flows", "flows_path", required=True, type=click.Path(), metavar="FLOWS.toml",
              help="The device and its registered flows.")
@click.option("--out", required=True, type=click.Path(), metavar="DIR",
              help="Folder for verdicts.jsonl, bypass.pcap, report.json and report.html.")
@click.option("--check", type=click.Choice(["all", "sample", "none"]), default="all",
              show_default=True, help="Frames to hold against the model; sample: one of 100.")
@click.option("--wave", is_flag=True,
              help=f"Record waves of the first {WAVE_FRAMES} frames: wave.fst, or wave.vcd.")
@click.option("--wave-frames", type=_FrameRange(), metavar="FIRST:COUNT",
              help="Record waves of these frames; at most 5000 cycles.")
def sim(capture, flows_path, out, check, wave, wave_frames):
    """Run CAPTURE (pcap or pcapng) through the RTL, each frame checked against the model."""
    # Late, so that --help and a fault in the arguments do not wait for the hardware's imports.
    from . import flows
    from .sim.capture import Capture
    from .sim.compare import Difference
    from .sim.run import Options, run
    from .sim.table import print_figures

    setup = flows.load(flows_path)
    source = Capture.scan(capture)
    for warning in source.warnings:
        _warn(warning)
    waves = wave_frames or range(WAVE_FRAMES if wave else 0)
    if waves and waves.start >= source.frames:
        raise InputError(f"{capture}: has {source.frames} frames, and --wave-frames begins with "
                         f"frame {waves.start}: begin below {source.frames}")
    options = Options(check, waves)
    try:
        with _progress(source.frames) as progress:
            figures = run(source, setup, out, options, warn=_warn, say=_say,
                          progress=progress)
    except Difference as difference:
        click.echo(f"flytrim: RTL and model disagree: {difference}", err=True)
        sys.exit(1)
    print_figures(figures, Console(highlight=False))
    click.echo(f"Results are in {out}; report.html there shows more.")


@cli.command("flows")
@click.argument("capture", type=click.Path())
@click.option("--udp-dport", type=click.IntRange(1, 65535), default=4791, show_default=True,
              help="UDP destination port of the flows.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE",
              help="Where to write; standard output if not given.")
def find(capture, udp_dport, output):
    """Print the RoCEv2 flows of CAPTURE as a FLOWS.toml that can be run at once."""
    from .discover import find_flows, flows_toml
    from .sim.capture import Capture

    if output is not None:
        _check_folder(output)
    source = Capture.scan(capture)
    for warning in source.warnings:
        _warn(warning)
    with _progress(source.frames) as progress:
        found = find_flows(_counted((frame for _, frame in source), progress), udp_dport)
    useful = sum(flow.to_trim for flow in found)
    if not useful:
        raise InputError(f"{capture}: nothing to trim: {_nothing(source.frames, found, udp_dport)}")
    text = flows_toml(found, Path(capture).name)
    if output is None:
        click.echo(text, nl=False)
        return
    _write(output, text)
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


def _device_options(command):
    """The options that make a NicConfig."""
    for option in (
        click.option("--side-width", default=0, show_default=True,
                     help="Bits of opaque side band."),
        click.option("--max-frame", default=MAX_FRAME, show_default=True,
                     help="Longest frame, in bytes."),
        click.option("--flows", default=64, show_default=True,
                     help="Entries of the flow table: 1 to 64 in a CAM, or a power of two from 128 "
                          "to 65536, hashed in block RAM."),
        click.option("--width", default=512, show_default=True, help="Bits a beat."),
    ):
        command = option(command)
    return command


def _device(options):
    try:
        return NicConfig(**options)
    except ValueError as error:
        raise InputError(str(error)) from None


@cli.group()
def generate():
    """Write Verilog for synthesis."""


@generate.command()
@_device_options
@click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE.v",
              help="Where to write.")
def nic(output, **device):
    """The endpoint: module flytrim_nic."""
    from .generate import nic_verilog

    config = _device(device)
    _check_folder(output)
    _write(output, nic_verilog(config))


_latency = click.option("--latency", type=click.IntRange(3, 11), default=8, show_default=True,
                        help="Cycles from operands to sum.")


@generate.command("fp32-adder")
@_latency
@click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE.v",
              help="Where to write.")
def generate_adder(output, latency):
    """Sum of two binary32, one a cycle: module flytrim_fp32_adder."""
    from .generate import adder_verilog

    _check_folder(output)
    _write(output, adder_verilog(latency))


@cli.group()
def synth():
    """Synthesise with the open tools and report cost, depth and fan-out."""


@synth.command("nic")
@click.option("--target", type=click.Choice(["xcup"]), default="xcup", show_default=True,
              help="xcup: UltraScale+ by Yosys.")
@_device_options
@click.option("--max-levels", type=int, metavar="N", help="Exit status 1 where a path is deeper.")
@click.option("--max-loads", type=int, metavar="N", help="Exit status 1 where a net drives more.")
def synth_nic(target, max_levels, max_loads, **device):
    """The endpoint: module flytrim_nic."""
    from .generate import nic_verilog
    from .synth import xcup
    from .synth.report import print_report

    netlist = xcup.synthesize(nic_verilog(_device(device)), "flytrim_nic")
    print_report(netlist, Console(highlight=False))
    deepest, widest = netlist.deepest(1)[0].levels, netlist.widest(1)[0].loads
    for found, limit, what in ((deepest, max_levels, "levels of logic"),
                               (widest, max_loads, "loads of a net")):
        if limit is not None and found > limit:
            click.echo(f"flytrim: {found} {what}, {limit} allowed", err=True)
            sys.exit(1)


@synth.command("fp32-adder")
@click.option("--target", type=click.Choice(["ecp5", "xcup"]), default="ecp5", show_default=True,
              help="ecp5: with place and route, by nextpnr; xcup: UltraScale+ by Yosys.")
@_latency
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True,
              help="Runs of place and route; ecp5 alone.")
@click.option("--lanes", type=click.IntRange(1), default=1, show_default=True,
              help="Adders side by side.")
@click.option("--min-mhz", type=float, metavar="F",
              help="Exit status 1 where the median of the seeds is less; ecp5 alone.")
def synth_adder(target, latency, seeds, lanes, min_mhz):
    """Sum of two binary32, between registers."""
    from .fp32.adder import Adder
    from .generate import lanes_verilog
    from .synth import ecp5, xcup
    from .synth.report import print_outcome, print_report

    console = Console(highlight=False)
    text, chain = lanes_verilog(lambda: Adder(latency=latency), lanes)
    if target == "xcup":
        print_report(xcup.synthesize(text, "lanes"), console)
        return
    outcome = ecp5.synthesize(text, "lanes", seeds, _say)
    print_outcome(outcome, chain, console)
    if min_mhz is not None and outcome.median < min_mhz:
        click.echo(f"flytrim: {outcome.median:.1f} MHz, {min_mhz:g} wanted", err=True)
        sys.exit(1)


def _say(sentence):
    click.echo(f"flytrim: {sentence}", err=True)


def _warn(sentence):
    click.echo(f"flytrim: warning: {sentence}", err=True)


@contextlib.contextmanager
def _progress(frames):
    """A function that takes the number of frames done, or None where nobody would see a bar."""
    console = Console(stderr=True)
    if frames < PROGRESS_FRAMES or not console.is_terminal:
        yield None
        return
    columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), TextColumn("frames"),
               TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=frames)
        yield lambda done: bar.update(task, completed=done)


def _check_folder(path):
    """Before the work, not after it."""
    if not Path(path).parent.is_dir():
        raise InputError(f"{path}: its folder does not exist: make it first")


def _write(path, text):
    """Put ``text`` at ``path`` at once or not at all."""
    path = Path(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
            part = Path(folder, "text")
            part.write_text(text)
            os.replace(part, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def main():
    """Run the command; what a user did wrong ends in one line on standard error, status 2."""
    try:
        status = cli.main(prog_name="flytrim", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "flytrim"
        message = f"{error.format_message()} Try '{command} --help'."
        status = _complain(message)
    except (InputError, click.ClickException) as error:
        status = _complain(str(error))
    except (KeyboardInterrupt, click.Abort):
        click.echo("flytrim: interrupted", err=True)
        status = 130
    sys.exit(status)


def _complain(message):
    click.echo(f"flytrim: {' '.join(message.split())}", err=True)
    return 2
