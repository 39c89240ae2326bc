# SPDX-License-Identifier: Apache-2.0
"""Stream cells."""

from .arbiter import RoundRobin
from .queue import Queue
from .steady import SteadyQueue

__all__ = ["Queue", "RoundRobin", "SteadyQueue"]
