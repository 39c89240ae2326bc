# SPDX-License-Identifier: Apache-2.0
"""Message place: which message a packet belongs to, where it stands in it, where that begins."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from ..logic import delayed
from .records import BYTES_BITS, PSN_BITS, Paths

__all__ = ["MessagePlace"]

#: Packets from the first one of a message on; with those of a window in front.
REACH_BITS = PSN_BITS + 1
#: Bits of a number of packets or messages that a window reaches.
WINDOW_BITS, RECIPROCAL = 9, 17


class MessagePlace(wiring.Component):
    """Divides: packets from a message's first one on, by the packets of a message.

    The divisor is a flow's, so its reciprocal is given. This is exact: of up to 256 ``packets`` the
    dividend is below 512, and 511 times the error of the reciprocal below 2^17; of more packets the
    dividend is below twice the divisor. Latency 5 cycles, one a cycle.

    Members
    -------
    i : lane of ``reach`` packets from the first one of a message that begins at ``home`` on
    o : lane of ``count`` messages behind that one, ``packet`` in the message there, which begins at
        ``home``
    """

    latency = 5

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(StructLayout(
                {"reach": REACH_BITS, "home": BYTES_BITS, "stride": BYTES_BITS, "paths": Paths}),
                always_ready=True)),
            "o": Out(stream.Signature(StructLayout(
                {"count": WINDOW_BITS, "packet": PSN_BITS, "home": BYTES_BITS}),
                always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        given, o = self.i.payload, self.o.payload
        packets, ring = given.paths.packets, given.paths.ring

        few, whole = Signal(WINDOW_BITS), Signal()
        count, product = Signal(WINDOW_BITS), Signal(RECIPROCAL + WINDOW_BITS + 1)
        m.d.sync += [
            product.eq(given.reach[:WINDOW_BITS] * given.paths.reciprocal),
            whole.eq(given.reach >= packets),
        ]
        small = delayed(m, given.paths.reciprocal.any(), 1, name="small")
        m.d.comb += few.eq(product >> RECIPROCAL)
        m.d.sync += count.eq(Mux(small, few, whole))

        back, steps = Signal(PSN_BITS), Signal(BYTES_BITS + 1)
        packets_then = delayed(m, packets, 2, name="packets")
        small_then = delayed(m, small, 1, name="small_later")
        m.d.sync += [
            back.eq(Mux(small_then, count * packets_then[:WINDOW_BITS],
                        Mux(count[0], packets_then, 0))),
            steps.eq(count * delayed(m, given.stride, 2, name="stride")),
        ]
        packet, home = Signal(PSN_BITS), Signal(BYTES_BITS + 1)
        m.d.sync += [
            packet.eq(delayed(m, given.reach, 3, name="reach") - back),
            home.eq(delayed(m, given.home, 3, name="home") + steps),
        ]
        ring_then = delayed(m, ring, 4, name="ring")
        m.d.sync += [
            o.count.eq(delayed(m, count, 2, name="count")),
            o.packet.eq(packet),
            o.home.eq(Mux(home >= ring_then, home - ring_then, home)),
        ]
        m.d.comb += self.o.valid.eq(delayed(m, self.i.valid, self.latency, name="valid",
                                            reset=True))
        return m
