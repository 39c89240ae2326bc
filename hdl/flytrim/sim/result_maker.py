# SPDX-License-Identifier: Apache-2.0
"""What the model of a switch makes of contributions, and whose result a frame is."""

import dataclasses

from ..model import Flow, NicModel, SwitchModel
from .departures import Leaving

__all__ = ["PSNS", "ResultMaker"]

#: How many PSNs there are.
PSNS = 1 << 24


class ResultMaker:
    """Results of a switch's groups, whatever came before.

    Parameters
    ----------
    setup : flytrim.groups.SwitchFile
    """

    def __init__(self, setup):
        self._config, self._groups = setup.config, setup.groups

    def make(self, number, offset, contributions):
        """What leaves for these frames, one of each child by its port: list of `Leaving`."""
        config, group = self._config, self._groups[number]
        # A group that begins with this offset makes the same of them.
        begun = dataclasses.replace(group, window=1, children=tuple(dataclasses.replace(
            child, start_psn=(child.start_psn + offset) % PSNS, header=dataclasses.replace(
                child.header, psn=(child.header.psn + offset) % PSNS,
                va=child.header.va + offset * config.slot_bytes)) for child in group.children))
        model = SwitchModel(config.ports, groups=1, sum=config.sum, slot_bytes=config.slot_bytes,
                            max_frame=config.max_frame)
        model.configure([begun])
        return [Leaving(*left) for port, frame in contributions.items()
                for left in model.receive(port, frame)]

    def told(self, number, offset, port, frames):
        """Those of the :class:`Leaving` that headers tell to be the port's result of an offset."""
        header = next(child.header for child in self._groups[number].children
                      if child.port == port)
        judge = NicModel([Flow("result", header.src, header.dst, header.dqpn, header.udp_dport)])
        psn = (header.psn + offset) % PSNS
        return [leaving for leaving in frames
                if leaving.port == port and judge.judge(leaving.frame).psn == psn]
