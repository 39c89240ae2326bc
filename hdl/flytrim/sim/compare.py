# SPDX-License-Identifier: Apache-2.0
"""Holds every frame that went through the RTL against the reference model, on every bit."""

from collections import deque
from typing import NamedTuple

from amaranth import Shape
from amaranth.lib import data

from ..context import MetaRecord, VerdictRecord
from ..verdict import Reason, Verdict
from .replay import Kind

__all__ = ["Comparer", "Difference", "Outcome"]


class Difference(Exception):
    """RTL and model disagree. ``str()`` names frame, field, what was expected and what came."""

    def __init__(self, frame, field, expected, got):
        self.frame, self.field, self.expected, self.got = frame, field, expected, got
        where = f"frame {frame}: " if frame is not None else ""
        super().__init__(f"{where}{field}: expected {expected}, got {got}")


class Outcome(NamedTuple):
    """What became of one frame, after RTL and model agreed on it. Cycles count from the reset."""

    index: int
    header: object
    frame: bytes
    judgement: object
    cycle_in: int
    cycle_out: int | None


class Comparer:
    """Pairs the events of a run with its frames, in frame order.

    A frame is finished when its verdict and every output that the model expects are there; it is
    compared then, so the first difference told is the one of the lowest frame number.

    Parameters
    ----------
    records : iterable of (header, bytes)
        The frames that were sent, in order; read as verdicts come.
    model : flytrim.model.NicModel
        What must become of them.
    errors : set of int
        Indexes of the frames that were sent with the MAC's error flag.
    overflow : bool
        Whether a frame may be dropped for want of room: only where a sink stalls.
    """

    def __init__(self, records, model, *, errors=frozenset(), overflow=False):
        self._records = iter(records)
        self._model = model
        self._errors = errors
        self._overflow = overflow
        self._index = 0
        self._frame = None
        self._verdicts = deque()
        self._outputs = {Kind.TRIM: deque(), Kind.BYPASS: deque(), Kind.METADATA: deque()}

    def take(self, event):
        """Add one event and yield the :class:`Outcome` of each frame it finishes.

        Raises :class:`Difference`.
        """
        if event.kind == Kind.VERDICT:
            self._verdicts.append(event)
        elif event.kind in self._outputs:
            self._outputs[event.kind].append(event)
        elif event.kind == Kind.VIOLATION:
            raise Difference(None, f"stream rules in cycle {event.cycle}", "none broken",
                             event.body.decode())
        elif event.kind == Kind.HANG:
            raise Difference(self._index, f"progress by cycle {event.cycle}",
                             "every frame and output", event.body.decode())
        while outcome := self._finish_one():
            yield outcome

    def close(self, frames):
        """All ``frames`` were sent and drained: nothing may be missing or left over."""
        if self._index < frames:
            verdict = "verdict" if self._frame is None else ", ".join(
                kind.name.lower() for kind in self._wanted() if not self._outputs[kind])
            raise Difference(self._index, verdict, "to come", "nothing by the end of the run")
        for kind, events in (*self._outputs.items(), (Kind.VERDICT, self._verdicts)):
            if events:
                raise Difference(
                    None, f"{kind.name.lower()} output", "no more after the last frame",
                    f"{len(events)} more, the first in cycle {events[0].cycle}")

    def _finish_one(self):
        if self._frame is None:
            if not self._verdicts:
                return None
            self._start(self._verdicts.popleft())
        wanted = self._wanted()
        if not all(self._outputs[kind] for kind in wanted):
            return None
        header, frame, cycle_in, judgement = self._frame
        first = None
        for kind in wanted:
            event = self._outputs[kind].popleft()
            _CHECKS[kind](self._index, judgement, event)
            if kind != Kind.METADATA:
                first = event.cycle
        outcome = Outcome(self._index, header, frame, judgement, cycle_in, first)
        self._frame = None
        self._index += 1
        return outcome

    def _start(self, event):
        record = next(self._records, None)
        if record is None:
            raise Difference(self._index, "verdict", "none, every frame has one", "one more")
        header, frame = record
        word = int.from_bytes(event.body, "little")
        judgement = self._model.judge(frame, mac_error=self._index in self._errors)
        if self._overflow and _VERDICT.value(word, "reason") == Reason.OVERFLOW:
            judgement = judgement.overflowed()
        expected = _VERDICT.pack(
            reason=judgement.reason, verdict=judgement.verdict, hit=judgement.flow is not None,
            flow=judgement.flow or 0)
        if word != expected:
            _VERDICT.explain(self._index, "verdict", expected, word)
        self._frame = header, frame, event.cycle, judgement

    def _wanted(self):
        judgement = self._frame[3]
        if judgement.payload is not None:
            return (Kind.TRIM, Kind.METADATA) if judgement.payload else (Kind.METADATA,)
        return (Kind.BYPASS,) if judgement.bypass is not None else ()


class _Record:
    """The fields of a record: packs expected values, and names the first field that differs."""

    _WORDS = {"reason": Reason, "verdict": Verdict}

    def __init__(self, layout):
        self._fields = [(str(name), field.offset, (1 << Shape.cast(field.shape).width) - 1)
                        for name, field in data.Layout.cast(layout)]
        self._places = {name: (offset, mask) for name, offset, mask in self._fields}

    def pack(self, **values):
        word = 0
        for name, value in values.items():
            word |= value << self._places[name][0]
        return word

    def value(self, word, name):
        offset, mask = self._places[name]
        return word >> offset & mask

    def explain(self, frame, what, expected, got):
        for name, *_ in self._fields:
            pair = self.value(expected, name), self.value(got, name)
            if pair[0] != pair[1]:
                words = self._WORDS.get(name, ())
                raise Difference(frame, f"{what}.{name}", *(
                    str(words(value)) if value in set(words) else hex(value) for value in pair))
        raise Difference(frame, what, hex(expected), hex(got))


_VERDICT = _Record(VerdictRecord)
_META = _Record(MetaRecord)


def _check_payload(index, judgement, event):
    _check_bytes(index, "payload", judgement.payload, event.body)
    _check_flag(index, "payload error flag", judgement.error, event.flags)


def _check_bypass(index, judgement, event):
    _check_bytes(index, "bypass", judgement.bypass, event.body)
    _check_flag(index, "bypass error flag", judgement.error, event.flags)


def _check_metadata(index, judgement, event):
    expected = _META.pack(
        flow=judgement.flow, opcode=judgement.opcode, reason=judgement.reason, psn=judgement.psn,
        pad_count=judgement.pad_count, solicited=judgement.solicited,
        ack_request=judgement.ack_request, ecn=judgement.ecn, length=judgement.length,
        cut=judgement.cut, immediate=judgement.immediate, address=judgement.address,
        rkey=judgement.rkey, dma_length=judgement.dma_length)
    got = int.from_bytes(event.body, "little")
    if got != expected:
        _META.explain(index, "metadata", expected, got)


_CHECKS = {Kind.TRIM: _check_payload, Kind.BYPASS: _check_bypass, Kind.METADATA: _check_metadata}


def _check_flag(index, field, expected, got):
    if expected != got:
        raise Difference(index, field, int(expected), got)


def _check_bytes(index, field, expected, got):
    if expected == got:
        return
    at = next((n for n, pair in enumerate(zip(expected, got, strict=False))
               if pair[0] != pair[1]), min(len(expected), len(got)))
    if at == min(len(expected), len(got)):
        raise Difference(index, f"{field} length", f"{len(expected)} bytes", f"{len(got)} bytes")
    around = slice(max(0, at - 8), at + 8)
    raise Difference(index, f"{field} byte {at} of {len(expected)}", expected[around].hex(" "),
                     got[around].hex(" "))
