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

    from ..driver import Device

    table = Table("address", "register", "field", "value", box=None, padding=(0, 2, 0, 0))
    with Device.open(path, offset=offset) as device:
        for name in names or device:
            for field, text in device.describe(name).items():
                table.add_row(f"0x{device.address(name):03x}", name, field, text)
    Console(highlight=False).print(table)


@regs.command("write")
@click.argument("path", type=click.Path())
@click.argument("name")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD=VALUE...")
@offset_option
def write_register(path, name, fields, offset):
    """Write a register; fields that are not named stay as they are.

    VALUE is a number or, where values have names, one of these: op=insert.
    """
    from ..driver import Device

    texts = {}
    for each in fields:
        field, equals, text = each.partition("=")
        if not equals:
            raise InputError(f"{each!r} is no field with its value: write FIELD=VALUE, such as "
                             f"qpn=0x11")
        if field in texts:
            raise InputError(f"field {field} is given twice: write it once")
        texts[field] = text
    with Device.open(path, offset=offset) as device:
        device.change(name, **{field: device.parse(name, field, text)
                               for field, text in texts.items()})
