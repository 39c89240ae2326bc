# SPDX-License-Identifier: Apache-2.0
"""What the counters of a device must read, from frames and what became of them."""

from collections import Counter

import roce

from flytrim.driver import Count, FlowCounters
from flytrim.verdict import Reason

__all__ = ["Ledger"]

_ENDING = {code for name, code in roce.OPCODES.items() if "LAST" in name or "ONLY" in name}
_EXTENSION_BYTES = {code: sum(len(bytes(layer())) for layer in chain)
                    for code, chain in roce.EXTENSIONS.items()}


def _header_bytes(data, opcode):
    ip = roce.datagram_span(data)[0]
    return ip + (20 if data[ip] >> 4 == 4 else 40) + 8 + 12 + _EXTENSION_BYTES[opcode]


class Ledger:
    """Adds up frames and their judgements, in the words of :mod:`flytrim.driver`.

    Parameters
    ----------
    max_frame : int
        Longest frame in bytes; of a longer one as many are counted.
    """

    def __init__(self, max_frame):
        self._max_frame = max_frame
        self._frames, self._bytes, self._parts = Counter(), Counter(), Counter()
        self._packets, self._messages, self._latencies = Counter(), Counter(), []

    def add(self, data, judgement):
        """Count a frame."""
        size = min(len(data), self._max_frame)
        self._frames[judgement.reason] += 1
        self._bytes[judgement.reason] += size
        if judgement.reason is Reason.NONE:
            parts = {"header": _header_bytes(data, judgement.opcode),
                     "payload": len(judgement.payload), "cut": judgement.cut}
            parts["tail"] = size - sum(parts.values())
            self._parts.update(parts)
            self._packets[judgement.flow] += 1
            self._messages[judgement.flow] += judgement.opcode in _ENDING

    def add_latency(self, cycles):
        """Count how long a payload took."""
        self._latencies.append(cycles)

    def check(self, counters, *, latency=True):
        """Hold a device's :class:`flytrim.driver.Counters` against what was added.

        Latencies only where ``latency`` is set.
        """
        reasons = {reason: Count(self._frames[reason], self._bytes[reason]) for reason in Reason}
        assert counters.reasons == reasons
        assert counters.received == (self._frames.total(), self._bytes.total())
        assert counters.parts == {part: self._parts[part] for part in counters.parts}
        if not latency:
            return
        buckets = [0] * 16
        for cycles in self._latencies:
            buckets[min(max(cycles, 1).bit_length() - 1, 15)] += 1
        assert counters.latency == (
            (min(self._latencies), max(self._latencies)) if self._latencies else None)
        assert counters.buckets == tuple(buckets)

    def check_flow(self, number, counters):
        """The same for a flow's :class:`flytrim.driver.FlowCounters`."""
        assert counters == FlowCounters(self._packets[number], self._messages[number]), number

    def events(self):
        """Bits of ``interrupt_status`` that the frames have set."""
        dropped = {reason for reason in self._frames if reason >= Reason.OVERSIZE}
        return {"overflow" if reason is Reason.OVERFLOW else "damaged" for reason in dropped}
