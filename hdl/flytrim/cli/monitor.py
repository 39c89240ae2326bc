# SPDX-License-Identifier: Apache-2.0
"""``flytrim monitor``: what a device counts, as it counts."""

import time
from contextlib import suppress
from itertools import islice

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from .options import Seconds, offset_option

__all__ = ["monitor"]

#: Columns where there is no terminal: any count has room.
PLAIN_WIDTH = 120


@click.command()
@click.argument("path", type=click.Path())
@click.option("--interval", type=Seconds(), default=1, show_default=True,
              help="From one table to the next.")
@click.option("--count", type=click.IntRange(1), metavar="N",
              help="Tables to show; if not given, until interrupted.")
@offset_option
def monitor(path, interval, count, offset):
    """Show the counters of a device, and how fast they rise.

    PATH is a BAR or UIO file, or the socket of a running simulation, flytrim sim --registers; rates
    are then those of the simulation, not of the hardware. Tables follow each other where they do
    not go to a terminal.

    Counters are read one after another while frames come in, so those of one table differ by the
    frames of that time.
    """
    from ..driver import Device, DeviceGone
    from .counters import counter_tables

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    with suppress(KeyboardInterrupt):
        try:
            with Device.open(path, offset=offset) as device:
                title = Text(f"{path}: flytrim {device.identity.version}, {device.identity.width} "
                             f"bits, {device.identity.flows} flows\n")
                _show((Group(title, *counter_tables(moment), "")
                       for moment in islice(_moments(device.counters, interval), count)), console)
        except DeviceGone:
            click.echo(f"{path}: the simulation is over.")


def _show(pages, console):
    if not console.is_terminal:
        for page in pages:
            console.print(page)
        return
    with Live(console=console, auto_refresh=False) as live:
        for page in pages:
            live.update(page, refresh=True)


def _moments(read, interval):
    """The :class:`Moment` of every ``interval`` seconds, from ``read``, which gives counters."""
    from .counters import Moment

    before = earlier = None
    while True:
        begun = time.monotonic()
        counters = read()
        yield Moment(counters, before, before and begun - earlier)
        before, earlier = counters, begun
        time.sleep(max(0, begun + interval - time.monotonic()))
