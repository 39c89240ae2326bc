# SPDX-License-Identifier: Apache-2.0
"""Holds what a switch forwards against what left: each frame, unless it lacked room.

Frames of a port leave in order. Where ports forward frames that are alike to one port, which of
them one was that left cannot be told: those are counted, and taken to have left as late as they may
have.
"""

from collections import Counter
from math import inf
from typing import NamedTuple

from ..verdict import Verdict
from .compare import Difference
from .departures import Leaving
from .replay import Kind
from .room import Room

__all__ = ["Forwarded"]


class _Frame(NamedTuple):
    """One that entered; ``leaving`` is None where it goes nowhere.

    ``counted``: it would be counted as an overflow, as nothing else is wrong with it.
    """

    index: int
    cycle: int
    size: int
    leaving: Leaving | None
    counted: bool


class Forwarded:
    """The frames of all ports, those of each in order, and where those leave that are not reduced.

    Parameters
    ----------
    config : flytrim.config.SwitchConfig
    routes : dict
        The port that frames leave by, by that they enter on.

    Attributes
    ----------
    left, lacking : int
        Frames that left, and those that did not for want of room and for nothing else.
    """

    def __init__(self, config, routes):
        self._config, self._routes = config.port, routes
        self._frames = [[] for _ in range(config.ports)]
        self.left = self.lacking = 0

    def add(self, arrival, judged):
        """The next frame of a port, and its :class:`~flytrim.model.Judgement`."""
        egress, leaving = self._routes.get(arrival.port), None
        if judged.bypass is not None and egress is not None:
            leaving = Leaving(egress, judged.bypass, judged.error)
        self._frames[arrival.port].append(_Frame(
            arrival.index, arrival.cycle, len(arrival.frame), leaving,
            judged.verdict is Verdict.BYPASS))

    def take(self, departures):
        """Account for what left. Raises :class:`Difference`, also where there was room."""
        senders = Counter(leaving for frames in self._frames
                          for leaving in {frame.leaving for frame in frames})
        shared = {leaving for leaving, count in senders.items() if count > 1} - {None}
        claims = {leaving: [] for leaving in shared}
        for port, frames in enumerate(self._frames):
            room = Room(self._config)
            for frame, first in zip(frames, _times(frames, shared, departures), strict=True):
                if frame.leaving is not None:
                    may_lack = any(room.judge(Kind.BYPASS, frame.cycle))
                    if first is not None:
                        room.enters(Kind.BYPASS, first, len(frame.leaving.frame))
                    if frame.leaving in shared:
                        claims[frame.leaving].append((may_lack, port, frame))
                    else:
                        self._account(first is not None, may_lack, port, frame)
                room.follows(frame.size)
        for leaving, each in claims.items():
            # Those that had room first: they must have left.
            for claim in sorted(each, key=lambda claim: claim[0]):
                self._account(departures.take(leaving), *claim)

    def _account(self, left, may_lack, port, frame):
        if not (left or may_lack):
            raise Difference(frame.index, f"port {port}", f"to leave port {frame.leaving.port} as "
                             f"{frame.leaving.frame.hex()}", "nothing, and there was room")
        self.left += left
        self.lacking += frame.counted and not left


def _times(frames, shared, departures):
    """When each frame of a port began to leave, None where it did not; at the latest, of shared."""
    times, before = [], -1
    for frame in frames:
        first = None
        if frame.leaving is not None and frame.leaving not in shared:
            first = departures.take_after(frame.leaving, max(frame.cycle, before))
            before = before if first is None else first
        times.append(first)
    latest = inf
    for place in reversed(range(len(frames))):
        if frames[place].leaving in shared:
            times[place] = latest
        elif times[place] is not None:
            latest = times[place]
    return times
