# SPDX-License-Identifier: Apache-2.0
"""The figures of a run as one HTML page, which needs nothing from anywhere."""

from types import SimpleNamespace

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..verdict import Reason
from .table import check_sentence

__all__ = ["page"]

#: Columns of a latency histogram at most; wider spans share columns.
COLUMNS = 32


def page(figures):
    """HTML that shows what ``Report.figures`` gave. The same figures give the same bytes."""
    environment = Environment(loader=PackageLoader("flytrim.sim", "."), autoescape=True,
                              undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(count=_count, share=_share, bytes=_bytes)
    template = environment.get_template("report.html.jinja")
    return template.render(
        **figures, check=check_sentence(figures), reasons=_reasons(figures),
        largest_flow=max((row["wire_bytes"] for row in figures["flows"].values()),
                         default=0),
        histograms=[_histogram(verdict, span, figures["device"]["clock_mhz"])
                    for verdict, span in figures["latency"].items() if span])


def _count(number):
    return f"{number:,}"


def _share(number):
    return "-" if number is None else f"{number:.2%}" if number < 0.9995 else f"{number:.0%}"


def _bytes(number):
    """A number of bytes in three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5 or unit == "GB":
            return f"{number:.3g} {unit}"
        number /= 1000


def _reasons(figures):
    """Verdicts with their reasons, each with the share of all frames."""
    words = {str(reason): reason.explanation for reason in Reason}
    for verdict, row in figures["verdicts"].items():
        for reason, count in row["reasons"].items() or [(None, row)]:
            if count["frames"]:
                yield SimpleNamespace(
                    verdict=verdict, reason=reason or "", frames=count["frames"],
                    bytes=count["bytes"], share=count["frames"] / figures["frames"],
                    explanation=words[reason] if reason else "payload and record left")


def _histogram(verdict, span, clock_mhz):
    """Columns of cycles: where each starts, how many frames, height as a share of the highest."""
    counts = {int(cycles): count for cycles, count in span["histogram"].items()}
    low, high = min(counts), max(counts)
    step = -(-(high - low + 1) // COLUMNS)
    totals = [0] * ((high - low) // step + 1)
    for cycles, count in counts.items():
        totals[(cycles - low) // step] += count
    return SimpleNamespace(
        verdict=verdict, span=span, step=step, frames=sum(totals),
        columns=[SimpleNamespace(
            cycles=low + n * step, ns=(low + n * step) * 1000 / clock_mhz, frames=total,
            height=total / max(totals)) for n, total in enumerate(totals)])
