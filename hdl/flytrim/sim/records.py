# SPDX-License-Identifier: Apache-2.0
"""The two records that leave the device, read and made from their layouts, fast."""

from functools import lru_cache
from typing import NamedTuple

from amaranth import Shape
from amaranth.lib import data

from ..context import MetaRecord, VerdictRecord
from ..verdict import Reason, Verdict
from .replay import Kind

__all__ = ["META", "VERDICT", "Record", "Said", "expected_meta", "expected_verdict", "said"]


class Record:
    """The fields of a record by name. Words are integers, bodies their bytes as they came."""

    _WORDS = {"reason": Reason, "verdict": Verdict}

    def __init__(self, layout):
        self._places = {str(name): (field.offset, (1 << Shape.cast(field.shape).width) - 1)
                        for name, field in data.Layout.cast(layout)}

    def offset(self, name):
        """Bits below a field."""
        return self._places[name][0]

    def value(self, word, name):
        """A field of a word."""
        offset, mask = self._places[name]
        return word >> offset & mask

    def read(self, body, name):
        """A field of a body."""
        return self.value(int.from_bytes(body, "little"), name)

    def difference(self, expected, got):
        """(name, expected, got) of the first field in which two words differ, the values as text.

        The name is "reserved" where no field does.
        """
        for name in self._places:
            pair = self.value(expected, name), self.value(got, name)
            if pair[0] != pair[1]:
                words = self._WORDS.get(name, ())
                return name, *(str(words(value)) if value in set(words) else hex(value)
                               for value in pair)
        return "reserved", hex(expected), hex(got)


VERDICT = Record(VerdictRecord)
META = Record(MetaRecord)
#: Verdict records differ in verdict, reason and flow alone, so few are different.
_CACHED = 1 << 12


class Said(NamedTuple):
    """A verdict record in words. ``leaves`` is where such a frame leaves, unless it is oversize."""

    verdict: Verdict
    reason: Reason
    flow: int | None
    leaves: Kind | None


@lru_cache(_CACHED)
def said(body):
    """The :class:`Said` of a record's bytes, or None where they hold no words."""
    try:
        verdict = Verdict(VERDICT.read(body, "verdict"))
        reason = Reason(VERDICT.read(body, "reason"))
    except ValueError:
        return None
    flow = VERDICT.read(body, "flow") if VERDICT.read(body, "hit") else None
    if verdict == Verdict.BYPASS:
        leaves = Kind.BYPASS
    else:
        leaves = None if reason == Reason.OVERFLOW else Kind.TRIM
    return Said(verdict, reason, flow, leaves)


@lru_cache(_CACHED)
def expected_verdict(verdict, reason, flow):
    """The bytes of a verdict record; ``flow`` None is no hit."""
    word = (reason << VERDICT.offset("reason") | verdict << VERDICT.offset("verdict")
            | (flow is not None) << VERDICT.offset("hit") | (flow or 0) << VERDICT.offset("flow"))
    return word.to_bytes(4, "little")


(_FLOW, _OPCODE, _REASON, _PSN, _PAD_COUNT, _SOLICITED, _ACK_REQUEST, _ECN, _LENGTH, _CUT,
 _IMMEDIATE, _ADDRESS, _RKEY, _DMA_LENGTH) = map(META.offset, (
     "flow", "opcode", "reason", "psn", "pad_count", "solicited", "ack_request", "ecn", "length",
     "cut", "immediate", "address", "rkey", "dma_length"))


def expected_meta(judgement):
    """The metadata record that a judged packet must have, as a word."""
    # Spelled out: this runs for every packet, and a loop over names takes three times as long.
    return (
        judgement.flow << _FLOW | judgement.opcode << _OPCODE | judgement.reason << _REASON
        | judgement.psn << _PSN | judgement.pad_count << _PAD_COUNT
        | judgement.solicited << _SOLICITED | judgement.ack_request << _ACK_REQUEST
        | judgement.ecn << _ECN | judgement.length << _LENGTH | judgement.cut << _CUT
        | judgement.immediate << _IMMEDIATE | judgement.address << _ADDRESS
        | judgement.rkey << _RKEY | judgement.dma_length << _DMA_LENGTH)
