# SPDX-License-Identifier: Apache-2.0
"""Stream cells."""

from .queue import Queue

__all__ = ["Queue"]
