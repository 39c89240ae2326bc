# SPDX-License-Identifier: Apache-2.0
"""The command ``flytrim``.

Exit status: 0 all well, 1 RTL and model disagree, 2 something given cannot be worked with, 130
interrupted.
"""

import sys

import click

from .. import __version__
from ..errors import InputError
from .allreduce import allreduce
from .generate import generate
from .monitor import monitor
from .regs import regs
from .run import find, sim
from .size import size
from .synth import synth

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flytrim")
def cli():
    """Packet-trimming hardware for collective traffic: simulate it, generate it, watch it."""


for command in (sim, find, allreduce, size, regs, monitor, generate, synth):
    cli.add_command(command)


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
