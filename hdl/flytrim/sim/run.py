# SPDX-License-Identifier: Apache-2.0
"""The job of ``flytrim sim``: a capture through the RTL, each frame against the model."""

import contextlib
from dataclasses import dataclass

from ..driver import Device, DeviceError
from ..model import NicModel
from . import verilator
from .build import build, device_verilog
from .compare import Comparer, Difference
from .register_socket import RegisterSocket
from .replay import Replay, SimulationError
from .report import Report
from .results import Results

__all__ = ["CHECKS", "Options", "run"]

#: What ``check`` may be, and of how many frames one is then held against the model; 0: none is.
CHECKS = {"all": 1, "sample": 100, "none": 0}
#: Frames between two reports of progress.
PROGRESS_FRAMES = 1000


@dataclass(frozen=True)
class Options:
    """How a capture is run.

    ``check`` is a key of :data:`CHECKS`. ``waves`` is the range of the frames during which waves
    are recorded, empty for none. ``registers`` is the path of a socket where registers can be read
    and written meanwhile, see :mod:`flytrim.driver.socket_bus`; None for none.
    """

    check: str = "all"
    waves: range = range(0)
    registers: str | None = None


def run(capture, setup, out, options=Options(), *, warn=print, say=None, progress=None):
    """Run a capture and write the results.

    Parameters
    ----------
    capture : flytrim.sim.capture.Capture
        What to run, back to back at full rate.
    setup : flytrim.flows.FlowFile
        The device and its flows.
    out : path
        Folder for what :class:`flytrim.sim.results.Results` writes; made where missing.
    options : Options
        How.
    warn : callable
        Takes a sentence about something that is done in another way than asked.
    say : callable or None
        Takes a sentence when there is something to wait for.
    progress : callable or None
        Takes the number of frames done, now and then.

    Returns the figures of the run. Raises :class:`~flytrim.sim.compare.Difference` where RTL and
    model disagree; then nothing new stands in ``out`` but waves, where they were recorded. After
    any other failure nothing does.
    """
    report = Report(setup, capture.path)
    with Results(out, setup.flows) as results, _registers(options.registers) as registers:
        program, waves = _program(setup.config, options, results, warn, say)
        takers = report.add, results.add
        try:
            with Replay(program, waves, registers) as replay:
                summary, checked = _replay(replay, capture, setup, options, takers, progress)
        except Difference:
            results.publish_waves()
            raise
        report.close(summary, checked)
        figures = report.figures()
        results.publish(figures)
    return figures


def _registers(path):
    return contextlib.nullcontext() if path is None else RegisterSocket(path)


def _program(config, options, results, warn, say):
    """The program to run, and the file it records waves in, or None."""
    verilog = device_verilog(config)
    if not options.waves:
        return build(config, verilog, say=say), None
    verilator.environment()     # says what is missing, if it is the compiler
    kind, reason = verilator.wave_format()
    if reason:
        warn(reason)
    return build(config, verilog, kind, say), results.wave_file(kind)


def _replay(replay, capture, setup, options, takers, progress):
    """Run the capture and hand each outcome to ``takers``; the harness's totals, frames checked."""
    comparer = Comparer(capture, NicModel(setup.flows, setup.config.max_frame),
                        every=CHECKS[options.check])
    add, write = takers
    try:
        replay.reset()
        Device(replay).insert_flows(setup.flows)
        replay.feed(((frame, False) for _, frame in capture), options.waves)
        for outcome in comparer.outcomes(replay.events()):
            add(outcome)
            write(outcome)
            if progress and outcome.index % PROGRESS_FRAMES == 0:
                progress(outcome.index)
    except (SimulationError, DeviceError) as error:
        raise Difference(None, "simulation", "to run to its end", str(error)) from None
    comparer.close(capture.frames)
    summary = replay.totals
    if summary.stalls:
        raise Difference(None, "receive port", "ready in every cycle",
                         f"{summary.stalls} cycles of waiting")
    return summary, comparer.checked
