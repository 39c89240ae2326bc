# SPDX-License-Identifier: Apache-2.0
"""What a device has counted, read at once."""

from typing import NamedTuple

from ..verdict import Reason

__all__ = ["Count", "Counters", "read_counters"]

#: What trimmed frames consist of, and the queues whose fill is watched: parts of names.
_PARTS = ("header", "payload", "tail", "cut")
_QUEUES = ("trim", "bypass", "meta")
_BUCKETS = 16


class Count(NamedTuple):
    """Frames, and their bytes without FCS."""

    frames: int
    bytes: int


class Counters(NamedTuple):
    """What a device has counted since its reset, or since its counters were cleared.

    ``received`` is all frames that came in, and ``reasons`` what became of them, by
    :class:`flytrim.verdict.Reason`; ``NONE`` is trimmed. ``parts`` is the bytes of trimmed frames
    by what they were: ``header``, ``payload``, ``cut``, which is what a preset message length took
    from a payload, and ``tail``, everything behind that. ``latency`` is (least, most) cycles,
    None where there was no frame, ``buckets`` the frames by the binary logarithm of their cycles.
    ``high_water`` is the most items that a queue held, by its name.
    """

    received: Count
    reasons: dict[Reason, Count]
    parts: dict[str, int]
    latency: tuple[int, int] | None
    buckets: tuple[int, ...]
    high_water: dict[str, int]


def read_counters(device):
    """The :class:`Counters` of a :class:`flytrim.driver.Device`.

    They go on counting meanwhile: a frame may be in one that is read late, and not yet in one that
    was read before. Raises :class:`flytrim.driver.DeviceError`.
    """
    def count(name):
        return device.read(f"counters.{name}")["count"]

    def frames_and_bytes(form):
        return Count(count(form.format("frames")), count(form.format("bytes")))

    buckets = tuple(count(f"latency_bucket[{number}]") for number in range(_BUCKETS))
    latency = device.read("counters.latency")
    return Counters(
        received=frames_and_bytes("received_{}"),
        reasons={reason: frames_and_bytes(f"reason[{reason:d}].{{}}") for reason in Reason},
        parts={part: count(f"{part}_bytes") for part in _PARTS},
        latency=(latency["minimum"], latency["maximum"]) if any(buckets) else None,
        buckets=buckets,
        high_water={queue: device.read(f"counters.high_water_{queue}")["items"]
                    for queue in _QUEUES})
