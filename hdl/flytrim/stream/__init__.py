# SPDX-License-Identifier: Apache-2.0
"""Stream cells."""

from .arbiter import RoundRobin
from .fifo import Fifo
from .queue import Queue
from .steady import SteadyQueue

__all__ = ["Fifo", "Queue", "RoundRobin", "SteadyQueue"]
