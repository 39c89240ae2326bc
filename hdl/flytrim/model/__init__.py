# SPDX-License-Identifier: Apache-2.0
"""The reference model: what a flytrim device must do, in plain Python without hardware.

It knows the wire formats from its own tables and shares only the words of
:mod:`flytrim.verdict` with the hardware, so that a mistake in one is not repeated in the other.
"""

from .flow import Flow
from .group import Child, Group, Header
from .nic import Judgement, NicModel
from .reassembly import Arrival, Completed, Fate, Landed, Landing, ReassemblyModel
from .switch import GroupRefused, SwitchModel

__all__ = ["Arrival", "Child", "Completed", "Fate", "Flow", "Group", "GroupRefused", "Header",
           "Judgement", "Landed", "Landing", "NicModel", "ReassemblyModel", "SwitchModel"]
