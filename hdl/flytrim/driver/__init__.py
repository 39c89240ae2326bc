# SPDX-License-Identifier: Apache-2.0
"""Registers by name, flows by command: for simulation and hardware alike."""

from .bus import Bus, BusClosed, BusError, MappedFile
from .counters import Count, Counters, FlowCounters
from .device import Device, DeviceError, DeviceGone, Identity, TableError
from .registers import Registers, flow_fields
from .socket_bus import SocketBus

__all__ = ["Bus", "BusClosed", "BusError", "Count", "Counters", "Device", "DeviceError",
           "DeviceGone", "FlowCounters", "Identity", "MappedFile", "Registers", "SocketBus",
           "TableError", "flow_fields"]
