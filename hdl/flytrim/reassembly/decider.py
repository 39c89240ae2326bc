# SPDX-License-Identifier: Apache-2.0
"""Decider: each turn to the unit that its flow's order asks for."""

from amaranth import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..logic import delayed
from .in_order import InOrder
from .multipath import Multipath
from .records import FLOW_BITS
from .turn import Decided, Report, Turn

__all__ = ["Decider"]


class Decider(wiring.Component):
    """Flows in order and of multipath side by side; what they decide leaves in the order of turns.

    A turn a cycle; nothing stalls.

    Parameters
    ----------
    flows, paths, window : int
        See :class:`flytrim.reassembly.context_unit.ContextUnit`.

    Members
    -------
    number : of the flow of what comes in ``i`` two cycles later
    i : lane of :class:`Turn`
    o : lane of :class:`Decided`
    reports : lane of :class:`Report`, with ``o``; of multipath alone

    Attributes
    ----------
    latency : int
        Cycles from ``i`` to ``o``.
    """

    def __init__(self, flows, paths, window):
        self._flows, self._paths, self._window = flows, paths, window
        self.latency = self.latency_with(paths)
        super().__init__({
            "number": In(FLOW_BITS),
            "i": In(stream.Signature(Turn, always_ready=True)),
            "o": Out(stream.Signature(Decided, always_ready=True)),
            "reports": Out(stream.Signature(Report(window), always_ready=True)),
        })

    @staticmethod
    def latency_with(paths):
        """The latency where so many flows may be multipath."""
        return Multipath.latency if paths else InOrder.latency

    def elaborate(self, platform):
        m = Module()
        m.submodules.in_order = in_order = InOrder(self._flows)
        m.d.comb += in_order.number.eq(self.number)
        if not self._paths:
            connect(m, flipped(self.i), in_order.i)
            connect(m, in_order.o, flipped(self.o))
            return m
        m.submodules.multipath = multipath = Multipath(self._paths, self._window)
        m.d.comb += multipath.number.eq(self.number)
        connect(m, multipath.reports, flipped(self.reports))
        chosen = self.i.payload.multipath
        wait = self.latency - InOrder.latency
        early = delayed(m, in_order.o.valid, wait, name="early", reset=True)
        decided = delayed(m, in_order.o.payload, wait, name="decided")
        m.d.comb += [
            in_order.i.valid.eq(self.i.valid & ~chosen),
            in_order.i.payload.eq(self.i.payload),
            multipath.i.valid.eq(self.i.valid & chosen),
            multipath.i.payload.eq(self.i.payload),
            self.o.valid.eq(early | multipath.o.valid),
            self.o.payload.eq(Mux(early, decided.as_value(), multipath.o.payload.as_value())),
        ]
        return m
