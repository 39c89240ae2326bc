# SPDX-License-Identifier: Apache-2.0
"""A compiled harness as a process: what all of them have in common on the Python side.

The byte streams are laid out at the heads of ``replay.cpp`` and ``fabric.cpp``.
"""

import contextlib
import fcntl
import struct
import subprocess
from enum import IntEnum
from typing import NamedTuple

from ..driver import BusError

__all__ = ["BUFFER_BYTES", "EVENT_HEAD", "Command", "Event", "Kind", "Program", "SimulationError",
           "SinkMode", "command", "sink_command", "word"]

BUFFER_BYTES = 1 << 20
#: How long a program that records waves may take to close its file.
_WAVE_CLOSE_SECONDS = 60
#: Kind, flags, detail and value of a command.
command = struct.Struct("<BBHI").pack
#: Kind, flags, bytes of the body and cycle of an event.
EVENT_HEAD = struct.Struct("<BBxxIQ")
word = struct.Struct("<I").pack


class Command(IntEnum):
    """What a command asks for."""

    WRITE = 1
    READ = 2
    FRAME = 3
    IDLE = 4
    SINK = 5
    RESET = 6
    END = 7
    WAVE = 8
    RUN = 9


class Kind(IntEnum):
    """What an event tells."""

    WRITTEN = 1
    DATA = 2
    VERDICT = 3
    TRIM = 4
    BYPASS = 5
    METADATA = 6
    VIOLATION = 7
    HANG = 8
    SUMMARY = 9
    LEFT = 10
    RAN = 11


class SinkMode(IntEnum):
    """When a sink takes a beat; ``AFTER_VALID`` shows an output that waits for ready."""

    ALWAYS = 0
    RANDOM = 1
    AFTER_VALID = 2


class Event(NamedTuple):
    """One event; the harness says what flags, cycle and body mean for its kind."""

    kind: int
    flags: int
    cycle: int
    body: bytes


class SimulationError(BusError):
    """The harness ended early, or the device did not answer a register access."""


def sink_command(output, mode, *, rate=128, seed=1):
    """Chooses when ``output`` is taken; ``rate`` of 256 cycles for a random sink, 0 for never."""
    return command(Command.SINK, output, mode | rate << 8, seed)


class Program:
    """A running harness; a context manager that ends the process.

    Register accesses are answered before they return.

    Parameters
    ----------
    program : path
        What :mod:`flytrim.sim.build` returned.
    wave_file : path or None
        Where a program that was built for it records waves.
    arguments : iterable of str
        Others of the program.
    pass_fds : sequence of int
        Open files that it is to have.
    """

    def __init__(self, program, wave_file=None, arguments=(), pass_fds=()):
        self._wave_file = wave_file
        self._process = subprocess.Popen([program, wave_file or "", *arguments],
                                         pass_fds=pass_fds, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         bufsize=BUFFER_BYTES)
        # Fewer turns between the two processes. A system may know no such setting, or refuse it.
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(AttributeError, OSError):
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, BUFFER_BYTES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._wave_file:
            self._close_waves()
        self._process.kill()
        self._release()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.stderr.close()
        self._process.wait()

    def reset(self, cycles=8):
        """Hold the device in reset; what is in flight is lost."""
        self._send(command(Command.RESET, 0, 0, cycles))

    def sink(self, output, mode, *, rate=128, seed=1):
        """Choose when ``output`` is taken, as :func:`sink_command`."""
        self._send(sink_command(output, mode, rate=rate, seed=seed))

    def write(self, address, value):
        """Write a register. Raises :class:`SimulationError` for anything but an OKAY answer."""
        self._send(command(Command.WRITE, 0, 0, address) + word(value))
        self._answer(Kind.WRITTEN, f"write of {value:#x} to {address:#05x}")

    def read(self, address):
        """Read a register. Raises :class:`SimulationError` for anything but an OKAY answer."""
        self._send(command(Command.READ, 0, 0, address))
        body = self._answer(Kind.DATA, f"read of {address:#05x}")
        return int.from_bytes(body[4:8], "little")

    def _release(self):
        """Called when the process has been ended."""

    def _busy(self):
        """Whether somebody else writes commands."""
        return False

    def _keep(self, event):
        """Whether an event that came before an answer is kept for later."""
        return False

    def _close_waves(self):
        self._process.terminate()
        if not self._busy():
            # It may have gone to wait for a command just before the signal came.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        # What it still has to say goes nowhere, but it must not wait for somebody to listen.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_WAVE_CLOSE_SECONDS)

    def _send(self, data):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(data)

    def _flush(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.flush()

    def _answer(self, kind, what):
        self._flush()
        event = self._next()
        while event.kind != kind and self._keep(event):
            event = self._next()
        if event.kind != kind or event.flags:
            said = (event.body.decode() if event.kind in (Kind.HANG, Kind.VIOLATION)
                    else f"answer {event.flags:#x}")
            raise SimulationError(f"{what}: {said}")
        return event.body

    def _next(self):
        read = self._process.stdout.read
        head = read(EVENT_HEAD.size)
        if len(head) == EVENT_HEAD.size:
            kind, flags, size, cycle = EVENT_HEAD.unpack(head)
            body = read(size)
            if len(body) == size:
                return Event(kind, flags, cycle, body)
        raise self._early_end()

    def _early_end(self):
        said = self._process.stderr.read().decode(errors="replace").strip()
        return SimulationError(f"the simulation ended early: {said or 'no reason given'}")
