# SPDX-License-Identifier: Apache-2.0
"""What a run showed, as figures: for ``report.json``, and for everything that shows them."""

from pathlib import Path

from .. import __version__
from ..verdict import Reason, Verdict

__all__ = ["Report"]

#: Bytes a frame costs on the wire beside itself: preamble 8, FCS 4, gap 12 (IEEE 802.3).
WIRE_BYTES = 24
#: A metadata record, without side band.
RECORD_BYTES = 32
#: A MAC pads a shorter frame to this, without FCS.
MIN_FRAME_BYTES = 60
#: Payload sizes that are told together: up to this many bytes, from the one before.
SIZE_CLASSES = (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 9216)

_TRIM, _DROP = Verdict.TRIM, Verdict.DROP


class Report:
    """Adds up the frames of a run.

    Parameters
    ----------
    setup : flytrim.flows.FlowFile
        The device, its flows in the order of their numbers, and the clock.
    capture : path
        What was run; named without its folder.
    """

    def __init__(self, setup, capture):
        self._setup = setup
        self._capture = Path(capture).name
        # By reason: frames, bytes, bytes on the wire.
        self._reasons = [[0, 0, 0] for _ in range(max(Reason) + 1)]
        # By (flow, payload bytes): packets, bytes on the wire.
        self._trimmed = {}
        self._dropped = [0] * len(setup.flows)
        # By cycles from the first beat in to the first beat out.
        self._latency = {Verdict.TRIM: {}, Verdict.BYPASS: {}}
        self._summary = None
        self._checked = 0

    def add(self, outcome):
        """One frame."""
        _, _, frame, verdict, reason, flow, output, cycle_in, cycle_out = outcome
        size = len(frame)
        wire = (size if size > MIN_FRAME_BYTES else MIN_FRAME_BYTES) + WIRE_BYTES
        count = self._reasons[reason]
        count[0] += 1
        count[1] += size
        count[2] += wire
        if verdict is _DROP:
            if flow is not None:
                self._dropped[flow] += 1
            return
        if cycle_out is not None:
            histogram, cycles = self._latency[verdict], cycle_out - cycle_in
            histogram[cycles] = histogram.get(cycles, 0) + 1
        if verdict is _TRIM:
            key = flow, len(output)
            count = self._trimmed.get(key)
            if count is None:
                count = self._trimmed[key] = [0, 0]
            count[0] += 1
            count[1] += wire

    def close(self, summary, checked):
        """The harness's totals, and how many frames were held against the model."""
        self._summary = summary
        self._checked = checked

    def figures(self):
        """Everything, as ``report.json`` has it."""
        summary, config = self._summary, self._setup.config
        busy = summary.last_beat - summary.first_beat + 1 if summary.beats else 0
        frames, size, wire = map(sum, zip(*self._reasons, strict=True))
        payload = sum(key[1] * count[0] for key, count in self._trimmed.items())
        packets, _, trimmed_wire = self._reasons[Reason.NONE]
        seconds = busy / (self._setup.clock_mhz * 1e6)
        return {
            "flytrim": __version__,
            "capture": self._capture,
            "device": {"width": config.width, "clock_mhz": self._setup.clock_mhz,
                       "max_frame": config.max_frame, "flow_entries": config.flows,
                       "flows_registered": len(self._setup.flows)},
            "frames": frames,
            "bytes": size,
            "checked_frames": self._checked,
            "differences": 0,
            "wire_bytes": wire,
            "trimmed": _group_of(packets, trimmed_wire, payload),
            "verdicts": {str(verdict): self._verdict(verdict) for verdict in Verdict},
            "flows": {flow.name: self._flow(number)
                      for number, flow in enumerate(self._setup.flows)},
            "sizes": list(self._sizes()),
            "latency": {str(verdict): self._span(histogram)
                        for verdict, histogram in self._latency.items()},
            "throughput": {"beats": summary.beats, "cycles": busy, "stalls": summary.stalls,
                           "beats_per_cycle": round(summary.beats / busy, 6) if busy else None,
                           "wire_gbps": round(8 * wire / seconds / 1e9, 3) if busy else None},
        }

    def _verdict(self, verdict):
        rows = [(reason, self._reasons[reason]) for reason in Reason if reason.verdict == verdict]
        return {
            "frames": sum(count[0] for _, count in rows),
            "bytes": sum(count[1] for _, count in rows),
            "reasons": {str(reason): {"frames": count[0], "bytes": count[1]}
                        for reason, count in rows if reason and count[0]},
        }

    def _flow(self, number):
        counts = {length: count for (flow, length), count in self._trimmed.items()
                  if flow == number}
        return {**_group(counts), "dropped": self._dropped[number]}

    def _sizes(self):
        """The trimmed packets by size of their payload."""
        low = 0
        for high in SIZE_CLASSES:
            counts = {}
            for (_, length), count in self._trimmed.items():
                if low <= length <= high:
                    total = counts.setdefault(length, [0, 0])
                    total[:] = map(sum, zip(total, count, strict=True))
            if counts:
                yield {"from": low, "to": high, **_group(counts)}
            low = high + 1

    def _span(self, histogram):
        if not histogram:
            return None
        ns = 1000 / self._setup.clock_mhz
        marks = {"min": min(histogram), "median": _median(histogram), "max": max(histogram)}
        return {**{f"{name}_cycles": cycles for name, cycles in marks.items()},
                **{f"{name}_ns": round(cycles * ns, 3) for name, cycles in marks.items()},
                "histogram": {str(cycles): histogram[cycles] for cycles in sorted(histogram)}}


def _median(histogram):
    """The smallest value that at least half of the counted ones do not exceed."""
    left = sum(histogram.values()) / 2
    for value in sorted(histogram):
        left -= histogram[value]
        if left <= 0:
            return value
    raise ValueError("nothing was counted")


def _group(counts):
    """Figures of packets, given by payload bytes as (packets, bytes on the wire)."""
    packets, wire = (sum(count[n] for count in counts.values()) for n in range(2))
    payload = sum(length * count[0] for length, count in counts.items())
    return _group_of(packets, wire, payload)


def _group_of(packets, wire, payload):
    """Figures of trimmed packets: what they took on the wire, and what is left of that.

    ``framing_bytes`` is what trimming took away; ``record_bytes`` what goes beside the payload.
    """
    return {
        "packets": packets,
        "wire_bytes": wire,
        "payload_bytes": payload,
        "framing_bytes": wire - payload,
        "record_bytes": packets * RECORD_BYTES,
        "payload_share": round(payload / wire, 6) if wire else None,
    }
