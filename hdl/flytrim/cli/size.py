# SPDX-License-Identifier: Apache-2.0
"""``flytrim size``: what a switch needs, before it is built."""

import json
import sys

import click
from rich.console import Console

from ..sim.table import figures_table
from .terminal import refused

__all__ = ["size"]


_POSITIVE = click.FloatRange(0, min_open=True)


@click.command()
@click.option("--ports", default=4, show_default=True, help="2 to 16.")
@click.option("--width", default=512, show_default=True, help="Bits a beat of each port.")
@click.option("--window", default=128, show_default=True,
              help="Packets of the windows of all groups, a power of two.")
@click.option("--slot-bytes", default=1024, show_default=True,
              help="Longest payload, a power of two.")
@click.option("--groups", default=16, show_default=True, help="Groups at one time, 1 to 64.")
@click.option("--clock-mhz", type=_POSITIVE, default=250,
              show_default=True, help="Clock of the data path.")
@click.option("--link-gbps", type=_POSITIVE, default=100,
              show_default=True, help="Rate of a link.")
@click.option("--rtt-us", type=_POSITIVE, default=10, show_default=True,
              help="Time from a packet's leaving its host to its result's coming back, without "
                   "waiting.")
@click.option("--straggle-us", type=click.FloatRange(0), default=0, show_default=True,
              help="Time that the slowest child is behind the others.")
@click.option("--part", type=click.Choice(["u50", "u250", "u280", "ecp5-85"]),
              help="Say whether the slots fit a part.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def size(clock_mhz, link_gbps, rtt_us, straggle_us, part, as_json, **device):
    """Memory of a switch's slots, and the rate that they sustain.

    Queues, flow tables and counters come on top: flytrim synth shows those. Exit status 1 where the
    slots do not fit the part.
    """
    from ..config import SwitchConfig
    from ..sizing import KINDS, PARTS, memories, rate

    with refused():
        config = SwitchConfig(**device)
    wanted = memories(config)
    found = rate(config, clock_mhz=clock_mhz, link_gbps=link_gbps, rtt_us=rtt_us,
                 straggle_us=straggle_us)
    placed = PARTS[part].placed(wanted) if part else {}
    kinds = [kind for kind, _ in PARTS[part].memory] if part else KINDS
    if as_json:
        click.echo(json.dumps(_figures(device, wanted, kinds, found, part, placed), indent=1))
    else:
        _print(wanted, kinds, found)
    short = [f"{used:,} {name} of {count:,}" for name, (used, count) in placed.items()
             if used > count]
    if short:
        click.echo(f"flytrim: {part} is too small: the slots take {', '.join(short)}; take a "
                   f"smaller --window or --slot-bytes, fewer --ports, or another --part", err=True)
        sys.exit(1)
    if part and not as_json:
        click.echo(f"They fit {part}: " + ", ".join(
            f"{used:,} {name} of {count:,}" for name, (used, count) in placed.items()) + ".")


def _print(wanted, kinds, found):
    console = Console(highlight=False)
    table = figures_table("slots", numbers=("memories", "bits a row", "rows", "kbit",
                                            *(kind.name for kind in kinds)))
    for memory in wanted:
        table.add_row(memory.name, *(f"{number:,}" for number in (
            memory.count, memory.bits, memory.rows)), f"{memory.total_bits / 1000:,.0f}",
            *(f"{memory.blocks(kind):,}" for kind in kinds))
    table.add_row("all", "", "", "", f"{sum(each.total_bits for each in wanted) / 1000:,.0f}",
                  *(f"{sum(each.blocks(kind) for each in wanted):,}" for kind in kinds),
                  style="bold")
    console.print(table)
    console.print()
    table = figures_table("a child's payload", numbers=("Gb/s",))
    table.add_row("line rate", f"{found.line:,.1f}")
    table.add_row("sustained, one group", f"{found.sustained:,.1f}")
    if found.shared is not None:
        table.add_row(f"sustained, each of all groups, {found.share:,} packets",
                      f"{found.shared:,.1f}")
    console.print(table)
    if found.sustained < found.line:
        console.print(f"\n--window {found.enough} would sustain the line rate.")


def _figures(device, wanted, kinds, found, part, placed):
    return {
        "device": device,
        "memory": {each.name: {"memories": each.count, "bits": each.total_bits, **{
            kind.name: each.blocks(kind) for kind in kinds}} for each in wanted},
        "gbps": {"line": found.line, "sustained": found.sustained, "shared": found.shared},
        "share_window": found.share, "line_rate_window": found.enough,
        "part": {"name": part, "fits": all(used <= count for used, count in placed.values()),
                 "used": {name: used for name, (used, _) in placed.items()}} if part else None,
    }
