# SPDX-License-Identifier: Apache-2.0
"""``flytrim regs``: registers of a device that is there."""

import click
from rich.console import Console

from ..errors import InputError
from .options import offset_option

__all__ = ["regs"]


@click.group()
def regs():
    """Read and write registers by name.

    PATH is a file that is memory, a BAR or a UIO device, or the socket of a running simulation,
    flytrim sim --registers.
    """


@regs.command("read")
@click.argument("path", type=click.Path())
@click.argument("names", nargs=-1, metavar="[NAME]...")
@offset_option
def read_registers(path, names, offset):
    """The fields of registers, all of them if none is named."""
    from rich.table import Table

    from ..driver import Device, Registers

    table = Table("address", "register", "field", "value", box=None, padding=(0, 2, 0, 0))
    with Device.open(path, offset=offset) as device:
        for name in names or Registers():
            for field, text in device.describe(name).items():
                table.add_row(f"0x{device.address(name):03x}", name, field, text)
    Console(highlight=False).print(table)


@regs.command("write")
@click.argument("path", type=click.Path())
@click.argument("name")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD=VALUE...")
@offset_option
def write_register(path, name, fields, offset):
    """Write a register; fields that are not named keep what they read."""
    from ..driver import Device

    with Device.open(path, offset=offset) as device:
        device.change(name, **dict(_assignments(fields)))


def _assignments(fields):
    for text in fields:
        field, _, value = text.partition("=")
        try:
            yield field, int(value, 0)
        except ValueError:
            raise InputError(f"{text!r} is no field with its value: write FIELD=NUMBER, such as "
                             f"qpn=0x11") from None
