# SPDX-License-Identifier: Apache-2.0
"""The job of ``flytrim sim``: a capture through the RTL, each frame against the model."""

import contextlib
import json
import os
import tempfile
from pathlib import Path

from ..driver import Registers, insert_flow
from ..errors import InputError
from ..model import NicModel
from ..verdict import Verdict
from .build import build, device_verilog
from .capture import Writer
from .compare import Comparer, Difference
from .replay import Replay, ReplayError
from .report import Report

__all__ = ["program_flows", "run"]

#: Reads of the status register until a flow command must be done.
STATUS_READS = 1000


def run(capture, setup, out):
    """Run a capture and write the results.

    Parameters
    ----------
    capture : flytrim.sim.capture.Capture
        What to run, back to back at full rate.
    setup : flytrim.flows.FlowFile
        The device and its flows.
    out : path
        Folder for ``verdicts.jsonl``, ``bypass.pcap`` and ``report.json``; made where missing.

    Returns the :class:`flytrim.sim.report.Report`. Raises
    :class:`~flytrim.sim.compare.Difference` where RTL and model disagree; then, as with any other
    failure, nothing new stands in ``out``.
    """
    report = Report(setup.flows, setup.config, setup.clock_mhz)
    with _Results(out, setup.flows) as results:
        program = build(setup.config, device_verilog(setup.config))
        summary = _replay(program, capture, setup, (report.add, results.add))
        report.close(summary)
        results.publish(report.as_dict())
    return report


def _replay(program, capture, setup, takers):
    """Run the capture, hand each outcome to ``takers``, and give the harness's totals."""
    comparer = Comparer(capture, NicModel(setup.flows, setup.config.max_frame))
    with Replay(program) as replay:
        try:
            replay.reset()
            program_flows(replay, setup.flows)
            replay.feed((frame, False) for _, frame in capture)
            for event in replay.events():
                for outcome in comparer.take(event):
                    for take in takers:
                        take(outcome)
        except ReplayError as error:
            raise Difference(None, "simulation", "to run to its end", str(error)) from None
    summary = Replay.summary(event)
    comparer.close(capture.frames)
    if summary.stalls:
        raise Difference(None, "receive port", "ready in every cycle",
                         f"{summary.stalls} cycles of waiting")
    return summary


def program_flows(replay, flows):
    """Register ``flows`` under their numbers through the register port.

    Raises :class:`ReplayError` where the device does not take one.
    """
    device = Registers()
    status = device.address("flow_status")
    for number, flow in enumerate(flows):
        for name, value in insert_flow(device, number, flow):
            replay.write(device.address(name), value)
        for _ in range(STATUS_READS):
            fields = device.unpack("flow_status", replay.read(status))
            if not fields["busy"]:
                break
        else:
            raise ReplayError(f'flow "{flow.name}": the flow table stays busy')
        if fields["code"]:
            raise ReplayError(f'flow "{flow.name}": the flow table answers code {fields["code"]}')


class _Results:
    """The files of a run: written aside, and put in place together at the end."""

    def __init__(self, out, flows):
        self._out = Path(out)
        self._flows = flows
        self._cleanup = contextlib.ExitStack()

    def __enter__(self):
        try:
            made = not self._out.exists()
            self._out.mkdir(parents=True, exist_ok=True)
            if made:
                self._cleanup.callback(self._remove_empty)
            folder = self._cleanup.enter_context(
                tempfile.TemporaryDirectory(prefix=".partial-", dir=self._out))
            self._folder = Path(folder)
            self._verdicts = self._cleanup.enter_context(
                open(self._folder / "verdicts.jsonl", "w", buffering=1 << 20))
            self._bypass = Writer(str(self._folder / "bypass.pcap"))
            self._cleanup.callback(self._bypass.close)
        except OSError as error:
            self._cleanup.close()
            raise InputError(f"{self._out}: cannot write the results there: {error.strerror}; "
                             f"choose another --out folder") from None
        return self

    def __exit__(self, *_):
        self._cleanup.close()

    def _remove_empty(self):
        with contextlib.suppress(OSError):
            self._out.rmdir()

    def add(self, outcome):
        judgement = outcome.judgement
        trimmed = judgement.verdict == Verdict.TRIM
        json.dump({
            "frame": outcome.index,
            "verdict": str(judgement.verdict),
            "reason": str(judgement.reason) if judgement.reason else None,
            "flow": None if judgement.flow is None else self._flows[judgement.flow].name,
            **({"payload": judgement.payload.hex()} if trimmed else {}),
            "cycle_in": outcome.cycle_in,
            "cycle_out": outcome.cycle_out,
        }, self._verdicts)
        self._verdicts.write("\n")
        if judgement.verdict == Verdict.BYPASS:
            self._bypass.write(outcome.header, outcome.frame)

    def publish(self, figures):
        self._verdicts.close()
        self._bypass.close()
        (self._folder / "report.json").write_text(json.dumps(figures, indent=2) + "\n")
        for name in ("verdicts.jsonl", "bypass.pcap", "report.json"):
            os.replace(self._folder / name, self._out / name)
