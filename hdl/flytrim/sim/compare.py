# SPDX-License-Identifier: Apache-2.0
"""Holds every frame that went through the RTL against the reference model, on every bit."""

from collections import deque
from typing import NamedTuple

from ..verdict import Reason, Verdict
from .records import META, VERDICT, expected_meta, expected_verdict, said
from .replay import Kind
from .room import Room

__all__ = ["Comparer", "Difference", "Outcome"]

_TRIM, _BYPASS, _DROP = Kind.TRIM, Kind.BYPASS, Verdict.DROP
_OVERSIZE, _OVERFLOW = Reason.OVERSIZE, Reason.OVERFLOW


class Difference(Exception):
    """RTL and model disagree. ``str()`` names frame, field, what was expected and what came."""

    def __init__(self, frame, field, expected, got):
        self.frame, self.field, self.expected, self.got = frame, field, expected, got
        where = f"frame {frame}: " if frame is not None else ""
        super().__init__(f"{where}{field}: expected {expected}, got {got}")


class Outcome(NamedTuple):
    """What the RTL did to one frame, after the model agreed where it was asked.

    ``output`` is what left, payload or frame, damaged ones included; None where nothing did.
    ``flow`` is a number, or None. Cycles count from the reset; ``cycle_out`` is None where no beat
    left.
    """

    index: int
    header: object
    frame: bytes
    verdict: Verdict
    reason: Reason
    flow: int | None
    output: bytes | None
    cycle_in: int
    cycle_out: int | None


class Comparer:
    """Pairs the events of a run with its frames, in frame order.

    A frame is finished when its verdict and every output that belongs to it are there; it is
    compared then, so the first difference told is the one of the lowest frame number.

    Parameters
    ----------
    records : iterable of (header, bytes)
        The frames that were sent, in order; read as verdicts come.
    model : flytrim.model.NicModel
        What must become of them.
    errors : set of int
        Indexes of the frames that were sent with the MAC's error flag.
    overflow : flytrim.config.NicConfig or None
        The device, where sinks stall so that a frame may be dropped for want of room; it is
        believed only where its output's queue may have been that full. The verdict of a damaged
        frame tells the damage whether there was room or not, so what left next tells that.
    every : int
        The model is asked about frames 0, ``every``, 2 * ``every`` and so on; 0 is about none. What
        becomes of the others is what the RTL says. It is asked beyond that where a verdict
        alone does not tell what became of the frame: oversize, words that mean nothing, or
        damage where room may be short.

    ``checked`` counts the frames that were held against the model.
    """

    def __init__(self, records, model, *, errors=frozenset(), overflow=None, every=1):
        self._records = iter(records)
        self._model = model
        self._errors = errors
        self._room = Room(overflow) if overflow else None
        self._every = every
        self._index = 0
        self._started = None
        self._ended = False
        self._verdicts, self._payloads, self._bypasses, self._metas = (deque() for _ in range(4))
        self._queues = {Kind.VERDICT: self._verdicts, Kind.TRIM: self._payloads,
                        Kind.BYPASS: self._bypasses, Kind.METADATA: self._metas}
        self.checked = 0

    def outcomes(self, events):
        """The :class:`Outcome` of each frame that ``events`` finish. Raises :class:`Difference`."""
        queues, verdicts = self._queues, self._verdicts
        for event in events:
            queue = queues.get(event[0])
            if queue is None:
                self._refuse(event)
                continue
            queue.append(event)
            while (self._started or verdicts) and (outcome := self._finish()):
                yield outcome
        # Nothing more leaves, so what waits for the next output to tell its fate has none.
        self._ended = True
        while (self._started or verdicts) and (outcome := self._finish()):
            yield outcome

    def close(self, frames):
        """All ``frames`` were sent and drained: nothing may be missing or left over."""
        if self._index < frames:
            missing = self._missing() if self._started else "verdict"
            raise Difference(self._index, missing, "to come", "nothing by the end of the run")
        for kind, events in self._queues.items():
            if events:
                raise Difference(
                    None, f"{kind.name.lower()} output", "no more after the last frame",
                    f"{len(events)} more, the first in cycle {events[0].cycle}")

    def _refuse(self, event):
        if event.kind == Kind.VIOLATION:
            raise Difference(None, f"stream rules in cycle {event.cycle}", "none broken",
                             event.body.decode())
        if event.kind == Kind.HANG:
            raise Difference(self._index, f"progress by cycle {event.cycle}",
                             "every frame and output", event.body.decode())

    def _finish(self):
        """The next frame's outcome, or None while something of it is missing."""
        if not self._started:
            self._started = self._start(self._verdicts.popleft())
        header, frame, cycle_in, words, judgement, leaves, may_be_lost = self._started
        index = self._index
        output = first = None
        if may_be_lost:
            lost = self._is_lost(judgement, leaves)
            if lost is None:
                return None
            if lost:
                leaves = None
        if leaves is _TRIM:
            if not self._metas:
                return None
            # A payload without bytes has a record and no beat.
            if judgement.payload if judgement else META.read(self._metas[0].body, "length"):
                if not self._payloads:
                    return None
                event = self._payloads.popleft()
                output, first = event.body, event.cycle
                if judgement:
                    _check_output(index, "payload", judgement.payload, judgement.error, event)
            else:
                output = b""
            event = self._metas.popleft()
            if judgement:
                _check_meta(index, judgement, event)
            if self._room:
                self._room.enters(Kind.METADATA, event.cycle, 0)
        elif leaves is _BYPASS:
            if not self._bypasses:
                return None
            event = self._bypasses.popleft()
            output, first = event.body, event.cycle
            if judgement:
                _check_output(index, "bypass", judgement.bypass, judgement.error, event)
            else:
                # Needs no model, and what is written to a capture must have its header's length.
                _check_output(index, "bypass", frame, event.flags, event)
        if self._room:
            if output:
                self._room.enters(leaves, first, len(output))
            self._room.follows(len(frame))
        self._started = None
        self._index = index + 1
        return tuple.__new__(Outcome, (index, header, frame, words.verdict, words.reason,
                                       words.flow, output, cycle_in, first))

    def _start(self, event):
        record = next(self._records, None)
        index = self._index
        if record is None:
            raise Difference(index, "verdict", "none, every frame has one", "one more")
        header, frame = record
        words = said(event.body)
        sampled = self._every and index % self._every == 0
        if not sampled and words and words.reason is not _OVERSIZE and (
                words.flow is None or words.flow < len(self._model.flows)) and not (
                self._room and words.verdict is _DROP and words.reason is not _OVERFLOW):
            return header, frame, event.cycle, words, None, words.leaves, False
        judgement = self._model.judge(frame, mac_error=index in self._errors)
        leaves = _TRIM if judgement.payload is not None else _BYPASS
        may_be_lost = False
        if self._room:
            may_lack, in_doubt = self._room.judge(leaves, event.cycle)
            if may_lack and words and words.reason is _OVERFLOW:
                judgement, leaves = judgement.overflowed(), None
            else:
                may_be_lost = in_doubt and judgement.verdict is _DROP
        _check_verdict(index, judgement, event)
        self.checked += 1
        return header, frame, event.cycle, words, judgement, leaves, may_be_lost

    def _is_lost(self, judgement, leaves):
        """Whether nothing left of a damaged frame, or None while that cannot be told.

        What leaves next is its own or that of a later frame. Of frames that are alike in every bit
        the first one has it.
        """
        if leaves is _BYPASS:
            outputs, expected = self._bypasses, judgement.bypass
        else:
            outputs, expected = self._payloads, judgement.payload
            if self._metas and (int.from_bytes(self._metas[0].body, "little")
                                != expected_meta(judgement)):
                return True
            if self._metas and not expected:
                return False
        if outputs and (leaves is _BYPASS or self._metas):
            return (outputs[0].body, outputs[0].flags) != (expected, judgement.error)
        return True if self._ended else None

    def _missing(self):
        """The output that the frame that was begun waits for."""
        if self._started[5] is _BYPASS:
            return "bypass"
        return "trim" if self._metas else "metadata"


def _check_verdict(index, judgement, event):
    expected = expected_verdict(judgement.verdict, judgement.reason, judgement.flow)
    if event.body != expected:
        name, *pair = VERDICT.difference(int.from_bytes(expected, "little"),
                                         int.from_bytes(event.body, "little"))
        raise Difference(index, f"verdict.{name}", *pair)


def _check_meta(index, judgement, event):
    expected, got = expected_meta(judgement), int.from_bytes(event.body, "little")
    if got != expected:
        name, *pair = META.difference(expected, got)
        raise Difference(index, f"metadata.{name}", *pair)


def _check_output(index, field, expected, error, event):
    """The bytes of an output and the error flag on its last beat."""
    if event.body != expected:
        _explain_bytes(index, field, expected, event.body)
    if event.flags != error:
        raise Difference(index, f"{field} error flag", int(error), event.flags)


def _explain_bytes(index, field, expected, got):
    shorter = min(len(expected), len(got))
    at = next((n for n in range(shorter) if expected[n] != got[n]), shorter)
    if at == shorter:
        raise Difference(index, f"{field} length", f"{len(expected)} bytes", f"{len(got)} bytes")
    around = slice(max(0, at - 8), at + 8)
    raise Difference(index, f"{field} byte {at} of {len(expected)}", expected[around].hex(" "),
                     got[around].hex(" "))
