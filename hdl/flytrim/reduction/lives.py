# SPDX-License-Identifier: Apache-2.0
"""Lives: whether what waits somewhere is still of the life that its group runs."""

from amaranth import Module
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..group import GROUP_BITS
from .child import LIFE_BITS, GroupEntry

__all__ = ["Lives"]


class Lives(wiring.Component):
    """Remembers each group's life; all else is combinational.

    Parameters
    ----------
    config : SwitchConfig
    looks : int
        What is looked at in a cycle.

    Members
    -------
    placed, group, entry : strobe: ``entry`` becomes that of ``group``
    running : a bit a group: it was not stopped
    of : group and life of each that is looked at
    runs : a bit each: its group runs, and in this life
    """

    def __init__(self, config, looks):
        self._config = config
        super().__init__({
            "placed": In(1),
            "group": In(GROUP_BITS),
            "entry": In(GroupEntry),
            "running": In(config.groups),
            "of": In(data.ArrayLayout(
                data.StructLayout({"group": GROUP_BITS, "life": LIFE_BITS}), looks)),
            "runs": Out(looks),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.lives = lives = memory.Memory(
            shape=LIFE_BITS, depth=max(2, self._config.groups), init=[])
        write = lives.write_port()
        m.d.comb += [write.addr.eq(self.group), write.data.eq(self.entry.life),
                     write.en.eq(self.placed)]
        for n, look in enumerate(self.of):
            read = lives.read_port(domain="comb")
            m.d.comb += [
                read.addr.eq(look.group),
                self.runs[n].eq(self.running.bit_select(look.group, 1) & (read.data == look.life)),
            ]
        return m
