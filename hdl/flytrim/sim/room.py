# SPDX-License-Identifier: Apache-2.0
"""Whether a frame may have found no room, told from what left the device and when."""

from collections import deque

from .replay import Kind

__all__ = ["Room"]

#: Beats and records that may be on their way to a queue, or just have left it.
SLACK = 8


class Room:
    """An upper bound on what waited in each queue when a frame came.

    A packet whose first beat had not left by then was there with all its beats, and so may be the
    one that left at that time; what had left before was not. The beats of the frame before count
    for the bypass queue, wherever that one went: they stand there until it is decided.

    Parameters
    ----------
    config : flytrim.config.NicConfig
        The device.
    """

    def __init__(self, config):
        self._lanes = config.lanes
        self._limits = {Kind.TRIM: config.queue_beats - config.max_beats - SLACK,
                        Kind.BYPASS: config.queue_beats - config.max_beats - SLACK,
                        Kind.METADATA: config.queue_records - SLACK}
        # (cycle of the first beat out, beats) of what may still be in the queue, and the sum.
        self._waiting = {kind: deque() for kind in self._limits}
        self._beats = dict.fromkeys(self._limits, 0)
        self._before = 0
        self._in_doubt = {Kind.TRIM: False, Kind.BYPASS: False}

    def judge(self, kind, cycle):
        """(may lack, in doubt) of a frame that began in ``cycle`` and is to leave by ``kind``.

        It may lack room, or a frame may have lacked it since all that was told had left: until
        then a frame that is alike may have been taken for the one that left. All frames before it
        must have been told.
        """
        kinds = (Kind.TRIM, Kind.METADATA) if kind == Kind.TRIM else (kind,)
        may_lack = any(self._level(one, cycle) > self._limits[one] for one in kinds)
        if may_lack:
            self._in_doubt[kind] = True
        elif not any(self._waiting[one] and self._waiting[one][-1][0] >= cycle for one in kinds):
            self._in_doubt[kind] = False
        return may_lack, self._in_doubt[kind]

    def enters(self, kind, cycle_out, size):
        """A packet of ``size`` bytes, or a record, was admitted and left in ``cycle_out``."""
        beats = 1 if kind == Kind.METADATA else -(-size // self._lanes)
        self._waiting[kind].append((cycle_out, beats))
        self._beats[kind] += beats

    def follows(self, size):
        """The frame told last had ``size`` bytes."""
        self._before = -(-size // self._lanes)

    def _level(self, kind, cycle):
        waiting = self._waiting[kind]
        while len(waiting) > 1 and waiting[1][0] < cycle:
            self._beats[kind] -= waiting.popleft()[1]
        return self._beats[kind] + (self._before if kind == Kind.BYPASS else 0)
