# SPDX-License-Identifier: Apache-2.0
"""Frames that left a switch, each until it is accounted for."""

from collections import defaultdict, deque
from typing import NamedTuple

__all__ = ["Departures", "Leaving"]


class Leaving(NamedTuple):
    """A frame that leaves, or may leave, by a port; ``error``: marked bad."""

    port: int
    frame: bytes
    error: bool = False


class Departures:
    """What :meth:`flytrim.sim.fabric.Fabric.run` told of, by what it is.

    Parameters
    ----------
    frames : iterable of flytrim.sim.fabric.Left
    """

    def __init__(self, frames):
        self._left = defaultdict(deque)
        for left in frames:
            self._left[Leaving(left.port, left.frame, left.error)].append((left.first, left.last))

    def count(self, leaving):
        """How often it left and is not accounted for."""
        return len(self._left.get(leaving, ()))

    def take(self, leaving):
        """Account for the first of them; False where there is none."""
        found = self.count(leaving) > 0
        if found:
            self._left[leaving].popleft()
        return found

    def take_all(self, leaving):
        """Account for all of them; the cycles of the first and the last beat of each."""
        return [*self._left.pop(leaving, ())]

    def take_after(self, leaving, cycle):
        """Account for the first that began to leave behind ``cycle``: its first cycle, or None."""
        times = self._left.get(leaving, ())
        for place, (first, _) in enumerate(times):
            if first > cycle:
                del times[place]
                return first
        return None

    def rest(self):
        """Each :class:`Leaving` that is not accounted for."""
        return [leaving for leaving, times in self._left.items() if times]
