# SPDX-License-Identifier: Apache-2.0
"""The reference model of a switch in place of the compiled one: quick, and of a fixed latency."""

from ..sim.fabric import Left, Ran

__all__ = ["ModelFabric"]

#: Cycles from a frame's last beat in to the first beat of what leaves for it.
LATENCY = 32


class ModelFabric:
    """As :class:`flytrim.sim.fabric.Fabric`, without registers, sinks and faults of streams.

    Parameters
    ----------
    model : flytrim.model.SwitchModel
    ports : int
    lanes : int
        Bytes a beat.
    resend : int
        Cycles until a parent is asked again by group 0; 0 never asks.
    """

    def __init__(self, model, ports, lanes, resend=0):
        self._model, self._lanes, self._resend = model, lanes, resend
        self._asked = {}            # cycle in which a parent was asked last, by offset
        self._queued = []
        self._cycle = 0
        self._in, self._out = [0] * ports, [0] * ports

    def send(self, port, frame, cycle=0, error=False):
        """Let ``frame`` enter by ``port`` in ``cycle``."""
        self._queued.append((max(cycle, self._cycle), len(self._queued), port, frame, error))

    def run(self, until):
        """Let what was sent enter, in the order of its cycles; a :class:`Ran`."""
        frames = []
        for cycle, _, port, frame, error in sorted(self._queued):
            frames += self._ask_again(cycle)
            beats = self._beats(frame)
            self._in[port] += beats
            frames += self._leave(cycle + beats, self._model.receive(port, frame, error))
        self._queued = []
        self._cycle = max(self._cycle, until)
        frames += self._ask_again(self._cycle - LATENCY)
        return Ran(self._cycle, frames, [], tuple(self._in), tuple(self._out), False)

    def _ask_again(self, now):
        """What leaves for parents that have not answered until ``now``."""
        if not self._resend:
            return []
        waits = self._model.unanswered(0)
        self._asked = {offset: self._asked.get(offset, now) for offset in waits}
        frames = []
        for offset, asked in self._asked.items():
            if now - asked >= self._resend:
                self._asked[offset] = now
                frames += self._leave(now, self._model.repeat(0, offset))
        return frames

    def _leave(self, cycle, leaves):
        frames = []
        for port, frame in leaves:
            first, beats = cycle + LATENCY, self._beats(frame)
            self._out[port] += beats
            frames.append(Left(port, first, first + beats - 1, False, frame))
        return frames

    def _beats(self, frame):
        return -(-len(frame) // self._lanes)
