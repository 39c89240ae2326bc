# SPDX-License-Identifier: Apache-2.0
"""``flytrim generate``: Verilog out."""

import click

from .options import (
    device_config,
    device_options,
    latency_option,
    lean_config,
    lean_options,
    switch_config,
    switch_options,
    tree_options,
)
from .terminal import check_folder, refused, write

__all__ = ["generate"]


@click.group()
def generate():
    """Write Verilog for synthesis."""


_output = click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE.v",
                       help="Where to write.")


@generate.command()
@device_options
@_output
def nic(output, **device):
    """The endpoint: module flytrim_nic."""
    from ..generate import nic_verilog

    config = device_config(device)
    check_folder(output)
    write(output, nic_verilog(config))


@generate.command()
@switch_options
@_output
def switch(output, **device):
    """Endpoints at several ports, reduced over them: module flytrim_switch."""
    from ..generate import switch_verilog

    config = switch_config(device)
    check_folder(output)
    # What a sum can be made of shows when it is.
    with refused():
        text = switch_verilog(config)
    write(output, text)


@generate.command("lean-link")
@lean_options
@_output
def generate_lean(output, **options):
    """Both ends of a lean link: module flytrim_lean_link."""
    from ..generate import lean_verilog

    config = lean_config(options)
    check_folder(output)
    write(output, lean_verilog(config))


@generate.command("fp32-adder")
@latency_option
@_output
def generate_adder(output, latency):
    """Sum of two binary32, one a cycle: module flytrim_fp32_adder."""
    from ..generate import adder_verilog

    check_folder(output)
    write(output, adder_verilog(latency))


@generate.command("fp32-tree")
@tree_options
@click.option("--width", default=512, show_default=True, help="Bits of a beat of each child.")
@_output
def generate_tree(output, **options):
    """Sum, minimum, maximum of the beats of many children: module flytrim_fp32_tree."""
    from ..generate import tree_verilog

    check_folder(output)
    with refused():
        text = tree_verilog(**options)
    write(output, text)
