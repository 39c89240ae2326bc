# SPDX-License-Identifier: Apache-2.0
"""A switch between simulated links: frames in, the clock to a cycle, frames out.

The two byte streams are laid out at the head of ``fabric.cpp``.
"""

import struct
from typing import NamedTuple

from .program import Command, Event, Kind, Program, SimulationError, SinkMode, command

__all__ = ["Fabric", "Left", "Ran", "SimulationError", "SinkMode"]

_cycle = struct.Struct("<Q").pack
_read_cycle = struct.Struct("<Q").unpack_from
#: The flag of a run that ends when all is quiet.
_DRAIN = 1


class Left(NamedTuple):
    """A frame that left, with the cycles of its first and its last beat."""

    port: int
    first: int
    last: int
    error: bool
    frame: bytes


class Ran(NamedTuple):
    """What happened until ``cycle``, since the run before.

    ``frames`` are :class:`Left`, in the order of their last beats. ``faults`` are sentences, each
    with the cycle that it is about: rules of a stream that a port broke, and what did not come.
    ``beats_in`` and ``beats_out`` count by port since the program began. ``irq`` is the level of
    the interrupt now.
    """

    cycle: int
    frames: list
    faults: list
    beats_in: tuple
    beats_out: tuple
    irq: bool


class Fabric(Program):
    """A running switch; a context manager that ends the process, and a bus to its registers.

    Time passes in :meth:`run`, :meth:`drain`, :meth:`reset` and register accesses alone, and is the
    same in every run of the same calls. Where every link delays by D cycles or more, what hosts do
    about the frames that left until a cycle reaches the switch 2 D cycles later, so a simulation
    of hosts runs that many cycles at a time.

    Parameters
    ----------
    program : path
        What :func:`flytrim.sim.build.build_fabric` returned.
    wave_file : path or None
        Where a program that was built for it records waves, between :meth:`record` and the end.

    Raises :class:`SimulationError` where the program ends early, and for a register access that is
    not answered with OKAY. A frame for a port that is not there ends the program.
    """

    def __init__(self, program, wave_file=None):
        super().__init__(program, wave_file)
        self._queued, self._before = [], []

    def send(self, port, frame, cycle=0, error=False):
        """Let ``frame`` enter by ``port`` in ``cycle``, or as soon after it as the port is free.

        ``error``: the MAC marks it bad. Frames of a port enter in the order of these calls.
        """
        self._queued += (command(Command.FRAME, error, port, len(frame)), _cycle(cycle), frame)

    def run(self, until):
        """Run the clock to cycle ``until``; what happened, a :class:`Ran`."""
        return self._run(until, 0)

    def drain(self, until):
        """Run until all frames have entered and nothing leaves any more; a :class:`Ran`.

        Among its faults is that this did not happen until cycle ``until``.
        """
        return self._run(until, _DRAIN)

    def record(self, on=True):
        """Start to record waves, or end it."""
        self._send(command(Command.WAVE, 0, 0, on))

    def _send(self, data):
        # What was queued before comes before.
        queued, self._queued = self._queued, []
        super()._send(b"".join([*queued, data]))

    def _run(self, until, flags):
        self._send(command(Command.RUN, flags, 0, 0) + _cycle(until))
        self._flush()
        events, self._before = self._before, []
        while (event := self._next()).kind != Kind.RAN:
            events.append(event)
        beats = struct.unpack(f"<{len(event.body) // 8}Q", event.body)
        ports = len(beats) // 2
        return Ran(event.cycle, [_left(each) for each in events if each.kind == Kind.LEFT],
                   [_fault(each) for each in events if each.kind in (Kind.VIOLATION, Kind.HANG)],
                   beats[:ports], beats[ports:], bool(event.flags & 1))

    def _keep(self, event: Event):
        # Frames leave during register accesses, too.
        kept = event.kind == Kind.LEFT or (
            event.kind == Kind.VIOLATION and not event.body.startswith(b"axil"))
        if kept:
            self._before.append(event)
        return kept


def _left(event):
    return Left(event.flags >> 1, event.cycle, *_read_cycle(event.body), bool(event.flags & 1),
                event.body[8:])


def _fault(event):
    return f"cycle {event.cycle}: {event.body.decode()}"
