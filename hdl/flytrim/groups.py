# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass


@dataclass(frozen=True)
class SwitchFile:
    config: object
    groups: tuple
    forward: dict
    clock_mhz: float
