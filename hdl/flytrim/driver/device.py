# SPDX-License-Identifier: Apache-2.0
"""A device as software sees it: registers by name, and the flow table."""

import contextlib
import os
import stat
import time
from typing import NamedTuple

from ..errors import InputError
from .bus import BusClosed, BusError, MappedFile
from .counters import read_counters, read_flow_counters
from .registers import Registers, flow_fields, flow_of
from .socket_bus import SocketBus

__all__ = ["Device", "DeviceError", "DeviceGone", "Identity", "TableError"]

#: Reads of a status until a command must be done: a hashed table takes 16,384 cycles to come out
#: of reset and 12,000 for a command at most, and a read takes 3 or more.
STATUS_READS = 10_000


class DeviceError(InputError):
    """A device that is none of these, or does not do what it was told to; names the register."""


class DeviceGone(DeviceError):
    """A device that is no more: its simulation is over."""


class TableError(DeviceError):
    """A command that a table refused, and changed nothing.

    ``code`` is the name of the outcome in the register description, such as ``duplicate``.
    """

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Identity(NamedTuple):
    """What a device is: its version, the commit it was made from or 0, and what it was built with.

    ``width`` is the bits of a beat, ``flows`` the entries of the flow table, ``max_frame`` the
    bytes of the longest frame, ``counters`` whether it counts.
    """

    version: str
    commit: int
    width: int
    flows: int
    max_frame: int
    counters: bool


class Device:
    """A flytrim device behind a bus.

    Parameters
    ----------
    bus : flytrim.driver.Bus

    Attributes
    ----------
    identity : Identity

    Raises :class:`DeviceError` where no such device answers.
    """

    def __init__(self, bus):
        self._bus, self._registers, self._lacking = bus, Registers(), ()
        magic, expected = self.read("id")["magic"], self._registers.reset("id")["magic"]
        if magic != expected:
            raise DeviceError(f"register id reads {magic:#010x}, not {expected:#010x}: this is no "
                              f"flytrim device, or its registers are elsewhere")
        version = self.read("version")
        self.identity = Identity(
            ".".join(str(version[part]) for part in ("major", "minor", "patch")),
            self.read("build")["commit"], **self.read("capability"),
            max_frame=self.read("max_frame")["bytes"],
            counters=bool(self.read("features")["counters"]))
        self._lacking = set(self._registers).difference(self)

    @classmethod
    @contextlib.contextmanager
    def open(cls, path, *, offset=0):
        """The device at a path; a context manager.

        That is a file that is memory, such as a BAR or a UIO device, whose registers start at
        ``offset``, or the socket of a running simulation.
        """
        if _is_socket(path):
            if offset:
                raise InputError(f"{path}: is a simulation, whose registers start at 0, not at "
                                 f"{offset:#x}: leave the offset out")
            bus = SocketBus(path)
        else:
            bus = MappedFile(path, offset=offset)
        with bus:
            try:
                device = cls(bus)
            except DeviceError as error:
                raise type(error)(f"{path}: {error}") from None
            yield device

    def __iter__(self):
        """Names of the registers that the device has."""
        return iter(Registers(counters=self.identity.counters))

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

    def insert_flow(self, number, flow):
        """Register ``flow``, a :class:`flytrim.model.Flow`, under a number that is free."""
        self._write_flow(number, flow, "insert")

    def replace_flow(self, number, flow):
        """Register ``flow`` in place of the one of this number, in one step seen by traffic."""
        self._write_flow(number, flow, "replace")

    def remove_flow(self, number):
        """Delete the flow of this number."""
        self._command("delete", number, f"flow {number}")

    def read_flow(self, number, name=None):
        """The flow of this number as the device has it, a :class:`flytrim.model.Flow`."""
        self._command("read", number, f"flow {number}")
        return flow_of(name or f"flow{number}", {
            register: self.read(register) for register in self._registers
            if register.startswith("flow.")})

    def disable_flow(self, number):
        """Let the frames of a flow pass by; it keeps its number, its key and its counters."""
        self._switch_flow(number, disabled=1)

    def enable_flow(self, number):
        """Let a flow that was disabled be trimmed again."""
        self._switch_flow(number, disabled=0)

    def restart_flow(self, number):
        """Let a flow start anew, as after an insert: for a host that has restarted."""
        self._command("restart", number, f"flow {number}")

    def insert_flows(self, flows):
        """Register the flows of a FLOWS.toml under their numbers, from 0 on."""
        for number, flow in enumerate(flows):
            self.insert_flow(number, flow)

    def counters(self):
        """All counters but those of flows, as :class:`flytrim.driver.Counters`.

        Raises :class:`DeviceError` where the device was built without counters; so do all that
        follow.
        """
        self._must_count()
        return read_counters(self)

    def flow_counters(self, number):
        """What a flow has brought, as :class:`flytrim.driver.FlowCounters`."""
        self._must_count()
        self._command("read", number, f"flow {number}")
        return read_flow_counters(self)

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

    def _must_count(self):
        if not self.identity.counters:
            raise DeviceError("register features: this device was built without counters")

    def _switch_flow(self, number, disabled):
        self._command("read", number, f"flow {number}")
        self.change("flow.options", disabled=disabled)
        self._command("replace", number, f"flow {number}")

    def _write_flow(self, number, flow, operation):
        for name, fields in flow_fields(flow).items():
            self.write(name, **fields)
        self._command(operation, number, f'flow {number}, "{flow.name}"')

    def _command(self, operation, number, what):
        self._settled()     # a large table is busy for a while after reset
        self.write("flow_command", flow=number,
                   op=self._registers.value("flow_command", "op", operation))
        code = self._settled()
        outcome = self._registers.choice("flow_status", "code", code)
        if outcome.name != "done":
            raise TableError(f"register flow_status: {what}: {operation} is refused: "
                             f"{outcome.description}", outcome.name)

    def _settled(self):
        """The outcome of the last command, once it is over."""
        for _ in range(STATUS_READS):
            status = self.read("flow_status")
            if not status["busy"]:
                return status["code"]
        raise DeviceError(f"register flow_status: stays busy for {STATUS_READS:,} reads")

    def _access(self, kind, name, *value, word=0):
        address = self.address(name) + 4 * word
        try:
            return getattr(self._bus, kind)(address, *value)
        except BusError as error:
            kind = DeviceGone if isinstance(error, BusClosed) else DeviceError
            raise kind(f"register {name}: {error}") from None


def _is_socket(path):
    with contextlib.suppress(OSError):
        return stat.S_ISSOCK(os.stat(path).st_mode)
    return False


@contextlib.contextmanager
def _named():
    """What the register description does not have, or has no room for, is a fault of the caller."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise DeviceError(str(error.args[0])) from None
