# SPDX-License-Identifier: Apache-2.0
"""A switch as software sees it: its ports, each a device, and the groups it reduces."""

import contextlib
from typing import NamedTuple

from .. import registers
from ..config import MAX_PORTS, TYPES
from .bus import PAGE_BYTES, ShiftedBus
from .device import Device
from .group_fields import group_fields, header_fields
from .opened import opened
from .page import DeviceError, DeviceGone, Page
from .registers import Registers
from .switch_counters import read_group_counters, read_switch_counters

__all__ = ["AbortedSlot", "StragglingSlot", "Switch", "SwitchIdentity"]


class SwitchIdentity(NamedTuple):
    """What a switch is: its version, the commit it was made from or 0, and what it was built with.

    ``width`` is the bits of a beat, ``ports`` and ``groups`` how many there are, ``window`` the
    packets of the windows of all groups together, ``slot_bytes`` the longest payload, ``types``
    what elements may be, ``sum`` how numbers are added, ``counters`` whether it counts.
    """

    version: str
    commit: int
    width: int
    ports: int
    groups: int
    window: int
    slot_bytes: int
    types: tuple
    sum: str
    counters: bool


class StragglingSlot(NamedTuple):
    """A slot that waits for its last children: whose, which packet's, and for which ports."""

    group: int
    offset: int
    ports: tuple


class AbortedSlot(NamedTuple):
    """A slot that made no result; ``cause`` as in the register description."""

    group: int
    offset: int
    cause: str


class Switch(Page):
    """A flytrim switch behind a bus: the page of registers behind those of its ports.

    Parameters
    ----------
    bus : flytrim.driver.Bus

    Attributes
    ----------
    identity : SwitchIdentity

    Raises :class:`DeviceError` where no switch answers.
    """

    command_register, status_register = "group_command", "group_status"

    def __init__(self, bus):
        every = Registers(registers.load_switch())
        super().__init__(ShiftedBus(bus, _find(bus, every) * PAGE_BYTES), every)
        self._whole = bus
        capability, slots = self.read("capability"), self.read("slots")
        arithmetic = self.read("arithmetic")
        self.identity = SwitchIdentity(
            self._version(), self.read("build")["commit"], capability["width"],
            capability["ports"], capability["groups"], slots["window"], slots["bytes"],
            tuple(each for each in TYPES if arithmetic["types"]
                  >> every.value("group.function", "dtype", each) & 1),
            every.choice("arithmetic", "sum", arithmetic["sum"]).name,
            bool(self.read("features")["counters"]))
        self._registers = Registers(registers.load_switch(
            ports=self.identity.ports, groups=self.identity.groups))
        self._lacking = set(self._registers).difference(self)
        self._ports = {}

    @classmethod
    @contextlib.contextmanager
    def open(cls, path, *, offset=0):
        """The switch at a path, as :meth:`Device.open`; ``offset`` is where its port 0 starts."""
        with opened(cls, path, offset) as switch:
            yield switch

    def __iter__(self):
        """Names of the registers that the switch has beside those of its ports."""
        return iter(Registers(registers.load_switch(
            ports=self.identity.ports, groups=self.identity.groups,
            counters=self.identity.counters)))

    def port(self, number):
        """The :class:`Device` that a port is."""
        self._check(number, self.identity.ports, "port")
        if number not in self._ports:
            self._ports[number] = Device(ShiftedBus(self._whole, number * PAGE_BYTES))
        return self._ports[number]

    def forward(self, routes):
        """Let frames that are not reduced leave by other ports.

        Parameters
        ----------
        routes : dict
            The port that frames leave by, by that they enter on; those of other ports are dropped.
        """
        for port in routes:
            self._check(port, self.identity.ports, "port")
        for port in range(self.identity.ports):
            egress = routes.get(port)
            if egress is not None:
                self._check(egress, self.identity.ports, "port")
            self.write(f"forward[{port}]", port=egress or 0, enable=int(egress is not None))

    def set_template(self, port, group, header):
        """Let the results of a group leave a port with these headers.

        Parameters
        ----------
        header : flytrim.model.Header
        """
        for name, fields in header_fields(header).items():
            self.write(name, **fields)
        self._command("template", f"group {group}, port {port}", group=group, port=port)

    def start_group(self, number, group):
        """Reduce what comes for ``group``, a :class:`flytrim.model.Group`, from now on.

        Its slots are cleared first. Its members' flows and headers are not written here: see
        :meth:`configure`.
        """
        for member in group.members:
            self._check(member.port, self.identity.ports, "port")
        for name, fields in group_fields(group, self._registers).items():
            self.write(name, **fields)
        self._command("start", f'group {number}, "{group.name}"', group=number)

    def stop_group(self, number):
        """Drop what comes for a group from now on, and results that still wait for a port."""
        self._command("stop", f"group {number}", group=number)

    def flush(self, number, offset):
        """Let the result of an offset go out without the children that are missing."""
        self.write("group_offset", offset=offset)
        self._command("flush", f"group {number}, offset {offset}", group=number)

    def configure(self, file):
        """Do all that a :class:`flytrim.groups.SwitchFile` says, of a switch after reset."""
        self.forward(file.forward)
        for number, group in enumerate(file.groups):
            for member in group.members:
                self.port(member.port).insert_flow(number, member.flow)
                self.set_template(member.port, number, member.header)
            self.start_group(number, group)

    def straggler(self):
        """The :class:`StragglingSlot` that was told of first, or None; the next one can be told.

        It is told once for each slot.
        """
        if "straggler" not in self.events():
            return None
        slot, missing = self.read("straggler"), self.read("straggler_missing")["ports"]
        self.clear_events("straggler")
        return StragglingSlot(slot["group"], slot["offset"], tuple(
            port for port in range(MAX_PORTS) if missing >> port & 1))

    def aborted(self):
        """The :class:`AbortedSlot` that was told of first, or None; the next one can be told."""
        if "aborted" not in self.events():
            return None
        slot = self.read("aborted")
        self.clear_events("aborted")
        return AbortedSlot(slot["group"], slot["offset"], self._registers.choice(
            "aborted", "cause", slot["cause"]).name)

    def counters(self):
        """What the switch has counted, as :class:`flytrim.driver.SwitchCounters`.

        Raises :class:`DeviceError` where it was built without counters; so does the next.
        """
        self._must_count()
        return read_switch_counters(self)

    def group_counters(self, number):
        """What a group has made, as :class:`flytrim.driver.GroupCounters`."""
        self._must_count()
        self._check(number, self.identity.groups, "group")
        return read_group_counters(self, number)

    def _check(self, number, count, what):
        if number not in range(count):
            raise DeviceError(f"{what} {number}: this switch has {count}: 0 to {count - 1}")


def _find(bus, every):
    """The number of the page of the switch: the first behind those of ports."""
    ours, of_port = (each.reset("id")["magic"] for each in (every, Registers()))
    for number in range(MAX_PORTS + 1):
        try:
            magic = Page(ShiftedBus(bus, number * PAGE_BYTES), every).read("id")["magic"]
        except DeviceError as error:
            if number and not isinstance(error, DeviceGone):
                raise DeviceError(f"{error}; a switch has registers of its own behind those of "
                                  f"its ports, and this is none") from None
            raise
        if magic == ours:
            return number
        if magic != of_port:
            break
    raise DeviceError(f"register id of page {number} reads {magic:#010x}, not {ours:#010x}: this "
                      f"is no flytrim switch, or its registers are elsewhere")
