# SPDX-License-Identifier: Apache-2.0
"""The command ``flytrim``.

Exit status: 0 all well, 1 RTL and model disagree, 2 something given cannot be worked with, 130
interrupted.
"""

import os
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from . import __version__
from .config import MAX_FRAME, NicConfig
from .errors import InputError

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flytrim")
def cli():
    """Packet-trimming hardware for collective traffic: simulate it, generate it."""


@cli.command()
@click.argument("capture", type=click.Path())
@click.option("--flows", "flows_path", required=True, type=click.Path(), metavar="FLOWS.toml",
              help="The device and its registered flows.")
@click.option("--out", required=True, type=click.Path(), metavar="DIR",
              help="Folder for verdicts.jsonl, bypass.pcap and report.json.")
def sim(capture, flows_path, out):
    """Run CAPTURE (pcap or pcapng) through the RTL, each frame checked against the model."""
    # Late, so that --help and a fault in the arguments do not wait for the hardware's imports.
    from . import flows
    from .sim.capture import Capture
    from .sim.compare import Difference
    from .sim.run import run

    setup = flows.load(flows_path)
    source = Capture.scan(capture)
    for warning in source.warnings:
        click.echo(f"flytrim: warning: {warning}", err=True)
    try:
        report = run(source, setup, out)
    except Difference as difference:
        click.echo(f"flytrim: RTL and model disagree: {difference}", err=True)
        sys.exit(1)
    report.print(Console(highlight=False))
    click.echo(f"Results are in {out}.")


@cli.group()
def generate():
    """Write Verilog for synthesis."""


@generate.command()
@click.option("--width", default=512, show_default=True, help="Bits a beat.")
@click.option("--flows", default=64, show_default=True, help="Entries of the flow table.")
@click.option("--max-frame", default=MAX_FRAME, show_default=True, help="Longest frame, in bytes.")
@click.option("--side-width", default=0, show_default=True, help="Bits of opaque side band.")
@click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE.v",
              help="Where to write.")
def nic(width, flows, max_frame, side_width, output):
    """The endpoint: module flytrim_nic."""
    from .generate import nic_verilog

    try:
        config = NicConfig(width=width, flows=flows, max_frame=max_frame, side_width=side_width)
    except ValueError as error:
        raise InputError(str(error)) from None
    if not Path(output).parent.is_dir():
        raise InputError(f"{output}: its folder does not exist: make it first")
    _write(output, nic_verilog(config))


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
