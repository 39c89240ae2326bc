# SPDX-License-Identifier: Apache-2.0
"""``flytrim synth``: what a design costs."""

import sys

import click
from rich.console import Console

from .options import (
    device_config,
    device_options,
    latency_option,
    switch_config,
    switch_options,
    tree_options,
)
from .terminal import refused, say

__all__ = ["synth"]


@click.group()
def synth():
    """Synthesise with the open tools and report cost, depth and fan-out."""


def _top_options(command):
    """The options of a whole device."""
    for option in (
        click.option("--max-loads", type=int, metavar="N",
                     help="Exit status 1 where a net drives more."),
        click.option("--max-levels", type=int, metavar="N",
                     help="Exit status 1 where a path is deeper."),
        click.option("--target", type=click.Choice(["xcup"]), default="xcup", show_default=True,
                     help="xcup: UltraScale+ by Yosys."),
    ):
        command = option(command)
    return command


@synth.command("nic")
@_top_options
@device_options
def synth_nic(target, max_levels, max_loads, **device):
    """The endpoint: module flytrim_nic."""
    from ..generate import nic_verilog

    _report(nic_verilog(device_config(device)), "flytrim_nic", max_levels, max_loads)


@synth.command("switch")
@_top_options
@switch_options
def synth_switch(target, max_levels, max_loads, **device):
    """Endpoints at several ports, reduced over them: module flytrim_switch.

    What stands in it once for each port is mapped once.
    """
    from ..generate import switch_verilog

    config = switch_config(device)
    # What a sum can be made of shows when it is.
    with refused():
        text = switch_verilog(config)
    _report(text, "flytrim_switch", max_levels, max_loads)


def _report(verilog, top, max_levels, max_loads):
    """Print what a device costs; status 1 where it is deeper or wider than it is to be."""
    from ..synth import xcup
    from ..synth.report import print_report

    netlist = xcup.synthesize(verilog, top)
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
@latency_option
def synth_adder(latency, **options):
    """Sum of two binary32, between registers."""
    from ..fp32.adder import Adder

    _synthesize(lambda: Adder(latency=latency), **options)


@synth.command("fp32-tree")
@_block_options
@tree_options
@click.option("--width", default=32, show_default=True, help="Bits of a beat of each child.")
def synth_tree(target, seeds, lanes, min_mhz, **options):
    """Sum, minimum, maximum of the beats of many children, between registers."""
    from ..fp32.tree import ReductionTree

    _synthesize(lambda: ReductionTree(**options), target, seeds, lanes, min_mhz)


def _synthesize(make, target, seeds, lanes, min_mhz):
    """Report what a block costs; status 1 where it is slower than it is to be."""
    from ..generate import lanes_verilog
    from ..synth import ecp5, xcup
    from ..synth.report import print_outcome, print_report

    console = Console(highlight=False)
    with refused():
        text, chain = lanes_verilog(make, lanes)
    if target == "xcup":
        print_report(xcup.synthesize(text, "lanes"), console)
        return
    outcome = ecp5.synthesize(text, "lanes", seeds, say)
    print_outcome(outcome, chain, console)
    if min_mhz is not None and outcome.median < min_mhz:
        click.echo(f"flytrim: {outcome.median:.1f} MHz, {min_mhz:g} wanted", err=True)
        sys.exit(1)
