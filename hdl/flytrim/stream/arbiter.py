# SPDX-License-Identifier: Apache-2.0
"""Round robin: who of several is served next."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["RoundRobin"]


class RoundRobin(wiring.Component):
    """Grants one of the requests, the next behind the one that was served last.

    Combinational from ``requests`` to ``grant``.

    Parameters
    ----------
    count : int

    Members
    -------
    requests : a bit for each
    grant : one-hot; zero where nobody asks
    served : strobe: the one that is granted was served
    """

    def __init__(self, count):
        self._count = count
        super().__init__({"requests": In(count), "grant": Out(count), "served": In(1)})

    def elaborate(self, platform):
        m = Module()
        # Those behind the one served last.
        behind, first = Signal(self._count), Signal(self._count)
        m.d.comb += [
            first.eq(self.requests & behind),
            self.grant.eq(Mux(first.any(), first & -first, self.requests & -self.requests)),
        ]
        with m.If(self.served):
            # All above the bit that is set.
            m.d.sync += behind.eq(~(self.grant | (self.grant - 1)))
        return m
