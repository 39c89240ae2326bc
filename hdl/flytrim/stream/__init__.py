# SPDX-License-Identifier: Apache-2.0
"""Stream cells."""

from .arbiter import RoundRobin
from .queue import Queue

__all__ = ["Queue", "RoundRobin"]
