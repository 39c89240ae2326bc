# SPDX-License-Identifier: Apache-2.0
"""What a device has counted, as software reads it."""

from typing import NamedTuple

from ..verdict import Reason

__all__ = ["Amount", "Counters", "FlowCounters", "Latency", "read_counters", "read_flow_counters"]

BUCKETS = 16
QUEUES = ("trim", "bypass", "meta")


class Amount(NamedTuple):
    """Frames, and their bytes without FCS."""

    frames: int
    bytes: int


class Latency(NamedTuple):
    """Cycles from a frame's first beat in to its payload's first beat out.

    ``histogram[n]`` counts 2^n to 2^(n+1) - 1 cycles. All of it is None, None and zeros where no
    payload has left.
    """

    minimum: int | None
    maximum: int | None
    histogram: tuple


class FlowCounters(NamedTuple):
    """Packets of a flow that were trimmed, and those that ended a message."""

    packets: int
    messages: int


class Counters(NamedTuple):
    """All counters of a device but those of flows; ``counters`` of the register description.

    ``reasons`` holds an :class:`Amount` for each :class:`flytrim.verdict.Reason`; ``header_bytes``
    to ``tail_bytes`` are the parts of the frames that were trimmed, ``high_water`` the most items
    that have waited in each queue, ``depths`` the items it holds.
    """

    received: Amount
    reasons: dict
    header_bytes: int
    payload_bytes: int
    cut_bytes: int
    tail_bytes: int
    latency: Latency
    high_water: dict
    depths: dict


def read_counters(read):
    """:class:`Counters`, by ``read``, which takes a register's name and gives its fields."""
    def count(name):
        return read(f"counters.{name}")["count"]

    waits = {queue: read(f"counters.high_water_{queue}") for queue in QUEUES}
    histogram = tuple(count(f"latency[{bucket}]") for bucket in range(BUCKETS))
    shortest, longest = (read(f"counters.latency_{end}imum")["cycles"] for end in ("min", "max"))
    measured = shortest <= longest
    return Counters(
        Amount(count("received_frames"), count("received_bytes")),
        {reason: Amount(count(f"reason[{reason.value}].frames"),
                        count(f"reason[{reason.value}].bytes")) for reason in Reason},
        count("header_bytes"), count("payload_bytes"), count("cut_bytes"), count("tail_bytes"),
        Latency(*((shortest, longest) if measured else (None, None)), histogram),
        {queue: fields["most"] for queue, fields in waits.items()},
        {queue: 1 << fields["depth_log2"] for queue, fields in waits.items()})


def read_flow_counters(read):
    """:class:`FlowCounters` of the flow that is selected, by ``read`` as above."""
    return FlowCounters(*(read(f"flow_counters.{name}")["count"] for name in
                          FlowCounters._fields))
