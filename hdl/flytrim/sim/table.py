# SPDX-License-Identifier: Apache-2.0
"""The figures of a run on a terminal."""

from rich.table import Table
from rich.text import Text

__all__ = ["VERDICT_STYLES", "check_sentence", "figures_table", "print_figures"]

#: By the name of a verdict.
VERDICT_STYLES = {"trim": "green", "bypass": "yellow", "drop": "red"}


def print_figures(figures, console):
    """Print what ``Report.figures`` gave to a rich ``console``."""
    device = figures["device"]
    # Sentences are left to the terminal to wrap.
    console.print(Text.assemble(
        (figures["capture"], "bold"),
        f": {figures['frames']:,} frames through flytrim_nic, {device['width']} bits at "
        f"{device['clock_mhz']:g} MHz\n"), soft_wrap=True)
    for part in (_verdicts(figures), _flows(figures)):
        console.print(part)
        console.print()
    for name, text in _sentences(figures):
        console.print(Text.assemble((f"{name:12}", "bold"), text), soft_wrap=True)


def figures_table(*texts, numbers):
    """A table without lines, ``texts`` and ``numbers`` the names of its columns."""
    table = Table(*texts, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold",
                  collapse_padding=True)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _verdicts(figures):
    table = figures_table("verdict", "reason", numbers=("frames", "frame bytes"))
    for verdict, row in figures["verdicts"].items():
        for reason, count in row["reasons"].items() or [("", row)]:
            if count["frames"]:
                table.add_row(Text(verdict, VERDICT_STYLES[verdict]), reason,
                              f"{count['frames']:,}", f"{count['bytes']:,}")
    table.add_row("total", "", f"{figures['frames']:,}", f"{figures['bytes']:,}", style="bold")
    return table


def _flows(figures):
    rows = list(figures["flows"].items())
    if len(rows) > 1:
        total = {name: sum(row[name] for _, row in rows) for name in ("packets", "dropped")}
        rows.append(("total", {**total, **figures["trimmed"]}))
    # Damaged packets are rare: they have a column where there are some.
    damaged = any(row["dropped"] for _, row in rows)
    table = figures_table("flow", numbers=("packets", *(("dropped",) if damaged else ()),
                                           "wire bytes", "payload bytes", "payload share"))
    for number, (name, row) in enumerate(rows):
        share = row["payload_share"]
        table.add_row(
            Text(name), f"{row['packets']:,}", *((f"{row['dropped']:,}",) if damaged else ()),
            f"{row['wire_bytes']:,}", f"{row['payload_bytes']:,}",
            "-" if share is None else f"{share:.2%}",
            style="bold" if number == len(figures["flows"]) else None)
    return table


def _sentences(figures):
    trimmed, throughput = figures["trimmed"], figures["throughput"]
    if trimmed["packets"]:
        yield "trimmed", Text.assemble(
            (f"{1 - trimmed['payload_share']:.1%}", "bold green"),
            f" of these frames' wire bytes were framing: {trimmed['wire_bytes']:,} -> "
            f"{trimmed['payload_bytes']:,} of payload")
        yield "beside it", (f"{trimmed['packets']:,} metadata records, "
                            f"{trimmed['record_bytes']:,} bytes")
    else:
        yield "trimmed", "nothing: see the reasons above, and flytrim flows for what is there"
    yield "throughput", (f"{throughput['beats_per_cycle']:.3f} beats accepted a cycle: "
                         f"{throughput['beats']:,} beats in {throughput['cycles']:,} cycles, "
                         f"{throughput['wire_gbps']:.1f} Gb/s of wire")
    spans = ", ".join(
        f"{verdict} {_range(span, 'cycles')} cycles ({_range(span, 'ns')} ns)"
        for verdict, span in figures["latency"].items() if span)
    if spans:
        yield "latency", spans
    sound = figures["checked_frames"] == figures["frames"]
    yield "check", Text(check_sentence(figures), "green" if sound else "yellow")


def _range(span, unit):
    low, high = span[f"min_{unit}"], span[f"max_{unit}"]
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def check_sentence(figures):
    """How far the run was held against the model."""
    frames, checked = figures["frames"], figures["checked_frames"]
    if checked == frames:
        return f"RTL and model agree on every bit of {frames:,} frames."
    if checked:
        return (f"RTL and model agree on every bit of {checked:,} frames; the other "
                f"{frames - checked:,} were not checked.")
    return "No frame was held against the model."
