# SPDX-License-Identifier: Apache-2.0
"""The command ``flytrim``.

Exit status: 0 all well, 1 RTL and model disagree, 2 something given cannot be worked with, 130
interrupted.
"""

import contextlib
import os
import sys
import tempfile
import warnings
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


class _Hexadecimal(click.ParamType):
    """A number of up to 8 hexadecimal digits."""

    name = "hash"

    def convert(self, value, param, ctx):
        if isinstance(value, int):
            return value
        try:
            number = int(value, 16)
        except ValueError:
            number = -1
        if not 0 <= number < 1 << 32:
            self.fail(f"{value!r} is no hash of up to 8 hexadecimal digits.")
        return number


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
        click.option("--commit", type=_Hexadecimal(), default="0", metavar="HASH",
                     help="First 8 digits of a commit's hash, for software to read; 0 if not "
                          "given."),
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
    with _refused():
        return NicConfig(**options)


@cli.group()
def regs():
    """Read and write registers by name, in a file that is memory: a BAR or a UIO device."""


_offset = click.option("--offset", type=_Hexadecimal(), default="0", metavar="HEX",
                       help="Where the registers start in the file.")


@regs.command("read")
@click.argument("file", type=click.Path())
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_offset
def read_registers(file, names, offset):
    """The fields of registers, all of them if none is named."""
    from rich.table import Table

    from .driver import Device, Registers

    table = Table("address", "register", "field", "value", box=None, padding=(0, 2, 0, 0))
    with Device.open(file, offset=offset) as device:
        for name in names or Registers():
            for field, text in device.describe(name).items():
                table.add_row(f"0x{device.address(name):03x}", name, field, text)
    Console(highlight=False).print(table)


@regs.command("write")
@click.argument("file", type=click.Path())
@click.argument("name")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD=VALUE...")
@_offset
def write_register(file, name, fields, offset):
    """Write a register; fields that are not named keep what they read."""
    from .driver import Device

    with Device.open(file, offset=offset) as device:
        device.change(name, **dict(_assignments(fields)))


def _assignments(fields):
    for text in fields:
        field, _, value = text.partition("=")
        try:
            yield field, int(value, 0)
        except ValueError:
            raise InputError(f"{text!r} is no field with its value: write FIELD=NUMBER, such as "
                             f"qpn=0x11") from None


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


class _Types(click.ParamType):
    """Names of element types with commas between them."""

    name = "types"

    def convert(self, value, param, ctx):
        from .fp32.element import ElementType

        if not isinstance(value, str):
            return value
        names = [name.strip() for name in value.split(",")]
        known = [each.name.lower() for each in ElementType]
        for name in names:
            if name not in known:
                self.fail(f"{name!r} is no type: write some of {', '.join(known)}, with commas.")
        return tuple(each for each in ElementType if each.name.lower() in names)


def _tree_options(command):
    """The options that make a ReductionTree."""
    for option in (
        click.option("--half-rate", is_flag=True,
                     help="One lane for each 32 bits: beats of 16-bit types take two cycles."),
        click.option("--latency", type=int, metavar="N",
                     help="Cycles of a node of the tree, 3 to 11 (8 if not given), or of a fused "
                          "or exact sum."),
        click.option("--taps", default=0, show_default=True,
                     help="Levels below the root with results of their own: 1 for the halves of "
                          "the children, 2 for the quarters, too."),
        click.option("--sum", type=click.Choice(["tree", "fused", "exact"]), default="tree",
                     show_default=True,
                     help="How numbers are added: two at a time, or all with one rounding."),
        click.option("--types", type=_Types(), default="fp32,int32", show_default=True,
                     help="Elements: some of fp32, int32, bf16, fp16."),
        click.option("--children", default=8, show_default=True, help="2 to 64."),
    ):
        command = option(command)
    return command


@generate.command("fp32-tree")
@_tree_options
@click.option("--width", default=512, show_default=True, help="Bits of a beat of each child.")
@click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE.v",
              help="Where to write.")
def generate_tree(output, **options):
    """Sum, minimum, maximum of the beats of many children: module flytrim_fp32_tree."""
    from .generate import tree_verilog

    _check_folder(output)
    with _refused():
        text = tree_verilog(**options)
    _write(output, text)


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


def _block_options(command):
    """The options of what is synthesised between registers."""
    for option in (
        click.option("--min-mhz", type=float, metavar="F",
                     help="Exit status 1 where the median of the seeds is less; ecp5 alone."),
        click.option("--lanes", type=click.IntRange(1), default=1, show_default=True,
                     help="Blocks side by side."),
        click.option("--seeds", type=click.IntRange(1), default=3, show_default=True,
                     help="Runs of place and route; ecp5 alone."),
        click.option("--target", type=click.Choice(["ecp5", "xcup"]), default="ecp5",
                     show_default=True,
                     help="ecp5: with place and route, by nextpnr; xcup: UltraScale+ by Yosys."),
    ):
        command = option(command)
    return command


@synth.command("fp32-adder")
@_block_options
@_latency
def synth_adder(latency, **options):
    """Sum of two binary32, between registers."""
    from .fp32.adder import Adder

    _synthesize(lambda: Adder(latency=latency), **options)


@synth.command("fp32-tree")
@_block_options
@_tree_options
@click.option("--width", default=32, show_default=True, help="Bits of a beat of each child.")
def synth_tree(target, seeds, lanes, min_mhz, **options):
    """Sum, minimum, maximum of the beats of many children, between registers."""
    from .fp32.tree import ReductionTree

    _synthesize(lambda: ReductionTree(**options), target, seeds, lanes, min_mhz)


def _synthesize(make, target, seeds, lanes, min_mhz):
    """Report what a block costs; status 1 where it is slower than it is to be."""
    from .generate import lanes_verilog
    from .synth import ecp5, xcup
    from .synth.report import print_outcome, print_report

    console = Console(highlight=False)
    with _refused():
        text, chain = lanes_verilog(make, lanes)
    if target == "xcup":
        print_report(xcup.synthesize(text, "lanes"), console)
        return
    outcome = ecp5.synthesize(text, "lanes", seeds, _say)
    print_outcome(outcome, chain, console)
    if min_mhz is not None and outcome.median < min_mhz:
        click.echo(f"flytrim: {outcome.median:.1f} MHz, {min_mhz:g} wanted", err=True)
        sys.exit(1)


@contextlib.contextmanager
def _refused():
    """What cannot be built is a fault of what was asked for."""
    from amaranth.hdl import UnusedElaboratable

    try:
        yield
    except ValueError as error:
        # What was made before the fault was found will not be used.
        warnings.simplefilter("ignore", UnusedElaboratable)
        raise InputError(str(error)) from None


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
