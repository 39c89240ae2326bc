# SPDX-License-Identifier: Apache-2.0
"""A page of registers as software sees it: by name, with events and commands."""

import contextlib
import time

from ..errors import InputError
from .bus import BusClosed, BusError

__all__ = ["DeviceError", "DeviceGone", "Page", "TableError"]

#: Reads of a status until a command must be done: a hashed table takes 16,384 cycles to come out
#: of reset and 12,000 for a command at most, and a read takes 3 or more.
STATUS_READS = 10_000


class DeviceError(InputError):
    """A device that is none of these, or does not do what it was told to; names the register."""


class DeviceGone(DeviceError):
    """A device that is no more: its simulation is over."""


class TableError(DeviceError):
    """A command that was refused, and changed nothing.

    ``code`` is the name of the outcome in the register description, such as ``duplicate``.
    """

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Page:
    """Registers behind a bus.

    Parameters
    ----------
    bus : flytrim.driver.Bus
    registers : flytrim.driver.Registers
        All that there may be.
    """

    #: The registers that a command is written to and its outcome read from.
    command_register, status_register = None, None

    def __init__(self, bus, registers):
        self._bus, self._registers = bus, registers
        #: Registers of the description that this device does not have.
        self._lacking = frozenset()

    def read(self, name):
        """The fields of a register, as a dict."""
        if name in self._lacking:
            self._must_count()
        with _named():
            words = range(self._registers.words(name))
        # The low word first: the device holds the high one that belongs to it.
        return self._registers.unpack(name, sum(
            self._access("read", name, word=word) << 32 * word for word in words))

    def write(self, name, **fields):
        """Write a register; a field that is not named gets its reset value."""
        with _named():
            word = self._registers.pack(name, **fields)
        if not self._registers.is_written(name):
            raise DeviceError(f"register {name}: is read-only and cannot be written")
        self._access("write", name, word)

    def change(self, name, **fields):
        """Write a register; what is not named stays as it is, and no event of it is cleared."""
        self.write(name, **(self._registers.kept(name, self.read(name)) | fields))

    def parse(self, name, field, text):
        """The number that a person has written for a field, or the name of its choice."""
        with _named():
            return self._registers.parse(name, field, text)

    def describe(self, name):
        """The fields of a register as text, with the names that values have."""
        return {field: self._registers.text(name, field, value)
                for field, value in self.read(name).items()}

    def address(self, name):
        """Byte address of a register."""
        with _named():
            return self._registers.address(name)

    def clear_counters(self):
        """Let all counters but those of flows begin at zero."""
        self._must_count()
        self.write("counters.command", clear=1)

    def events(self):
        """Names of the bits that are set in ``interrupt_status``."""
        return {name for name, happened in self.read("interrupt_status").items() if happened}

    def clear_events(self, *names):
        """Clear bits of ``interrupt_status``."""
        self.write("interrupt_status", **dict.fromkeys(names, 1))

    def enable_events(self, *names):
        """Let these bits of ``interrupt_status`` make the interrupt high, and no others."""
        self.write("interrupt_enable", **dict.fromkeys(names, 1))

    def wait_for(self, *names, seconds=1.0):
        """Those of the named events that have happened, once one has; they stay set.

        Any event will do where none is named. Raises :class:`DeviceError` where none happens in
        time.
        """
        with _named():
            self._registers.pack("interrupt_status", **dict.fromkeys(names, 1))
        names = names or tuple(self._registers.reset("interrupt_status"))
        end = time.monotonic() + seconds
        while True:
            late = time.monotonic() > end
            happened = self.events() & set(names)
            if happened:
                return happened
            if late:
                raise DeviceError(f"register interrupt_status: no {' or '.join(names)} in "
                                  f"{seconds:g} s")

    def _check_magic(self):
        magic, expected = self.read("id")["magic"], self._registers.reset("id")["magic"]
        if magic != expected:
            raise DeviceError(f"register id reads {magic:#010x}, not {expected:#010x}: this is no "
                              f"flytrim device, or its registers are elsewhere")

    def _version(self):
        version = self.read("version")
        return ".".join(str(version[part]) for part in ("major", "minor", "patch"))

    def _must_count(self):
        if not self.identity.counters:
            raise DeviceError("register features: this device was built without counters")

    def _command(self, operation, what, **fields):
        """Run a command, named as in the description; ``what`` it is on, for a refusal."""
        self._settled()     # a large table is busy for a while after reset
        self.write(self.command_register, **fields,
                   op=self._registers.value(self.command_register, "op", operation))
        code = self._settled()
        outcome = self._registers.choice(self.status_register, "code", code)
        if outcome.name != "done":
            raise TableError(f"register {self.status_register}: {what}: {operation} is refused: "
                             f"{outcome.description}", outcome.name)

    def _settled(self):
        """The outcome of the last command, once it is over."""
        for _ in range(STATUS_READS):
            status = self.read(self.status_register)
            if not status["busy"]:
                return status["code"]
        raise DeviceError(f"register {self.status_register}: stays busy for {STATUS_READS:,} reads")

    def _access(self, kind, name, *value, word=0):
        address = self.address(name) + 4 * word
        try:
            return getattr(self._bus, kind)(address, *value)
        except BusError as error:
            kind = DeviceGone if isinstance(error, BusClosed) else DeviceError
            raise kind(f"register {name}: {error}") from None


@contextlib.contextmanager
def _named():
    """What the register description does not have, or has no room for, is a fault of the caller."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise DeviceError(str(error.args[0])) from None
