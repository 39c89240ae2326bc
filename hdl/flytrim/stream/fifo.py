# SPDX-License-Identifier: Apache-2.0
"""Short queue between two streams."""

from amaranth import Module, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Fifo"]


class Fifo(wiring.Component):
    """First in, first out, in distributed RAM.

    Latency 1 cycle, a transfer a cycle. ``i.ready`` and ``o.valid`` come from registers alone.

    Parameters
    ----------
    shape : ShapeLike
        Items.
    depth : int
        Items.
    """

    def __init__(self, shape, depth):
        self._depth = depth
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.items = items = fifo.SyncFIFO(
            width=len(Value.cast(self.i.payload)), depth=self._depth)
        m.d.comb += [
            items.w_en.eq(self.i.valid),
            items.w_data.eq(self.i.payload),
            self.i.ready.eq(items.w_rdy),
            self.o.valid.eq(items.r_rdy),
            Value.cast(self.o.payload).eq(items.r_data),
            items.r_en.eq(self.o.ready),
        ]
        return m
