# SPDX-License-Identifier: Apache-2.0
"""Queue for frames that must not have gaps, whenever the port takes them."""

from amaranth import Module, Signal, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from .queue import Queue

__all__ = ["SteadyQueue"]

#: Items in front of the memory: more than those that can leave before it has answered.
FRONT = 4


class SteadyQueue(wiring.Component):
    """First in, first out; items that came in a row leave in a row while the sink takes them.

    A :class:`Queue` may hold nothing in its registers for two cycles while an item is on its way
    through the memory. Here what is written goes to the memory only while others are in front of
    it, enough to last for that time.

    Latency 1 cycle while empty, a transfer a cycle in and out. As of a :class:`Queue`, what is
    written beyond the depth is lost, and ``room`` lags by one cycle.

    Parameters
    ----------
    shape : ShapeLike
        Items.
    depth, margin : int
        As of :class:`Queue`.

    Members
    -------
    i : lane of items
    room : at least ``margin`` more items fit
    o : stream of items
    """

    def __init__(self, shape, *, depth, margin):
        self._shape, self._depth, self._margin = shape, depth, margin
        super().__init__({
            "i": In(stream.Signature(shape, always_ready=True)),
            "room": Out(1),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.behind = behind = Queue(self._shape, depth=self._depth, margin=self._margin)
        m.submodules.front = front = fifo.SyncFIFO(width=len(Value.cast(self.i.payload)),
                                                   depth=FRONT)
        held = Signal(range(self._depth + 4))
        direct, moves = Signal(), Signal()
        m.d.comb += [
            direct.eq(self.i.valid & (held == 0) & front.w_rdy),
            moves.eq(behind.o.valid & front.w_rdy),
            behind.i.valid.eq(self.i.valid & ~direct),
            behind.i.payload.eq(self.i.payload),
            behind.commit.eq(1),
            behind.o.ready.eq(front.w_rdy),
            front.w_en.eq(direct | moves),
            front.w_data.eq(self.i.payload),
            self.room.eq(behind.room),
            self.o.valid.eq(front.r_rdy),
            Value.cast(self.o.payload).eq(front.r_data),
            front.r_en.eq(self.o.ready),
        ]
        with m.If(moves):
            m.d.comb += front.w_data.eq(behind.o.payload)
        m.d.sync += held.eq(held + behind.i.valid - moves)
        return m
