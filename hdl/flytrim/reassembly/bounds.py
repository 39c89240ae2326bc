# SPDX-License-Identifier: Apache-2.0
"""Bounds: the address of each write, and none outside the buffer it is for."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .records import BYTES_BITS, LENGTH_BITS

__all__ = ["Bounds", "Place", "Span"]


class Place(data.Struct):
    """``length`` bytes where ``room`` are left to the end of the ``bytes`` from ``base`` on."""

    write: 1
    base: 64
    bytes: BYTES_BITS
    room: BYTES_BITS
    length: LENGTH_BITS


class Span(data.Struct):
    """``length`` bytes from ``address`` on; ``lost`` if they should be written, and may not."""

    write: 1
    lost: 1
    address: 64
    length: LENGTH_BITS


class Bounds(wiring.Component):
    """The last one that looks at an address: it trusts nothing in front of it but the buffer.

    The buffer must end within the address space. Latency 2 cycles, one a cycle; nothing stalls.

    Members
    -------
    i : lane of :class:`Place`
    o : lane of :class:`Span`
    """

    latency = 2

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(Place, always_ready=True)),
            "o": Out(stream.Signature(Span, always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        place, span = self.i.payload, self.o.payload
        fits = (place.room <= place.bytes) & (place.length <= place.room)
        valid, write, lost = (Signal(name=name) for name in ("valid", "write", "lost"))
        base, offset = Signal(64), Signal(BYTES_BITS)
        length = Signal(LENGTH_BITS)
        m.d.sync += [
            valid.eq(self.i.valid),
            write.eq(place.write & fits),
            lost.eq(place.write & ~fits),
            base.eq(place.base),
            offset.eq(place.bytes - place.room),
            length.eq(place.length),
            self.o.valid.eq(valid),
            span.write.eq(write),
            span.lost.eq(lost),
            span.address.eq(base + offset),
            span.length.eq(length),
        ]
        return m
