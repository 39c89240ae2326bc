# SPDX-License-Identifier: Apache-2.0
"""A one-way link that loses, doubles and reorders frames."""

import random
from collections import Counter

__all__ = ["WIRE_OVERHEAD", "Link"]

#: What a frame takes of the wire beside its bytes: preamble, FCS and gap.
WIRE_OVERHEAD = 8 + 4 + 12


class Link:
    """A wire that frames enter one after another, and what happens to them behind it.

    Parameters
    ----------
    seed : int or str
        Of all chances.
    delay : int
        Cycles from a frame's last byte in to its arrival, at least 1.
    rate : int
        Bytes a cycle, at least 1.
    loss, duplicate : float
        Chance that a frame does not arrive, and that it arrives twice.
    reorder : int
        How many that follow a frame may overtake it, all alike and back to back: it is late by up
        to the time that they take on the wire, and a bit.

    Attributes
    ----------
    counts : collections.Counter
        ``frames`` and ``wire_bytes`` that entered, ``lost``, ``duplicated``, ``reordered``: arrived
        before one that entered before.
    """

    def __init__(self, seed, *, delay, rate, loss=0.0, duplicate=0.0, reorder=0):
        self._random = random.Random(seed)
        self._delay, self._rate = delay, rate
        self._loss, self._duplicate, self._reorder = loss, duplicate, reorder
        self._free, self._latest = 0, 0
        self.counts = Counter()

    def send(self, now, frame):
        """(cycle after the frame's last byte has entered, list of the cycles it arrives in).

        It enters in cycle ``now``, or when the frames before it have.
        """
        size = len(frame) + WIRE_OVERHEAD
        time = -(-size // self._rate)
        self._free = max(now, self._free) + time
        self.counts["frames"] += 1
        self.counts["wire_bytes"] += size
        if self._random.random() < self._loss:
            self.counts["lost"] += 1
            return self._free, []
        copies = 1
        if self._random.random() < self._duplicate:
            self.counts["duplicated"] += 1
            copies = 2
        return self._free, [self._arrival(time) for _ in range(copies)]

    def _arrival(self, time):
        late = self._random.randrange((self._reorder + 1) * time) if self._reorder else 0
        arrival = self._free + self._delay + late
        self.counts["reordered"] += arrival < self._latest
        self._latest = max(self._latest, arrival)
        return arrival
