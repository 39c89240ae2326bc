# SPDX-License-Identifier: Apache-2.0
"""``flytrim allreduce``: simulated hosts have their data reduced by switches."""

import contextlib
import json as json_text
import sys

import click
from rich.console import Console

from .terminal import progress_bar, refused, say

__all__ = ["allreduce"]


@click.command()
@click.option("--nodes", default=8, show_default=True, help="Hosts, 2 to 16.")
@click.option("--topology", type=click.Choice(["star", "tree", "ring"]), default="star",
              show_default=True,
              help="star: all of them at one switch. tree: switches of a few children each, up to "
                   "one. ring: a switch for each, the last of which has the result.")
@click.option("--radix", default=4, show_default=True, metavar="K",
              help="Children of a switch of a tree, 2 to 15.")
@click.option("--loss", default=0.0, show_default=True, metavar="P",
              help="Chance that a link loses a frame, up to 0.5.")
@click.option("--duplicate", default=0.0, show_default=True, metavar="P",
              help="Chance that a frame arrives twice.")
@click.option("--reorder", default=0, show_default=True, metavar="N",
              help="Frames that may overtake another one on a link.")
@click.option("--bytes", default=16384, show_default=True, metavar="B",
              help="What each host has reduced in a round; 0 is a barrier.")
@click.option("--op", type=click.Choice(["sum", "min", "max"]), default="sum", show_default=True,
              help="What becomes of the elements.")
@click.option("--dtype", type=click.Choice(["fp32", "int32", "bf16", "fp16"]), default="fp32",
              show_default=True, help="Their type.")
@click.option("--rounds", default=10, show_default=True, metavar="R", help="How often.")
@click.option("--seed", default=1, show_default=True, metavar="S",
              help="Of data, PSNs and links; it repeats a run.")
@click.option("--width", default=512, show_default=True, help="Bits a beat.")
@click.option("--clock-mhz", default=250.0, show_default=True, help="Turns cycles into time.")
@click.option("--window", default=128, show_default=True, metavar="W",
              help="Packets in flight of a host, a power of two.")
@click.option("--payload", default=1024, show_default=True, help="Bytes of a packet.")
@click.option("--delay-ns", default=1000.0, show_default=True, help="Of a link, one way.")
@click.option("--model", is_flag=True,
              help="Ask the reference model of the switch, not the RTL: nothing is compiled.")
@click.option("--json", is_flag=True, help="Print the figures as JSON.")
def allreduce(model, json, **options):
    """Let simulated hosts have their data reduced by switches, over links that misbehave.

    The hosts speak RoCEv2 UC and heal what is lost; the switches are their RTL in Verilator. Every
    element of every result is held, bit for bit, against the reduction in fixed order. Exit status
    1 where one differs.
    """
    # Late, so that --help and a fault in the options do not wait for the hardware's imports.
    from ..driver import BusError, DeviceError
    from ..fabric import AllReduce, Stalled, compiled, modelled, run
    from .allreduce_table import print_allreduce

    with refused():
        plan = AllReduce(**options)
    switches = contextlib.nullcontext(modelled(plan)) if model else compiled(plan, say)
    try:
        with switches as fabrics, progress_bar(plan.nodes * plan.rounds, "results", 0) as progress:
            figures = run(plan, fabrics, progress)
    except (BusError, DeviceError, Stalled) as error:
        click.echo(f"flytrim: the simulation failed: {error}", err=True)
        sys.exit(1)
    figures["switch"] = "model" if model else "rtl"
    if json:
        click.echo(json_text.dumps(figures, indent=2))
    else:
        print_allreduce(figures, Console(highlight=False))
    if figures["difference"] or figures["frame_faults"]:
        sys.exit(1)
