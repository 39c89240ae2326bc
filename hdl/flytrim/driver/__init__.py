# SPDX-License-Identifier: Apache-2.0
"""Registers by name, flows by command: for simulation and hardware alike."""

from .bus import Bus, BusClosed, BusError, MappedFile
from .counters import Amount, Counters, FlowCounters, Latency
from .device import Device, DeviceError, DeviceGone, Identity, TableError
from .registers import Registers, flow_fields
from .socket_bus import SocketBus

__all__ = ["Amount", "Bus", "BusClosed", "BusError", "Counters", "Device", "DeviceError",
           "DeviceGone", "FlowCounters", "Identity", "Latency", "MappedFile", "Registers",
           "SocketBus", "TableError", "flow_fields"]
