# SPDX-License-Identifier: Apache-2.0
"""Register access by name, for simulation and hardware alike."""

from .registers import Registers, flow_fields, insert_flow

__all__ = ["Registers", "flow_fields", "insert_flow"]
