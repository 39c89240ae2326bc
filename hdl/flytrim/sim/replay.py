# SPDX-License-Identifier: Apache-2.0
"""The Python end of the replay harness: commands in, events out, in constant memory.

The two byte streams are laid out at the head of ``replay.cpp``.
"""

import contextlib
import fcntl
import struct
import subprocess
import threading
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from ..driver import BusError

__all__ = ["Event", "Kind", "Output", "Replay", "ReplayError", "SinkMode", "Summary", "commands",
           "idle_command", "read_command", "sink_command", "write_command"]

_BUFFER_BYTES = 1 << 20
#: Bytes of frames that go into the pipe together.
_BATCH_BYTES = 1 << 16
#: How long a program that records waves may take to close its file.
_WAVE_CLOSE_SECONDS = 60
_command = struct.Struct("<BBHI").pack
_head = struct.Struct("<BBxxIQ")
_u32 = struct.Struct("<I").pack
_summary = struct.Struct("<6Q").unpack


#: The flag of a register access that frames do not wait for.
_BACKGROUND = 1


class _Command(IntEnum):
    WRITE = 1
    READ = 2
    FRAME = 3
    IDLE = 4
    SINK = 5
    RESET = 6
    END = 7
    WAVE = 8


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


class Output(IntEnum):
    """An output of the device whose sink has a profile."""

    TRIM = 0
    BYPASS = 1
    METADATA = 2


class SinkMode(IntEnum):
    """When a sink takes a beat; ``AFTER_VALID`` shows an output that waits for ready."""

    ALWAYS = 0
    RANDOM = 1
    AFTER_VALID = 2


class Event(NamedTuple):
    """One event; ``replay.cpp`` says what flags, cycle and body mean for its kind."""

    kind: int
    flags: int
    cycle: int
    body: bytes


class Summary(NamedTuple):
    """Totals of a run, in cycles, frames and beats."""

    frames: int
    beats: int
    first_beat: int
    last_beat: int
    stalls: int
    verdicts: int


class ReplayError(BusError):
    """The harness ended before its summary, or the device did not answer a register access."""


def commands(frames):
    """The command stream that sends ``frames``, pairs of (bytes, MAC error), and ends; in parts."""
    yield from _frame_commands(frames)
    yield _command(_Command.END, 0, 0, 0)


def sink_command(output, mode, *, rate=128, seed=1):
    """Chooses when ``output`` is taken; ``rate`` of 256 cycles for a random sink, 0 for never."""
    return _command(_Command.SINK, output, mode | rate << 8, seed)


def idle_command(cycles):
    """Runs the clock without input."""
    return _command(_Command.IDLE, 0, 0, cycles)


def write_command(address, value):
    """Writes a register while the frames that follow enter; an event of ``WRITTEN`` answers."""
    return _command(_Command.WRITE, _BACKGROUND, 0, address) + _u32(value)


def read_command(address):
    """Reads a register while the frames that follow enter; an event of ``DATA`` answers."""
    return _command(_Command.READ, _BACKGROUND, 0, address)


def _frame_commands(frames):
    kind, batch, room = _Command.FRAME, [], _BATCH_BYTES
    for data, error in frames:
        if error is None:
            batch.append(data)
            continue
        batch += _command(kind, error, 0, len(data)), data
        room -= len(data)
        if room <= 0:
            yield b"".join(batch)
            batch, room = [], _BATCH_BYTES
    yield b"".join(batch)


class Replay:
    """A running harness; a context manager that ends the process.

    Register accesses are answered before they return. :meth:`feed` starts the frames on a thread
    of its own, so that :meth:`events` can be read at the same time: neither pipe can fill up for
    good, and nothing is kept in memory.

    ``totals`` is the :class:`Summary` of the run, None until its end.

    Parameters
    ----------
    program : path
        What :func:`flytrim.sim.build.build` returned.
    wave_file : path or None
        Where a program that was built for it records waves.
    registers : flytrim.sim.register_socket.RegisterSocket or None
        Where others may access registers while frames enter; that costs the frames no cycle.
    """

    def __init__(self, program, wave_file=None, registers=None):
        self.totals = None
        self._wave_file = wave_file
        self._registers = registers
        served = [registers.fileno()] if registers else []
        self._process = subprocess.Popen([program, wave_file or "", *map(str, served)],
                                         pass_fds=served,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, bufsize=_BUFFER_BYTES)
        # Fewer turns between the two processes. A system may know no such setting, or refuse it.
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(AttributeError, OSError):
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _BUFFER_BYTES)
        self._feeder = None
        self._feeder_error = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._wave_file:
            self._close_waves()
        self._process.kill()
        if self._feeder:
            self._feeder.join()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.stderr.close()
        self._process.wait()

    def reset(self, cycles=8):
        """Hold the device in reset; what is in flight is lost."""
        self._send(_command(_Command.RESET, 0, 0, cycles))

    def idle(self, cycles):
        """Run the clock without input."""
        self._send(idle_command(cycles))

    def sink(self, output, mode, *, rate=128, seed=1):
        """Choose when ``output`` is taken, as :func:`sink_command`."""
        self._send(sink_command(output, mode, rate=rate, seed=seed))

    def write(self, address, value):
        """Write a register. Raises :class:`ReplayError` for anything but an OKAY answer."""
        self._send(_command(_Command.WRITE, 0, 0, address) + _u32(value))
        self._answer(Kind.WRITTEN, f"write of {value:#x} to {address:#05x}")

    def read(self, address):
        """Read a register. Raises :class:`ReplayError` for anything but an OKAY answer."""
        self._send(_command(_Command.READ, 0, 0, address))
        body = self._answer(Kind.DATA, f"read of {address:#05x}")
        return int.from_bytes(body[4:8], "little")

    def feed(self, frames, waves=range(0)):
        """Start to send ``frames``, pairs of (bytes, MAC error), then the end command.

        A pair (command, None) among them changes a sink, accesses a register, or lets time pass, at
        its place. ``waves`` is the range of the frames during which waves are recorded.
        """
        if self._registers:
            self._registers.listen()
        self._feeder = threading.Thread(target=self._feed, args=(frames, waves), daemon=True)
        self._feeder.start()

    def events(self):
        """The events as they come, the summary last, which :attr:`totals` then holds, too."""
        read, unpack, size_of_head = self._process.stdout.read1, _head.unpack_from, _head.size
        new = tuple.__new__     # what Event() does, without a Python function in between
        rest = b""
        while True:
            chunk = read(_BUFFER_BYTES)
            if not chunk:
                raise self._early_end()
            data = rest + chunk
            at, end = 0, len(data)
            while end - at >= size_of_head:
                kind, flags, size, cycle = unpack(data, at)
                after = at + size_of_head + size
                if after > end:
                    break
                event = new(Event, (kind, flags, cycle, data[at + size_of_head:after]))
                if kind == Kind.SUMMARY:
                    self.totals = self.summary(event)
                    yield event
                    return
                yield event
                at = after
            rest = data[at:]

    @staticmethod
    def summary(event):
        """A summary event's body."""
        return Summary(*_summary(event.body))

    def _feed(self, frames, waves):
        frames = iter(frames)
        steps = [(None, _command(_Command.END, 0, 0, 0))]
        if waves:
            steps = [(waves.start, _command(_Command.WAVE, 0, 0, 1)),
                     (len(waves), _command(_Command.WAVE, 0, 0, 0)), *steps]
        try:
            for count, command in steps:
                for batch in _frame_commands(islice(frames, count)):
                    self._process.stdin.write(batch)
                self._process.stdin.write(command)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the harness ended, which its reader finds out
        except Exception as error:
            # The harness would wait for ever for more; its reader passes the error on.
            self._feeder_error = error
            self._process.kill()

    def _close_waves(self):
        self._process.terminate()
        if not self._feeder:
            # It may have gone to wait for a command just before the signal came.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        # What it still has to say goes nowhere, but it must not wait for somebody to listen.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_WAVE_CLOSE_SECONDS)

    def _send(self, command):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(command)

    def _answer(self, kind, what):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.flush()
        event = self._next()
        if event.kind != kind or event.flags:
            said = (event.body.decode() if event.kind in (Kind.HANG, Kind.VIOLATION)
                    else f"answer {event.flags:#x}")
            raise ReplayError(f"{what}: {said}")
        return event.body

    def _next(self):
        read = self._process.stdout.read
        head = read(_head.size)
        if len(head) == _head.size:
            kind, flags, size, cycle = _head.unpack(head)
            body = read(size)
            if len(body) == size:
                return Event(kind, flags, cycle, body)
        raise self._early_end()

    def _early_end(self):
        if self._feeder_error:
            return self._feeder_error
        said = self._process.stderr.read().decode(errors="replace").strip()
        return ReplayError(f"the simulation ended early: {said or 'no reason given'}")
