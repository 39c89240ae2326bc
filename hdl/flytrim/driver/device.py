# SPDX-License-Identifier: Apache-2.0
"""A device as software sees it: registers by name, and the flow table."""

import contextlib
from typing import NamedTuple

from .. import registers
from .counters import read_counters, read_flow_counters
from .opened import opened
from .page import Page
from .registers import Registers, flow_fields, flow_of

__all__ = ["Device", "Identity"]


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


class Device(Page):
    """A flytrim device behind a bus.

    Parameters
    ----------
    bus : flytrim.driver.Bus

    Attributes
    ----------
    identity : Identity

    Raises :class:`DeviceError` where no such device answers.
    """

    command_register, status_register = "flow_command", "flow_status"

    def __init__(self, bus):
        super().__init__(bus, Registers())
        self._check_magic()
        self.identity = Identity(
            self._version(), self.read("build")["commit"], **self.read("capability"),
            max_frame=self.read("max_frame")["bytes"],
            counters=bool(self.read("features")["counters"]))
        self._lacking = set(self._registers).difference(self)

    @classmethod
    @contextlib.contextmanager
    def open(cls, path, *, offset=0):
        """The device at a path; a context manager.

        That is a file that is memory, such as a BAR or a UIO device, or the socket of a running
        simulation; its registers start at ``offset``.
        """
        with opened(cls, path, offset) as device:
            yield device

    def __iter__(self):
        """Names of the registers that the device has."""
        return iter(Registers(registers.load(counters=self.identity.counters)))

    def insert_flow(self, number, flow):
        """Register ``flow``, a :class:`flytrim.model.Flow`, under a number that is free."""
        self._write_flow(number, flow, "insert")

    def replace_flow(self, number, flow):
        """Register ``flow`` in place of the one of this number, in one step seen by traffic."""
        self._write_flow(number, flow, "replace")

    def remove_flow(self, number):
        """Delete the flow of this number."""
        self._run("delete", number)

    def read_flow(self, number, name=None):
        """The flow of this number as the device has it, a :class:`flytrim.model.Flow`."""
        self._run("read", number)
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
        self._run("restart", number)

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
        self._run("read", number)
        return read_flow_counters(self)

    def _switch_flow(self, number, disabled):
        self._run("read", number)
        self.change("flow.options", disabled=disabled)
        self._run("replace", number)

    def _write_flow(self, number, flow, operation):
        for name, fields in flow_fields(flow).items():
            self.write(name, **fields)
        self._run(operation, number, f', "{flow.name}"')

    def _run(self, operation, number, name=""):
        self._command(operation, f"flow {number}{name}", flow=number)
