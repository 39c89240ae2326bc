# SPDX-License-Identifier: Apache-2.0
"""Registers by name, flows and groups by command: for simulation and hardware alike."""

from .bus import Bus, BusClosed, BusError, MappedFile, MappedPages, ShiftedBus
from .counters import Count, Counters, FlowCounters
from .device import Device, Identity
from .page import DeviceError, DeviceGone, TableError
from .registers import Registers, flow_fields
from .socket_bus import SocketBus
from .switch import AbortedSlot, StragglingSlot, Switch, SwitchIdentity
from .switch_counters import GroupCounters, PortCounters, SwitchCounters

__all__ = ["AbortedSlot", "Bus", "BusClosed", "BusError", "Count", "Counters", "Device",
           "DeviceError", "DeviceGone", "FlowCounters", "GroupCounters", "Identity", "MappedFile",
           "MappedPages", "PortCounters", "Registers", "ShiftedBus", "SocketBus", "StragglingSlot",
           "Switch", "SwitchCounters", "SwitchIdentity", "TableError", "flow_fields"]
