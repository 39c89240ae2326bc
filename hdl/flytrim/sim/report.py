# SPDX-License-Identifier: Apache-2.0
"""What a run showed, as figures: a table for people and ``report.json`` for programs."""

from collections import Counter

from rich.table import Table

from .. import __version__
from ..verdict import Reason, Verdict

__all__ = ["Report"]

#: Bytes a frame costs on the wire beside itself: preamble 8, FCS 4, gap 12 (IEEE 802.3).
WIRE_BYTES = 24
#: A MAC pads a shorter frame to this, without FCS.
MIN_FRAME_BYTES = 60


class _Span:
    """Smallest and largest of some numbers."""

    def __init__(self):
        self.low = self.high = None

    def add(self, value):
        self.low = value if self.low is None else min(self.low, value)
        self.high = value if self.high is None else max(self.high, value)


class Report:
    """Adds up the frames of a run.

    Parameters
    ----------
    flows : sequence of flytrim.model.Flow
        The registered flows, in the order of their numbers.
    config : flytrim.config.NicConfig
        The device.
    clock_mhz : float
        Turns cycles into time.
    """

    def __init__(self, flows, config, clock_mhz):
        self._flows = flows
        self._config = config
        self._clock_mhz = clock_mhz
        self._frames, self._bytes = Counter(), Counter()
        self._packets = [Counter() for _ in flows]
        self._latency = {Verdict.TRIM: _Span(), Verdict.BYPASS: _Span()}
        self._summary = None

    def add(self, outcome):
        """One compared frame."""
        judgement = outcome.judgement
        self._frames[judgement.reason] += 1
        self._bytes[judgement.reason] += len(outcome.frame)
        if judgement.verdict in self._latency and outcome.cycle_out is not None:
            self._latency[judgement.verdict].add(outcome.cycle_out - outcome.cycle_in)
        if judgement.verdict == Verdict.TRIM:
            packets = self._packets[judgement.flow]
            packets["packets"] += 1
            packets["frame_bytes"] += len(outcome.frame)
            packets["payload_bytes"] += len(judgement.payload)
            packets["wire_bytes"] += max(MIN_FRAME_BYTES, len(outcome.frame)) + WIRE_BYTES

    def close(self, summary):
        """The harness's totals."""
        self._summary = summary

    def as_dict(self):
        """Everything, for ``report.json``."""
        summary = self._summary
        busy = summary.last_beat - summary.first_beat + 1 if summary.beats else 0
        return {
            "flytrim": __version__,
            "device": {"width": self._config.width, "clock_mhz": self._clock_mhz,
                       "max_frame": self._config.max_frame, "flows": len(self._flows)},
            "frames": self._frames.total(),
            "bytes": self._bytes.total(),
            "verdicts": {str(verdict): self._verdict(verdict) for verdict in Verdict},
            "flows": {flow.name: self._flow(number) for number, flow in enumerate(self._flows)},
            "latency": {str(verdict): self._span(span) for verdict, span in self._latency.items()},
            "throughput": {"beats": summary.beats, "cycles": busy, "stalls": summary.stalls,
                           "beats_per_cycle": round(summary.beats / busy, 6) if busy else None},
            "differences": 0,
        }

    def _verdict(self, verdict):
        reasons = [reason for reason in Reason if reason.verdict == verdict]
        return {
            "frames": sum(self._frames[reason] for reason in reasons),
            "bytes": sum(self._bytes[reason] for reason in reasons),
            "reasons": {str(reason): {"frames": self._frames[reason], "bytes": self._bytes[reason]}
                        for reason in reasons if reason and self._frames[reason]},
        }

    def _flow(self, number):
        packets = self._packets[number]
        wire, payload = packets["wire_bytes"], packets["payload_bytes"]
        return {
            "packets": packets["packets"],
            "payload_bytes": payload,
            "trimmed_bytes": packets["frame_bytes"] - payload,
            "wire_bytes_before": wire,
            "payload_share_before": round(payload / wire, 6) if wire else None,
            # The trim output carries payload and nothing else; records go beside it.
            "payload_share_after": 1.0 if payload else None,
        }

    def _span(self, span):
        if span.low is None:
            return None
        ns = 1000 / self._clock_mhz
        return {"min_cycles": span.low, "max_cycles": span.high,
                "min_ns": round(span.low * ns, 3), "max_ns": round(span.high * ns, 3)}

    def print(self, console):
        """The same, as tables."""
        figures = self.as_dict()
        console.print(self._verdict_table(figures))
        console.print(self._flow_table(figures))
        throughput = figures["throughput"]
        # Sentences are left to the terminal to wrap.
        console.print(f"{throughput['beats']:,} beats in {throughput['cycles']:,} cycles: "
                      f"{throughput['beats_per_cycle']:.3f} beats a cycle, "
                      f"{self._config.width} bits a beat", soft_wrap=True)
        for verdict, span in figures["latency"].items():
            if span:
                console.print(
                    f"{verdict} latency, first beat in to first beat out: {span['min_cycles']} to "
                    f"{span['max_cycles']} cycles, {span['min_ns']:g} to {span['max_ns']:g} ns "
                    f"at {self._clock_mhz:g} MHz", soft_wrap=True)
        console.print(f"RTL and model agree on every bit of {figures['frames']:,} frames.",
                      soft_wrap=True)

    def _verdict_table(self, figures):
        table = Table("verdict", "reason", box=None, pad_edge=False)
        table.add_column("frames", justify="right")
        table.add_column("bytes", justify="right")
        for verdict, row in figures["verdicts"].items():
            for reason, count in row["reasons"].items() or [("", row)]:
                if count["frames"]:
                    table.add_row(verdict, reason, f"{count['frames']:,}", f"{count['bytes']:,}")
        table.add_row("total", "", f"{figures['frames']:,}", f"{figures['bytes']:,}")
        return table

    def _flow_table(self, figures):
        table = Table("flow", box=None, pad_edge=False)
        for column in ("packets", "payload bytes", "wire bytes before", "payload before",
                       "payload after"):
            table.add_column(column, justify="right")
        for name, row in figures["flows"].items():
            shares = (row["payload_share_before"], row["payload_share_after"])
            table.add_row(name, *(f"{row[key]:,}" for key in (
                "packets", "payload_bytes", "wire_bytes_before")),
                *("-" if share is None else f"{share:.2%}" for share in shares))
        return table
