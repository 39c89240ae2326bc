# SPDX-License-Identifier: Apache-2.0
"""Holds what a port of a switch forwards against what left: each frame, unless it lacked room."""

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
    """The frames of one port, in order, and where those leave that are not reduced.

    Parameters
    ----------
    port : int
        Where they enter.
    egress : int or None
        Where they leave.
    config : flytrim.config.NicConfig
        The port's.

    Attributes
    ----------
    left, lacking : int
        Frames that left, and those that did not for want of room and for nothing else.
    """

    def __init__(self, port, egress, config):
        self._port, self._egress, self._config = port, egress, config
        self._frames = []
        self.left = self.lacking = 0

    def add(self, arrival, judged):
        """The next frame, and its :class:`~flytrim.model.Judgement`."""
        leaving = None
        if judged.bypass is not None and self._egress is not None:
            leaving = Leaving(self._egress, judged.bypass, judged.error)
        self._frames.append(_Frame(arrival.index, arrival.cycle, len(arrival.frame), leaving,
                                   judged.verdict is Verdict.BYPASS))

    def take(self, departures):
        """Account for what left. Raises :class:`Difference`, also where there was room."""
        room = Room(self._config)
        for index, cycle, size, leaving, counted in self._frames:
            if leaving is not None:
                may_lack, in_doubt = room.judge(Kind.BYPASS, cycle)
                first = departures.take_after(leaving, cycle)
                if first is not None:
                    room.enters(Kind.BYPASS, first, len(leaving.frame))
                    self.left += 1
                elif may_lack or in_doubt:
                    self.lacking += counted
                else:
                    raise Difference(index, f"port {self._port}", f"to leave port {self._egress} "
                                     f"as {leaving.frame.hex()}", "nothing, and there was room")
            room.follows(size)
