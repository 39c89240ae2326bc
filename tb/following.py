# SPDX-License-Identifier: Apache-2.0
"""Follows a device whose sinks stall: which frames found no room, told from all that came out."""

from agents import Frame

from flytrim.sim.replay import Kind
from flytrim.sim.room import Room
from flytrim.verdict import Verdict

__all__ = ["Follower"]


class Follower:
    """Chooses what became of each frame of a :class:`bench.NicBench`, in the order they entered.

    Want of room is believed only where :class:`flytrim.sim.room.Room` says that there may have been
    none. The verdict of a damaged frame does not tell it, so what left next does.
    """

    def __init__(self, bench):
        self._bench, self._room = bench, Room(bench.config)
        self._places = dict.fromkeys(("m_axis_bypass", "m_axis_trim", "m_axis_meta"), 0)

    def choose(self, frame, judgements, bits):
        """(number, judgement) of one of ``judgements``, that the verdict ``bits`` agree with.

        Overflowed ones have the numbers from ``len(judgements)`` on; the first one is chosen where
        none agrees.
        """
        chosen, judgement = 0, judgements[0]
        for number, option in enumerate(judgements):
            kind = Kind.BYPASS if option.payload is None else Kind.TRIM
            may_lack, in_doubt = self._room.judge(kind, frame.first_cycle)
            if self._bench.verdict(option) == bits:
                chosen, judgement = number, option
                if in_doubt and option.verdict is Verdict.DROP and self._is_lost(frame, option):
                    chosen, judgement = number + len(judgements), option.overflowed()
                break
            if may_lack and self._bench.verdict(option.overflowed()) == bits:
                chosen, judgement = number + len(judgements), option.overflowed()
                break
        self._tell(frame, judgement)
        return chosen, judgement

    def _next(self, name):
        """What left by a port behind all that was told, or None."""
        seen, place = self._bench.seen[name], self._places[name]
        return seen[place] if place < len(seen) else None

    def _is_lost(self, frame, judgement):
        """Whether what left next is not what would have left of a damaged frame."""
        if judgement.payload is None:
            return self._next("m_axis_bypass") != Frame(judgement.bypass, True, frame.side)
        if self._next("m_axis_meta") != self._bench.record(frame, judgement):
            return True
        return (judgement.payload != b""
                and self._next("m_axis_trim") != Frame(judgement.payload, True))

    def _tell(self, frame, judgement):
        """Tell the room what enters of a frame, and when it left."""
        if judgement.bypass is not None:
            self._enter("m_axis_bypass", Kind.BYPASS)
        if judgement.payload:
            self._enter("m_axis_trim", Kind.TRIM)
        if judgement.payload is not None:
            place = self._places["m_axis_meta"]
            if place < len(self._bench.record_cycles):
                self._room.enters(Kind.METADATA, self._bench.record_cycles[place], 0)
            self._places["m_axis_meta"] += 1
        self._room.follows(len(frame.data))

    def _enter(self, name, kind):
        if left := self._next(name):
            self._room.enters(kind, left.first_cycle, len(left.data))
        self._places[name] += 1
