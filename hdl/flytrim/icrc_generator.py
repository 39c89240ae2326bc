# SPDX-License-Identifier: Apache-2.0
"""ICRC generator: the invariant CRC of each packet that leaves, at one beat a cycle."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .icrc import POLYNOMIAL, advance, linear, retreat
from .logic import delayed

__all__ = ["IcrcGenerator"]

#: The polynomial 1 in a register whose highest bit is the coefficient of x^0.
ONE = 1 << 31


class IcrcGenerator(wiring.Component):
    """Runs the CRC from the IP header to the pad and tells what belongs behind.

    Latency 2 cycles, one beat a cycle, never stalls; a packet's beats come without a gap. What
    stands before the IP header and behind the pad must be zero, the masked bits set, and
    :data:`flytrim.icrc.SEED` added to the header's first four bytes. The zeros behind the pad
    advance the register too far, by a multiplication with a power of x. The inverse of that power
    depends on where the ICRC is to stand and is known in time, so each beat's share is multiplied
    by it before it enters the register: that loop is all that follows.

    Members
    -------
    data : a beat
    first : it is the packet's first
    over : it stands behind that in which the packet's pad ends: ``icrc`` stays as it was
    word : in the beat in which the pad ends, the ICRC starts ``4 * word + 2`` bytes behind the
        first; the same at all beats of a packet
    wrong : in the beat in which the pad ends: all bits of ``icrc`` are to be inverted
    icrc : 2 cycles later, combinational: the ICRC as a number, its lowest byte to be sent first
    """

    latency = 2

    def __init__(self, width):
        self._lanes = width // 8
        super().__init__({
            "data": In(width),
            "first": In(1),
            "over": In(1),
            "word": In(range(self._lanes // 4)),
            "wrong": In(1),
            "icrc": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._lanes

        # First cycle: what the beat adds to a register of zero; the power for the packet.
        columns = [advance(1 << bit, lanes - lane) for lane in range(lanes) for bit in range(8)]
        added, power = Signal(32, reset_less=True), Signal(32, reset_less=True)
        m.d.sync += [
            added.eq(linear(columns, self.data)),
            power.eq(Array(Const(retreat(ONE, lanes - 4 * word - 2), 32)
                           for word in range(lanes // 4))[self.word]),
        ]
        # Second cycle: the product.
        share, product = Signal(32, reset_less=True), Signal(63)
        m.d.comb += product.eq(_product(added, power))
        wrong = delayed(m, self.wrong, 1, name="wrong")
        m.d.sync += share.eq(_remainder(product) ^ wrong.replicate(32))

        # Third cycle: the register moves on.
        first = delayed(m, self.first, self.latency, name="first")
        over = delayed(m, self.over, self.latency, name="over")
        state, now = Signal(32, reset_less=True), Signal(32)
        moved = linear([advance(1 << bit, lanes) for bit in range(32)], state)
        m.d.comb += [
            now.eq(Mux(over, state, Mux(first, 0, moved) ^ share)),
            self.icrc.eq(~now),
        ]
        m.d.sync += state.eq(now)
        return m


def _product(a, b):
    """The polynomial ``a * b``, the coefficient of x^0 first."""
    return Cat(Cat(a[31 - n] & b[31 - degree + n] for n in range(32) if 0 <= degree - n < 32).xor()
               for degree in range(63))


def _remainder(product):
    """The register that a polynomial leaves, which has the coefficient of x^0 first."""
    columns = [ONE]
    while len(columns) < len(product):
        last = columns[-1]
        columns.append(last >> 1 ^ (POLYNOMIAL if last & 1 else 0))
    return linear(columns, product)
