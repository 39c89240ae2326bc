# SPDX-License-Identifier: Apache-2.0
"""The Python end of the replay harness: commands in, events out, in constant memory.

The two byte streams are laid out at the head of ``replay.cpp``.
"""

import struct
import threading
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from .program import (
    BUFFER_BYTES,
    EVENT_HEAD,
    Command,
    Event,
    Kind,
    Program,
    SimulationError,
    SinkMode,
    command,
    sink_command,
    word,
)

__all__ = ["Event", "Kind", "Output", "Replay", "SimulationError", "SinkMode", "Summary",
           "commands", "idle_command", "read_command", "sink_command", "write_command"]

#: Bytes of frames that go into the pipe together.
_BATCH_BYTES = 1 << 16
_summary = struct.Struct("<6Q").unpack

#: The flag of a register access that frames do not wait for.
_BACKGROUND = 1


class Output(IntEnum):
    """An output of the device whose sink has a profile."""

    TRIM = 0
    BYPASS = 1
    METADATA = 2


class Summary(NamedTuple):
    """Totals of a run, in cycles, frames and beats."""

    frames: int
    beats: int
    first_beat: int
    last_beat: int
    stalls: int
    verdicts: int


def commands(frames):
    """The command stream that sends ``frames``, pairs of (bytes, MAC error), and ends; in parts."""
    yield from _frame_commands(frames)
    yield command(Command.END, 0, 0, 0)


def idle_command(cycles):
    """Runs the clock without input."""
    return command(Command.IDLE, 0, 0, cycles)


def write_command(address, value):
    """Writes a register while the frames that follow enter; an event of ``WRITTEN`` answers."""
    return command(Command.WRITE, _BACKGROUND, 0, address) + word(value)


def read_command(address):
    """Reads a register while the frames that follow enter; an event of ``DATA`` answers."""
    return command(Command.READ, _BACKGROUND, 0, address)


def _frame_commands(frames):
    kind, batch, room = Command.FRAME, [], _BATCH_BYTES
    for data, error in frames:
        if error is None:
            batch.append(data)
            continue
        batch += command(kind, error, 0, len(data)), data
        room -= len(data)
        if room <= 0:
            yield b"".join(batch)
            batch, room = [], _BATCH_BYTES
    yield b"".join(batch)


class Replay(Program):
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
        self._registers = registers
        self._feeder = None
        self._feeder_error = None
        served = [registers.fileno()] if registers else []
        super().__init__(program, wave_file, map(str, served), served)

    def idle(self, cycles):
        """Run the clock without input."""
        self._send(idle_command(cycles))

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
        read = self._process.stdout.read1
        unpack, size_of_head = EVENT_HEAD.unpack_from, EVENT_HEAD.size
        new = tuple.__new__     # what Event() does, without a Python function in between
        rest = b""
        while True:
            chunk = read(BUFFER_BYTES)
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
        steps = [(None, command(Command.END, 0, 0, 0))]
        if waves:
            steps = [(waves.start, command(Command.WAVE, 0, 0, 1)),
                     (len(waves), command(Command.WAVE, 0, 0, 0)), *steps]
        try:
            for count, then in steps:
                for batch in _frame_commands(islice(frames, count)):
                    self._process.stdin.write(batch)
                self._process.stdin.write(then)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the harness ended, which its reader finds out
        except Exception as error:
            # The harness would wait for ever for more; its reader passes the error on.
            self._feeder_error = error
            self._process.kill()

    def _early_end(self):
        if self._feeder_error:
            return self._feeder_error
        return super()._early_end()

    def _busy(self):
        return self._feeder is not None

    def _release(self):
        if self._feeder:
            self._feeder.join()
