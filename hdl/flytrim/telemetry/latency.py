# SPDX-License-Identifier: Apache-2.0
"""Latency: how long payloads take from port to port, shortest, longest, and how many how long."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .tally import Tally

__all__ = ["CYCLE_BITS", "Latency"]

#: Bits of a latency in cycles.
CYCLE_BITS = 24
BUCKETS = 16


class Latency(wiring.Component):
    """Measures from the first beat of a frame to the first beat of its payload.

    The time of the frame's first beat travels with its payload as a stamp. A latency is right
    modulo 2^24 cycles.

    Parameters
    ----------
    ahead : int
        Cycles that a beat has behind it when ``first`` tells of it.

    Members
    -------
    first : strobe: the first beat of a frame is where frames are stamped
    stamp : of the frame whose beats are there
    leaves : lane of stamps: the first beat of a payload leaves
    clear : strobe
    minimum, maximum : cycles; all ones and 0 while nothing has left
    index, count : a bucket of the histogram, and two cycles later how many latencies of 2^index to
        2^(index + 1) - 1 cycles there were; the first bucket also counts 0, the last all longer
    """

    def __init__(self, ahead):
        self._ahead = ahead
        super().__init__({
            "first": In(1),
            "stamp": Out(CYCLE_BITS),
            "leaves": In(stream.Signature(CYCLE_BITS, always_ready=True)),
            "clear": In(1),
            "minimum": Out(CYCLE_BITS, init=-1),
            "maximum": Out(CYCLE_BITS),
            "index": In(range(BUCKETS)),
            "count": Out(64),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.tally = tally = Tally(BUCKETS, {"count": 1})
        # Two clocks, so that the difference is the latency: one is behind by what came before.
        now, then = Signal(CYCLE_BITS), Signal(CYCLE_BITS, init=(1 << CYCLE_BITS) - self._ahead)
        kept = Signal(CYCLE_BITS)
        m.d.sync += [now.eq(now + 1), then.eq(then + 1)]
        m.d.comb += self.stamp.eq(Mux(self.first, then, kept))
        with m.If(self.first):
            m.d.sync += kept.eq(then)

        cycles, measured = Signal(CYCLE_BITS), Signal()
        m.d.sync += [cycles.eq(now - self.leaves.payload), measured.eq(self.leaves.valid)]
        with m.If(self.clear):
            m.d.sync += [self.minimum.eq(self.minimum.init), self.maximum.eq(0)]
        with m.Elif(measured):
            with m.If(cycles < self.minimum):
                m.d.sync += self.minimum.eq(cycles)
            with m.If(cycles > self.maximum):
                m.d.sync += self.maximum.eq(cycles)

        # The place of the highest bit that is set.
        top = [cycles[BUCKETS - 1:].any(),
               *(cycles[bit] & ~cycles[bit + 1:].any() for bit in reversed(range(1, BUCKETS - 1)))]
        bucket = Signal(range(BUCKETS))
        places = [*zip(reversed(range(1, BUCKETS)), top, strict=True)]
        m.d.sync += [
            bucket.eq(Cat(Cat(found for place, found in places if place >> bit & 1).any()
                          for bit in range(len(bucket)))),
            tally.i.valid.eq(measured),
            tally.clear.eq(self.clear),
        ]
        m.d.comb += [
            tally.i.payload.row.eq(bucket),
            tally.i.payload.amounts.count.eq(1),
            tally.index.eq(self.index),
            self.count.eq(tally.o.count),
        ]
        return m
