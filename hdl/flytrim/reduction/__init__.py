# SPDX-License-Identifier: Apache-2.0
"""Reduction across ports: slots of each child, jobs, results, and who keeps order among them."""

from .reducer import Reducer, sum_latency

__all__ = ["Reducer", "sum_latency"]
