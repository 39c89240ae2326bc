# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts and links around switches, compiled hardware or its reference model."""

from .allreduce import compiled, modelled, run
from .network import Stalled
from .plan import DTYPES, OPS, AllReduce
from .topology import TOPOLOGIES

__all__ = ["DTYPES", "OPS", "TOPOLOGIES", "AllReduce", "Stalled", "compiled", "modelled", "run"]
