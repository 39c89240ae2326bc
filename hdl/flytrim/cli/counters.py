# SPDX-License-Identifier: Apache-2.0
"""Counters and how fast they rise, on a terminal."""

from typing import NamedTuple

from rich.filesize import pick_unit_and_suffix
from rich.text import Text

from ..driver.counters import Counters
from ..sim.table import VERDICT_STYLES, figures_table

__all__ = ["Moment", "counter_tables"]

_PREFIXES = ["", "k", "M", "G", "T"]


class Moment(NamedTuple):
    """What was counted at a moment, and ``seconds`` before, where it was read before."""

    counters: Counters
    before: Counters | None
    seconds: float | None

    def columns(self, pick):
        """A count as text, and its rate; ``pick`` takes it from counters."""
        return f"{pick(self.counters):,}", self._rate(pick)

    def _rate(self, pick):
        if self.before is None or pick(self.counters) < pick(self.before):
            return "-"      # it was not read before, or has been cleared meanwhile
        rate = (pick(self.counters) - pick(self.before)) / self.seconds
        unit, prefix = pick_unit_and_suffix(int(rate), _PREFIXES, 1000)
        return f"{rate / unit:,.1f} {prefix}".rstrip()


def counter_tables(moment):
    """What a terminal shows of a :class:`Moment`: tables and lines for rich."""
    counters = moment.counters
    yield _frames(moment)
    yield ""
    yield _parts(moment)
    yield ""
    if counters.latency:
        yield _latency(counters)
        yield ""
    yield "most held at once: " + ", ".join(
        f"{queue} {items:,} of {counters.depths[queue]:,}"
        for queue, items in counters.high_water.items())


def _frames(moment):
    table = figures_table("verdict", "reason", numbers=("frames", "frames/s", "bytes", "bytes/s"))

    def add(*words, pick, **style):
        table.add_row(*words, *moment.columns(lambda counters: pick(counters).frames),
                      *moment.columns(lambda counters: pick(counters).bytes), **style)

    for reason, count in moment.counters.reasons.items():
        if count.frames:
            add(Text(str(reason.verdict), VERDICT_STYLES[str(reason.verdict)]),
                str(reason) if reason else "",
                pick=lambda counters, reason=reason: counters.reasons[reason])
    add("received", "", pick=lambda counters: counters.received, style="bold")
    return table


def _parts(moment):
    table = figures_table("of trimmed frames", numbers=("bytes", "share", "bytes/s"))
    whole = sum(moment.counters.parts.values())
    for part, count in moment.counters.parts.items():
        number, rate = moment.columns(lambda counters, part=part: counters.parts[part])
        table.add_row(part, number, f"{count / whole:.2%}" if whole else "-", rate)
    return table


def _latency(counters):
    least, most = counters.latency
    table = figures_table(f"latency, {least:,} to {most:,} cycles", numbers=("frames",))
    last = len(counters.buckets) - 1
    for number, count in enumerate(counters.buckets):
        low, high = 1 << number if number else 0, (2 << number) - 1
        if count:
            table.add_row(f"{low:,} or more" if number == last else f"{low:,} to {high:,}",
                          f"{count:,}")
    return table
