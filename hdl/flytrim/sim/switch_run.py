# SPDX-License-Identifier: Apache-2.0
"""The job of ``flytrim sim --top switch``: a capture into each port, held against the model."""

import contextlib
import json
import os
import tempfile
from pathlib import Path

import cypcap

from ..driver import DeviceError, Switch
from ..errors import InputError
from ..verdict import Reason
from .build import build_fabric, device_verilog
from .capture import Writer
from .compare import Difference
from .fabric import Fabric, SimulationError
from .switch_check import Arrival, SwitchCheck
from .switch_counts import check_counts, read_counts

__all__ = ["run_switch"]

#: Cycles between two reports of progress.
_STEP = 100_000
#: What leaves is at most so much longer than what came, and a result leaves every port.
_LONGER = 4
#: Cycles that anything may take beside that.
_REST = 100_000
#: Cycles in which a slot is looked at.
_ROUND = 3


def run_switch(captures, setup, out, *, say=None, progress=None):
    """Run a capture into each port, all from the same cycle on, and write what left.

    Parameters
    ----------
    captures : list of flytrim.sim.capture.Capture
        One a port, in order, back to back at full rate; ports behind the last get nothing.
    setup : flytrim.groups.SwitchFile
        The switch, its flows and its groups.
    out : path
        Folder for ``port0.pcap`` and so on, and ``report.json``; made where missing.
    say, progress : callable or None
        Take a sentence when there is something to wait for; the number of frames done, now and
        then.

    Returns the figures of the run. Raises :class:`~flytrim.sim.compare.Difference` where RTL and
    model disagree; then nothing new stands in ``out``, as after any other failure.
    """
    config = setup.config
    program = build_fabric(config, device_verilog(config, "switch"), say=say)
    with _folder(out) as folder, Fabric(program) as fabric:
        try:
            fabric.reset()
            switch = Switch(fabric)
            switch.configure(setup)
            start = fabric.run(0).cycle
            arrivals = [*_arrivals(captures, config.lanes, start)]
            frames, ran = _replay(fabric, arrivals, config, start, progress)
            counts = read_counts(switch, setup)
        except (SimulationError, DeviceError) as error:
            raise Difference(None, "simulation", "to run to its end", str(error)) from None
        check = SwitchCheck(setup, arrivals)
        agreed = check.compare(frames)
        check_counts(counts, setup, check, agreed)
        figures = _figures(captures, setup, frames, ran, counts, agreed)
        figures["cycles"] = max((left.last for left in frames), default=ran.cycle) + 1 - start
        _write(folder, frames, start, setup, figures)
        _place(folder, Path(out))
    return figures


def _figures(captures, setup, frames, ran, counts, agreed):
    """What ``report.json`` holds, but for the cycles."""
    config = setup.config
    return {
        "device": {"width": config.width, "ports": config.ports, "clock_mhz": setup.clock_mhz},
        "ports": [{
            "capture": str(captures[port].path) if port < len(captures) else None,
            "frames_in": captures[port].frames if port < len(captures) else 0,
            "frames_out": sum(left.port == port for left in frames),
            "beats_in": ran.beats_in[port], "beats_out": ran.beats_out[port],
            "forward": setup.forward.get(port),
            "reasons": {str(reason): count for reason, count in counts.reasons[port].items()
                        if count and reason is not Reason.NONE},
            **count._asdict()}
            for port, count in enumerate(counts.switch.ports)],
        "groups": [{"name": group.name, "op": group.op, "dtype": group.dtype,
                    "window": group.window, **count._asdict(),
                    "latency": _span(agreed.latency[number])}
                   for number, (group, count) in enumerate(zip(setup.groups, counts.groups,
                                                               strict=True))],
        "slots_waiting": counts.switch.in_use,
        "frames": {"forwarded": agreed.forwarded, "no_room": agreed.no_room,
                   "results": agreed.certain, "results_by_order": agreed.by_order,
                   "results_unchecked": agreed.unchecked},
    }


def _span(cycles):
    return {"min_cycles": min(cycles), "max_cycles": max(cycles)} if cycles else None


def _arrivals(captures, lanes, start):
    """Every frame, with the cycle that it enters in where its port never waits."""
    for port, capture in enumerate(captures):
        cycle = start
        for index, (_, frame) in enumerate(capture):
            yield Arrival(port, index, cycle, frame)
            cycle += -(-len(frame) // lanes)


def _replay(fabric, arrivals, config, start, progress):
    """(frames that left, the last :class:`Ran`)."""
    beats = 0
    for port, _, _, frame in arrivals:
        fabric.send(port, frame, start)
        beats += -(-len(frame) // config.lanes)
    end = max(arrival.cycle for arrival in arrivals)
    frames, now = [], start
    while now < end:
        now = min(now + _STEP, end)
        frames += _no_faults(fabric.run(now)).frames
        if progress:
            progress(sum(arrival.cycle < now for arrival in arrivals))
    ran = _no_faults(fabric.drain(end + _LONGER * config.ports * beats + _REST))
    # Two rounds of the slots, so that the one that is told of those in use has begun behind it all.
    rest = _no_faults(fabric.run(ran.cycle + 2 * _ROUND * (config.slots + config.groups)))
    return frames + ran.frames, rest


def _no_faults(ran):
    if ran.faults:
        raise Difference(None, "ports", "to keep the rules of streams", ran.faults[0])
    return ran


@contextlib.contextmanager
def _folder(out):
    """A folder in ``out`` for what is not whole yet; both are gone after a failure."""
    out = Path(out)
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=out) as folder:
            yield Path(folder)
    except OSError as error:
        raise InputError(f"{out}: cannot write the results there: {error.strerror}; choose another "
                         f"--out folder") from None
    finally:
        if made:
            with contextlib.suppress(OSError):
                out.rmdir()


def _write(folder, frames, start, setup, figures):
    for port in range(setup.config.ports):
        writer = Writer(str(folder / f"port{port}.pcap"))
        for left in frames:
            if left.port == port:
                seconds = (left.first - start) / (setup.clock_mhz * 1e6)
                writer.write(cypcap.Pkthdr(seconds, len(left.frame), len(left.frame)), left.frame)
        writer.close()
    (folder / "report.json").write_text(json.dumps(figures, indent=2) + "\n")


def _place(folder, out):
    # Those of an earlier run with more ports would pass for this one's.
    for stale in out.glob("port*.pcap"):
        stale.unlink()
    for path in sorted(folder.iterdir()):
        os.replace(path, out / path.name)
