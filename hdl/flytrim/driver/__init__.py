# SPDX-License-Identifier: Apache-2.0
"""Registers by name, flows by command: for simulation and hardware alike."""

from .bus import Bus, BusError, MappedFile
from .device import Device, DeviceError, Identity, TableError
from .registers import Registers, flow_fields

__all__ = ["Bus", "BusError", "Device", "DeviceError", "Identity", "MappedFile", "Registers",
           "TableError", "flow_fields"]
