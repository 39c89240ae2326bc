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
    """

    def __init__(self, model, ports, lanes):
        self._model, self._lanes = model, lanes
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
            beats = self._beats(frame)
            self._in[port] += beats
            for to, left in self._model.receive(port, frame, error):
                first = cycle + beats + LATENCY
                self._out[to] += self._beats(left)
                frames.append(Left(to, first, first + self._beats(left) - 1, False, left))
        self._queued = []
        self._cycle = max(self._cycle, until)
        return Ran(self._cycle, frames, [], tuple(self._in), tuple(self._out), False)

    def _beats(self, frame):
        return -(-len(frame) // self._lanes)
