# SPDX-License-Identifier: Apache-2.0
"""The job of ``flytrim sim --top switch``: a capture into each port, held against the model."""

import bisect
import json
import os
from pathlib import Path
from typing import NamedTuple

import cypcap

from ..config import MAX_PORTS
from ..driver import DeviceError, Switch
from ..verdict import Reason
from .build import build_fabric, device_verilog
from .capture import Writer
from .compare import Difference
from .fabric import Fabric, SimulationError
from .partial import partial_folder
from .switch_check import Arrival, SwitchCheck
from .switch_counts import check_counts, read_counts

__all__ = ["Played", "play", "run_switch"]

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
        Folder for ``tx0.pcap`` and so on, what left each port, and ``report.json``; made where
        missing.
    say, progress : callable or None
        Take a sentence when there is something to wait for; the number of frames done, now and
        then.

    Returns the figures of the run. Raises :class:`~flytrim.sim.compare.Difference` where RTL and
    model disagree; then nothing new stands in ``out``, as after any other failure.
    """
    config = setup.config
    program = build_fabric(config, device_verilog(config, "switch"), say=say)
    with partial_folder(out) as folder, Fabric(program) as fabric:
        played = play(fabric, captures, setup, progress)
        check = SwitchCheck(setup, played.arrivals)
        agreed = check.compare(played.frames)
        check_counts(played.counts, setup, check, agreed)
        figures = _figures(captures, setup, played, agreed)
        _write(folder, played, setup, figures)
        _place(folder, Path(out))
    return figures


class Played(NamedTuple):
    """What entered and left a switch, what it has counted, and the last :class:`Ran`."""

    arrivals: list
    frames: list
    counts: object
    ran: object

    @property
    def start(self):
        """The cycle in which the first frames enter."""
        return min(arrival.cycle for arrival in self.arrivals)


def play(fabric, captures, setup, progress=None):
    """Set a switch up after reset, and let the captures enter: :class:`Played`.

    Raises :class:`~flytrim.sim.compare.Difference` where it does not come to rest, breaks a rule of
    its ports, or does not answer software.
    """
    try:
        fabric.reset()
        switch = Switch(fabric)
        switch.configure(setup)
        start = fabric.run(0).cycle
        arrivals = [*_arrivals(captures, setup.config.lanes, start)]
        frames, ran = _replay(fabric, arrivals, setup.config, start, progress)
        return Played(arrivals, frames, read_counts(switch, setup), ran)
    except (SimulationError, DeviceError) as error:
        raise Difference(None, "simulation", "to run to its end", str(error)) from None


def _figures(captures, setup, played, agreed):
    """What ``report.json`` holds."""
    config, ran, counts = setup.config, played.ran, played.counts
    end = max((left.last for left in played.frames), default=ran.cycle) + 1
    return {
        "device": {"width": config.width, "ports": config.ports, "clock_mhz": setup.clock_mhz},
        "cycles": end - played.start,
        "ports": [{
            "capture": str(captures[port].path) if port < len(captures) else None,
            "frames_in": captures[port].frames if port < len(captures) else 0,
            "frames_out": sum(left.port == port for left in played.frames),
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
                   "results_unchecked": agreed.unchecked, "results_spoilt": agreed.spoilt},
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
    cycles = sorted(arrival.cycle for arrival in arrivals)
    end = cycles[-1]
    frames, now = [], start
    while now < end:
        now = min(now + _STEP, end)
        frames += _no_faults(fabric.run(now)).frames
        if progress:
            progress(bisect.bisect_left(cycles, now))
    ran = _no_faults(fabric.drain(end + _LONGER * config.ports * beats + _REST))
    # Two rounds of the slots, so that the one that is told of those in use has begun behind it all.
    rest = _no_faults(fabric.run(ran.cycle + 2 * _ROUND * (config.slots + config.groups)))
    return frames + ran.frames, rest


def _no_faults(ran):
    if ran.faults:
        raise Difference(None, "ports", "to keep the rules of streams", ran.faults[0])
    return ran


def _write(folder, played, setup, figures):
    for port in range(setup.config.ports):
        writer = Writer(str(folder / f"tx{port}.pcap"))
        for left in played.frames:
            if left.port == port:
                seconds = (left.first - played.start) / (setup.clock_mhz * 1e6)
                writer.write(cypcap.Pkthdr(seconds, len(left.frame), len(left.frame)), left.frame)
        writer.close()
    (folder / "report.json").write_text(json.dumps(figures, indent=2) + "\n")


def _place(folder, out):
    # Those of an earlier run with more ports would pass for this one's.
    for port in range(MAX_PORTS):
        if not (folder / f"tx{port}.pcap").exists():
            (out / f"tx{port}.pcap").unlink(missing_ok=True)
    for path in sorted(folder.iterdir()):
        os.replace(path, out / path.name)
