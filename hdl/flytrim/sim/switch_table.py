# SPDX-License-Identifier: Apache-2.0
"""The figures of a switch's run on a terminal."""

from collections import Counter

from rich.text import Text

from .table import figures_table

__all__ = ["print_switch_figures"]

#: What becomes of the packets of children, and the name of its column.
_FATES = {"contributions": "contributed", "duplicates": "duplicate",
          "out_of_window": "out of window", "bounds": "too long"}


def print_switch_figures(figures, console):
    """Print what ``run_switch`` gave to a rich ``console``."""
    device = figures["device"]
    # Sentences are left to the terminal to wrap.
    console.print(Text.assemble(
        ("flytrim_switch", "bold"),
        f": {device['ports']} ports, {device['width']} bits at {device['clock_mhz']:g} MHz, "
        f"{figures['cycles']:,} cycles\n"), soft_wrap=True)
    for part in (_came(figures), _left(figures), _groups(figures)):
        console.print(part)
        console.print()
    for name, text in _sentences(figures):
        console.print(Text.assemble((f"{name:12}", "bold"), text), soft_wrap=True)


def _came(figures):
    """What entered each port, and what became of it."""
    ports = figures["ports"]
    # What is rare has a column where there is some.
    fates = {fate: name for fate, name in _FATES.items()
             if fate == "contributions" or any(port[fate] for port in ports)}
    table = figures_table("came", numbers=("frames", *fates.values(), "not reduced"))
    _rows(table, ports, lambda port: (port["frames_in"], *(port[fate] for fate in fates),
                                      sum(port["reasons"].values())))
    return table


def _left(figures):
    """What left each port."""
    ports = figures["ports"]
    table = figures_table("left", numbers=("frames", "results", "again", "forwarded"))
    _rows(table, ports, lambda port: (
        port["frames_out"], port["results"], port["replays"],
        port["frames_out"] - port["results"] - port["replays"]))
    return table


def _rows(table, ports, numbers):
    """A row a port, of the ``numbers`` of it, and what they are together."""
    for number, port in enumerate(ports):
        table.add_row(f"port {number}", *map(_number, numbers(port)))
    table.add_row("total", *(_number(sum(column))
                             for column in zip(*map(numbers, ports), strict=True)), style="bold")


def _groups(figures):
    table = figures_table("group", "operation", numbers=("window", "results", "aborted",
                                                         "cycles to result"))
    for group in figures["groups"]:
        span = group["latency"]
        table.add_row(Text(group["name"]), f"{group['op']} of {group['dtype']}",
                      *map(_number, (group["window"], group["results"], group["aborted"])),
                      "-" if span is None else _range(span["min_cycles"], span["max_cycles"]))
    return table


def _sentences(figures):
    frames, reasons = figures["frames"], Counter()
    for port in figures["ports"]:
        reasons.update(port["reasons"])
    if reasons:
        yield "not reduced", ", ".join(f"{count:,} {reason}"
                                       for reason, count in reasons.most_common())
    if figures["slots_waiting"]:
        yield "waiting", (f"{figures['slots_waiting']:,} packets of groups still wait for some of "
                          f"their children")
    if frames["no_room"]:
        yield "no room", f"{frames['no_room']:,} frames that were to be forwarded had no room"
    if frames["results_spoilt"]:
        yield "marked bad", (f"{frames['results_spoilt']:,} results that were overwritten while "
                             f"they were sent again")
    left = (sum(port["frames_out"] for port in figures["ports"])
            - frames["results_unchecked"] - frames["results_spoilt"])
    results = frames["results"] + frames["results_by_order"]
    if frames["results_unchecked"]:
        yield "check", Text(
            f"RTL and model agree on every bit of {left:,} frames "
            f"that left; of {frames['results_unchecked']:,} results too many copies differ for "
            f"their bits to be known.", "yellow")
    else:
        yield "check", Text(
            f"RTL and model agree on every bit of {left:,} frames that left: {results:,} results, "
            f"{frames['forwarded']:,} forwarded.", "green")


def _number(count):
    return f"{count:,}" if count else "-"


def _range(low, high):
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
