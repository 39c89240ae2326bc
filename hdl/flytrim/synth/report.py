# SPDX-License-Identifier: Apache-2.0
"""What a netlist costs, as tables for the terminal."""

from rich.table import Table

from .netlist import CARRIES, LUTS

__all__ = ["cost", "print_outcome", "print_report"]

#: Paths and nets that a report shows.
SHOWN = 8


def cost(netlist):
    """{name: count} of the resources of UltraScale+; a block RAM is half a 36-kbit one."""
    cells = netlist.cells()

    def count(*prefixes):
        return sum(number for kind, number in cells.items() if kind.startswith(prefixes))

    return {
        "LUT": count(*LUTS), "LUT as memory": count("RAM32", "RAM64", "SRL"),
        "flip-flop": count("FD"), "carry": count(*CARRIES),
        "block RAM": count("RAMB36") + count("RAMB18") / 2,
    }


def print_report(netlist, console):
    """Cost, deepest paths and widest nets."""
    for name, number in cost(netlist).items():
        console.print(f"{name:14} {number:>8,}")
    table = Table("levels", "from", "to", box=None, padding=(1, 2, 0, 0))
    for trace in netlist.deepest(SHOWN):
        table.add_row(str(trace.levels), trace.nets[0], trace.end)
    console.print(table)
    table = Table("loads", "net", "driver", box=None, padding=(1, 2, 0, 0))
    for net in netlist.widest(SHOWN):
        table.add_row(str(net.loads), net.name, net.driver)
    console.print(table)


def print_outcome(outcome, chain, console):
    """Cost and frequencies on ECP5; ``chain`` flip-flops that only feed the block are left out."""
    for name, number in (("LUT4", outcome.luts), ("of these carry", 2 * outcome.carries),
                         ("flip-flop", outcome.flip_flops - chain)):
        console.print(f"{name:14} {number:>8,}")
    for seed, frequency in enumerate(outcome.frequencies, 1):
        console.print(f"MHz, seed {seed:<4} {frequency:>8.1f}")
    console.print(f"{'MHz, median':14} {outcome.median:>8.1f}")
