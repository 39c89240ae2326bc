# SPDX-License-Identifier: Apache-2.0
"""Frames through the compiled device in volume, back to back, each held against the model."""

import itertools

import frames
from dictated import Dictated
from ledger import Ledger

from flytrim.driver import Device
from flytrim.model import Flow, NicModel
from flytrim.sim.compare import Comparer, Difference
from flytrim.sim.replay import Replay, idle_command
from flytrim.verdict import Reason

__all__ = ["FLOWS", "play"]

#: The flows of :mod:`frames` and :mod:`hostile`.
FLOWS = tuple(Flow(**vars(flow)) for flow in frames.FLOWS)
#: Cycles until the last frame has its verdict, and its payload has left for a sink that is ready.
SETTLES = 200


def play(program, config, items, about, *, overflow=False):
    """Send :class:`hostile.Sent` frames, and commands between them; gives each frame's outcome.

    Parameters
    ----------
    program : path
        The replay program of ``config``, a ``NicConfig``.
    items : list
        Frames to send without a gap; bytes among them are commands of
        :mod:`flytrim.sim.replay`.
    about : str
        What to repeat the run with, for the message of a failure.
    overflow : bool
        Whether sinks stall so that frames may be dropped for want of room.

    Each :class:`flytrim.sim.compare.Outcome` has its frame as ``header``. Raises
    ``AssertionError`` where the device differs from the model in a bit, hangs, breaks a rule of a
    stream, does not take a beat in every cycle that has one, or has counted something else.
    """
    sent = [item for item in items if not isinstance(item, bytes)]
    model, ledger = NicModel(FLOWS, config.max_frame), Ledger(config.max_frame)
    counted = Dictated(_counted, config)
    comparer = Comparer(((item, item.frame) for item in sent), model,
                        errors={number for number, item in enumerate(sent) if item.error},
                        overflow=config if overflow else None)
    with Replay(program) as replay:
        replay.reset()
        Device(replay).insert_flows(FLOWS)
        replay.feed((item, None) if isinstance(item, bytes) else (item.frame, item.error)
                    for item in itertools.chain(
                        items, [idle_command(SETTLES)], counted.commands))
        try:
            for outcome in comparer.outcomes(counted.listen(replay.events())):
                judgement = model.judge(outcome.frame, outcome.header.error)
                if outcome.reason is Reason.OVERFLOW:
                    judgement = judgement.overflowed()
                elif judgement.payload and outcome.output:
                    ledger.add_latency(outcome.cycle_out - outcome.cycle_in)
                ledger.add(outcome.frame, judgement)
                yield outcome
            comparer.close(len(sent))
        except Difference as fault:
            raise AssertionError(_explain(fault, sent, about)) from None
    # Where sinks stall, payloads may leave when the counters have been read.
    counters, flows = counted.result()
    ledger.check(counters, latency=len(sent) == len(items))
    for number, found in enumerate(flows):
        ledger.check_flow(number, found)
    summary = replay.totals
    assert (summary.frames, summary.stalls) == (len(sent), 0), f"{about}: {summary}"
    if len(sent) == len(items):
        assert summary.last_beat - summary.first_beat + 1 == summary.beats, f"{about}: {summary}"


def _counted(device):
    return device.counters(), [device.flow_counters(number) for number in range(len(FLOWS))]


def _explain(fault, sent, about):
    lines = [f"{about}: {fault}"]
    if fault.frame is not None:
        lines += [f"  frame {number} is {sent[number].kind}, {len(sent[number].frame)} bytes"
                  f"{', marked' if sent[number].error else ''}: {sent[number].frame[:130].hex()}"
                  for number in range(max(0, fault.frame - 1), min(len(sent), fault.frame + 1))]
    return "\n".join(lines)
