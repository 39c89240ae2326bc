# SPDX-License-Identifier: Apache-2.0
"""Registers by name, flows by command: for simulation and hardware alike."""

from .bus import Bus, BusError, MappedFile
from .counters import Amount, Counters, FlowCounters, Latency
from .device import Device, DeviceError, Identity, TableError
from .registers import Registers, flow_fields

__all__ = ["Amount", "Bus", "BusError", "Counters", "Device", "DeviceError", "FlowCounters",
           "Identity", "Latency", "MappedFile", "Registers", "TableError", "flow_fields"]
