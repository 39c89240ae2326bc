# SPDX-License-Identifier: Apache-2.0
"""What is counted and measured, beside the data path."""

from .flow_counters import FlowCounters
from .latency import CYCLE_BITS
from .switch_telemetry import SwitchCounts, SwitchTelemetry
from .telemetry import Telemetry

__all__ = ["CYCLE_BITS", "FlowCounters", "SwitchCounts", "SwitchTelemetry", "Telemetry"]
