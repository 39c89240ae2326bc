# SPDX-License-Identifier: Apache-2.0
"""The files that a run leaves."""

import contextlib
import json
import os
from pathlib import Path

from ..verdict import Reason, Verdict
from .capture import Writer
from .page import page
from .partial import partial_folder

__all__ = ["Results"]

_TRIM, _BYPASS = Verdict.TRIM, Verdict.BYPASS
#: The words of a verdict record, as JSON.
_VERDICTS = {verdict: json.dumps(str(verdict)) for verdict in Verdict}
_REASONS = {reason: json.dumps(str(reason) if reason else None) for reason in Reason}


class Results:
    """The files of a run: written aside, and put in place together at the end.

    ``verdicts.jsonl``, ``bypass.pcap``, ``report.json``, ``report.html``, and ``wave.fst`` or
    ``wave.vcd``. A context manager; what is not put in place by its end is removed.
    """

    def __init__(self, out, flows):
        self._out = Path(out)
        # By flow number, and None, as JSON.
        self._names = {None: "null", **{number: json.dumps(flow.name)
                                        for number, flow in enumerate(flows)}}
        self._waves = None

    def __enter__(self):
        with contextlib.ExitStack() as cleanup:
            self._folder = cleanup.enter_context(partial_folder(self._out))
            self._verdicts = cleanup.enter_context(
                open(self._folder / "verdicts.jsonl", "w", buffering=1 << 20))
            self._write = self._verdicts.write
            self._bypass = Writer(str(self._folder / "bypass.pcap"))
            cleanup.callback(self._bypass.close)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_):
        self._cleanup.close()

    def add(self, outcome):
        """One frame, in order."""
        index, header, frame, verdict, reason, flow, output, cycle_in, cycle_out = outcome
        payload = f', "payload": "{output.hex()}"' if verdict is _TRIM else ""
        # By hand: names and hex digits need no quoting, and the library takes ten times as long.
        self._write(
            f'{{"frame": {index}, "verdict": {_VERDICTS[verdict]}, "reason": {_REASONS[reason]}, '
            f'"flow": {self._names[flow]}{payload}, "cycle_in": {cycle_in}, '
            f'"cycle_out": {"null" if cycle_out is None else cycle_out}}}\n')
        if verdict is _BYPASS:
            self._bypass.write(header, output)

    def wave_file(self, kind):
        """Where waves are to be recorded; ``kind`` is the ending of the file's name."""
        self._waves = f"wave.{kind}"
        return self._folder / self._waves

    def publish_waves(self):
        """Put the waves in place, where there are any, and nothing else."""
        if self._waves and (self._folder / self._waves).exists():
            self._replace(self._waves)

    def publish(self, figures):
        """Put everything in place, the report of ``figures`` included."""
        self._verdicts.close()
        self._bypass.close()
        (self._folder / "report.json").write_text(json.dumps(figures, indent=2) + "\n")
        (self._folder / "report.html").write_text(page(figures))
        # Waves of an earlier run would pass for this one's.
        for stale in self._out.glob("wave.*"):
            stale.unlink()
        self._replace("verdicts.jsonl", "bypass.pcap", "report.json", "report.html",
                      *([self._waves] if self._waves else []))

    def _replace(self, *names):
        for name in names:
            os.replace(self._folder / name, self._out / name)
