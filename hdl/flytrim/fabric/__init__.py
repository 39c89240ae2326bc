# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts and links around a switch, which is compiled hardware or its reference model."""

from .allreduce import compiled, modelled, run
from .plan import DTYPES, OPS, TOPOLOGIES, AllReduce
from .star import Stalled

__all__ = ["DTYPES", "OPS", "TOPOLOGIES", "AllReduce", "Stalled", "compiled", "modelled", "run"]
