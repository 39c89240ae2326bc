# SPDX-License-Identifier: Apache-2.0
"""Bursts: the addresses of a write, page by page."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .records import LENGTH_BITS

__all__ = ["Burst", "Bursts", "page_bytes"]

#: AXI4 (ARM IHI 0022E, A3.4.1): no burst crosses 4 KB, none has more beats.
PAGE, MOST_BEATS = 4096, 256


def page_bytes(lanes):
    """Bursts end where these end: what 256 beats hold, 4 KB at most."""
    return min(PAGE, MOST_BEATS * lanes)


class Burst(data.Struct):
    """``beats`` + 1 whole beats from ``address`` on, the start of one; ``last`` of its write.

    ``writes`` is not set for what needs no write; it is told in its turn.
    """

    writes: 1
    last: 1
    address: 64
    beats: 8


class Bursts(wiring.Component):
    """Cuts writes at the ends of pages.

    Combinational from ``write``, ``address`` and ``length`` to the first burst; a burst a cycle.

    Parameters
    ----------
    lanes : int
        Bytes a beat.

    Members
    -------
    i : stream of what is to be written, taken with its last burst
    o : stream of :class:`Burst`
    """

    def __init__(self, lanes):
        self._lanes = lanes
        super().__init__({
            "i": In(stream.Signature(data.StructLayout(
                {"write": 1, "address": 64, "length": LENGTH_BITS}))),
            "o": Out(stream.Signature(Burst)),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, page = self._lanes, page_bytes(self._lanes)
        low, bits = ceil_log2(lanes), ceil_log2(page)
        span, burst = self.i.payload, self.o.payload

        # Behind the first burst all begin where a page does.
        begun, next_page, left = Signal(), Signal(64 - bits), Signal(LENGTH_BITS)
        offset, length = Signal(bits), Signal(LENGTH_BITS)
        m.d.comb += [
            offset.eq(Mux(begun, 0, span.address[:bits])),
            length.eq(Mux(begun, left, span.length)),
        ]
        end = offset + length
        last_beat = Signal(bits - low)
        m.d.comb += [
            burst.writes.eq(span.write),
            burst.last.eq(~span.write | (end <= page)),
            burst.address.eq(Mux(begun, next_page, span.address[bits:]) << bits
                             | offset[low:] << low),
            last_beat.eq(Mux(burst.last, (end - 1)[low:bits], -1)),
            burst.beats.eq(last_beat - offset[low:]),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready & burst.last),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                begun.eq(~burst.last),
                next_page.eq(burst.address[bits:] + 1),
                left.eq(end - page),
            ]
        return m
