# SPDX-License-Identifier: Apache-2.0
"""What a device has counted, as software reads it."""

from typing import NamedTuple

from ..verdict import Reason

__all__ = ["Count", "Counters", "FlowCounters", "read_counters", "read_flow_counters"]

#: What trimmed frames consist of, and the queues whose fill is watched: parts of names.
_PARTS = ("header", "payload", "cut", "tail")
_QUEUES = ("trim", "bypass", "meta")
_BUCKETS = 16


class Count(NamedTuple):
    """Frames, and their bytes without FCS."""

    frames: int
    bytes: int


class FlowCounters(NamedTuple):
    """Packets of a flow that were trimmed, and those among them that ended a message."""

    packets: int
    messages: int


class Counters(NamedTuple):
    """What a device has counted since its reset, or since its counters were cleared.

    ``received`` is all frames that came in, and ``reasons`` what became of them, by
    :class:`flytrim.verdict.Reason`; ``NONE`` is trimmed. ``parts`` is the bytes of trimmed frames
    by what they were: ``header``, ``payload``, ``cut``, which is what a preset message length took
    from a payload, and ``tail``, everything behind that. ``latency`` is (least, most) cycles from a
    frame's first beat in to its payload's first beat out, None where no payload has left;
    ``buckets[n]`` counts those of 2^n to 2^(n+1) - 1 cycles. ``high_water`` is the most items that
    have waited in a queue, by its name, and ``depths`` how many it holds.
    """

    received: Count
    reasons: dict[Reason, Count]
    parts: dict[str, int]
    latency: tuple[int, int] | None
    buckets: tuple[int, ...]
    high_water: dict[str, int]
    depths: dict[str, int]


def read_counters(device):
    """The :class:`Counters` of a :class:`flytrim.driver.Device`.

    They go on counting meanwhile: a frame may be in one that is read late, and not yet in one that
    was read before. What came in is read last, so that it is never less than what became of it.
    Raises :class:`flytrim.driver.DeviceError`.
    """
    def count(name):
        return device.read(f"counters.{name}")["count"]

    def frames_and_bytes(form):
        return Count(count(form.format("frames")), count(form.format("bytes")))

    least, most = (device.read(f"counters.latency_{end}")["cycles"]
                   for end in ("minimum", "maximum"))
    waited = {queue: device.read(f"counters.high_water_{queue}") for queue in _QUEUES}
    return Counters(
        reasons={reason: frames_and_bytes(f"reason[{reason:d}].{{}}") for reason in Reason},
        parts={part: count(f"{part}_bytes") for part in _PARTS},
        latency=(least, most) if least <= most else None,
        buckets=tuple(count(f"latency[{number}]") for number in range(_BUCKETS)),
        high_water={queue: fields["most"] for queue, fields in waited.items()},
        depths={queue: 1 << fields["depth_log2"] for queue, fields in waited.items()},
        received=frames_and_bytes("received_{}"))


def read_flow_counters(device):
    """The :class:`FlowCounters` of the flow that the last command was on.

    Messages are read first, so that they are never more than packets.
    """
    return FlowCounters(**{name: device.read(f"flow_counters.{name}")["count"]
                           for name in ("messages", "packets")})
