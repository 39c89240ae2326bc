# SPDX-License-Identifier: Apache-2.0
"""Drivers and monitors. All of them drive and sample at the rising edge of ``clk`` alone."""

from .axi_memory import AxiMemory
from .axil import AxiLite, AxiLiteError
from .axil_slave import AxiLiteSlave
from .axis import AxisMonitor, AxisSink, AxisSource, Frame, RecordMonitor, VerdictMonitor
from .clock import PERIOD_NS, Edges, now
from .lanes import LaneMonitor, LaneSource, beats_of

__all__ = ["PERIOD_NS", "AxiLite", "AxiLiteError", "AxiLiteSlave", "AxiMemory", "AxisMonitor",
           "AxisSink", "AxisSource", "Edges", "Frame", "LaneMonitor", "LaneSource",
           "RecordMonitor", "VerdictMonitor", "beats_of", "now"]
