# SPDX-License-Identifier: Apache-2.0
"""A driver's script as commands among frames: written down first, answered later."""

import struct

from bar import told

from flytrim.driver import Device, Registers
from flytrim.sim.replay import Kind, idle_command, read_command, write_command

__all__ = ["Dictated"]

#: Cycles until any command on a table that holds a few flows is over.
COMMAND_CYCLES = 300


class _Words:
    """A device that only tells what it is, and is never busy; notes what it is asked."""

    def __init__(self, config):
        registers = Registers()
        self._words = {registers.address(name): registers.pack(name, **fields)
                       for name, fields in told(config).items()}
        self.commands = []

    def read(self, address):
        self.commands.append(read_command(address))
        return self._words.get(address, 0)

    def write(self, address, value):
        self.commands += write_command(address, value), idle_command(COMMAND_CYCLES)


class _Answers:
    def __init__(self, answers):
        self._answers = iter(answers)

    def read(self, address):
        at, word = next(self._answers)
        assert at == address, f"{at:#x} was asked, and {address:#x} is wanted"
        return word

    def write(self, address, value):
        pass


class Dictated:
    """What ``script`` asks of a device without knowing the answers.

    Parameters
    ----------
    script : function
        Takes a :class:`flytrim.driver.Device`. What it does must not depend on what it reads.
    config : flytrim.config.NicConfig

    Attributes
    ----------
    commands : what is to be fed in place of frames
    """

    def __init__(self, script, config):
        self._script, bus = script, _Words(config)
        script(Device(bus))
        self.commands, self._answers = bus.commands, []

    def listen(self, events):
        """The events of the run, all of them; the answers among them are noted."""
        for event in events:
            if event.kind == Kind.DATA:
                assert not event.flags, f"read of {event.body[:4][::-1].hex()}: {event.flags}"
                self._answers.append(struct.unpack("<II", event.body))
            yield event

    def result(self):
        """What the script returns of the device that was listened to."""
        return self._script(Device(_Answers(self._answers)))
