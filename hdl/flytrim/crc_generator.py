# SPDX-License-Identifier: Apache-2.0
"""CRC generator: the CRC of each packet that leaves, at one beat a cycle."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .crc import ONE
from .logic import delayed, linear

__all__ = ["CrcGenerator", "multiplied"]


class CrcGenerator(wiring.Component):
    """Runs the CRC over a packet's beats and tells what belongs behind.

    Latency 2 cycles, one beat a cycle, never stalls. What stands before the bytes that count and
    behind them must be zero, and the register they are to begin with added to the first four of
    them. The zeros behind them advance the register too far, by a multiplication with a power of x.
    The inverse of that power depends on where the CRC is to stand and is known in time, so each
    beat's share is multiplied by it before it enters the register: that loop is all that follows.

    Parameters
    ----------
    width : int
        Bits a beat.
    crc : Crc
    offset : int
        Bytes of a beat before the first place where the CRC can start.

    Members
    -------
    data : a beat
    first : it is the packet's first
    over : it is no beat of a packet, or stands behind that in which its bytes end: ``crc`` stays as
        it was
    word : in the beat in which the bytes end, the CRC starts ``4 * word + offset`` bytes behind the
        first; the same at all beats of a packet
    wrong : in the beat in which the bytes end: all bits of ``crc`` are to be inverted
    crc : 2 cycles later, combinational: the CRC as a number, its lowest byte to be sent first
    """

    latency = 2

    def __init__(self, width, crc, *, offset):
        self._lanes, self._crc, self._offset = width // 8, crc, offset
        super().__init__({
            "data": In(width),
            "first": In(1),
            "over": In(1),
            "word": In(range(self._lanes // 4)),
            "wrong": In(1),
            "crc": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, crc = self._lanes, self._crc

        # First cycle: what the beat adds to a register of zero; the power for the packet.
        added, power = Signal(32, reset_less=True), Signal(32, reset_less=True)
        m.d.sync += [
            added.eq(linear(crc.columns(lanes), self.data)),
            power.eq(Array(Const(crc.retreat(ONE, lanes - 4 * word - self._offset), 32)
                           for word in range(lanes // 4))[self.word]),
        ]
        # Second cycle: the product.
        share = Signal(32, reset_less=True)
        wrong = delayed(m, self.wrong, 1, name="wrong")
        m.d.sync += share.eq(multiplied(m, crc, added, power) ^ wrong.replicate(32))

        # Third cycle: the register moves on.
        first = delayed(m, self.first, self.latency, name="first")
        over = delayed(m, self.over, self.latency, name="over")
        state, now = Signal(32, reset_less=True), Signal(32)
        moved = linear(crc.steps(lanes), state)
        m.d.comb += [
            now.eq(Mux(over, state, Mux(first, 0, moved) ^ share)),
            self.crc.eq(~now),
        ]
        m.d.sync += state.eq(now)
        return m


def multiplied(m, crc, a, b):
    """The register that holds the product of two registers as polynomials."""
    product = Signal(63)
    # The coefficient of x^0 first.
    m.d.comb += product.eq(Cat(
        Cat(a[31 - n] & b[31 - degree + n] for n in range(32) if 0 <= degree - n < 32).xor()
        for degree in range(len(product))))
    return linear(crc.remainders(len(product)), product)
