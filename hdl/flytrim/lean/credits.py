# SPDX-License-Identifier: Apache-2.0
"""Credits: containers leave only when the far end has room for them."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..packet import Packet

__all__ = ["CREDIT_BITS", "Credits"]

#: Bits of a number of free beats.
CREDIT_BITS = 16


class Credits(wiring.Component):
    """Holds a container back until the far end is known to have room for a longest one.

    The far end tells how many beats it has free, over and over. What it told does not count the
    beats that left since, so these are subtracted: all that left within a round trip. Nothing adds
    up over time, and so nothing is lost with a container that is lost. No path leads from ``o`` to
    ``i`` but ``ready``; no cycle of latency.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    free : what the far end has told
    i, o : stream of containers
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "free": In(CREDIT_BITS),
            "i": In(stream.Signature(Packet(config.width))),
            "o": Out(stream.Signature(Packet(config.width))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        cycles = config.round_trip
        sent = Signal(cycles)
        recent = Signal(range(cycles + 1))
        moves = self.o.valid & self.o.ready
        m.d.sync += [sent.eq(sent << 1 | moves), recent.eq(recent + moves - sent[-1])]

        # Begun or offered: neither can be taken back.
        open_, grant = Signal(), Signal()
        m.d.comb += [
            grant.eq(open_ | (self.free >= recent + config.max_beats)),
            self.o.valid.eq(self.i.valid & grant),
            self.o.payload.eq(self.i.payload),
            self.i.ready.eq(self.o.ready & grant),
        ]
        with m.If(self.o.valid):
            m.d.sync += open_.eq(~(self.o.ready & self.i.payload.last))
        return m
