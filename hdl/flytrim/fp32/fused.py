# SPDX-License-Identifier: Apache-2.0
"""Fused sum: many operands aligned to the largest, added in one go, rounded once."""

from amaranth import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.utils import ceil_log2

from ..logic import delayed
from .number import FP32
from .pipeline import Pipeline, shortest, spread
from .round import Overrides, deliver, round_delays, sum_members

__all__ = ["FusedSum"]

#: Of the logic between registers where no latency is asked for, in nanoseconds without what the
#: registers and the way to them take: 240 MHz on ECP5.
LONGEST = 4.0


class FusedSum(wiring.Component):
    """The sum of many binary32 numbers, one a cycle, rounded once; in any order the same bits.

    With E the largest exponent among the operands and a quantum of 2**(E - 23 - guard), each
    operand is rounded to odd at the quantum: cut towards zero, and its last bit set where anything
    was cut off. These are added exactly in two's complement, and the sum is rounded to nearest,
    ties to even. An operand is cut by itself and integers are added, so the order does not matter.

    With n operands the result differs from the exact sum by half a unit in its own last place at
    most, and by less than (n - 1) 2**-guard units in the last place of the **largest operand**;
    with the guard bits that are the default the latter is an eighth of such a unit. Where the sum
    is not smaller than the largest operand that is 0.625 units in its last place. Where operands
    cancel, the error stays as it is while the result gets smaller, so relative to the result it has
    no bound, as with any sum but the exact one. The sum is the exact one, rounded once, where the
    last bits of the operands lie ``guard`` places apart at most; of two operands it always is: that
    is the addition of IEEE 754-2019. No operand order makes it overflow on its way.

    NaNs and infinities are as in IEEE 754-2019, section 9.4: a NaN operand, or infinities of both
    signs, give the canonical NaN; the latter and a signalling NaN raise invalid. Inexact is raised
    where an operand was cut or the sum is rounded, underflow where an operand was cut and the
    result is smaller than the smallest normal number, overflow where it is rounded to infinity.

    One sum a cycle, ``latency`` cycles later, without a stall.

    Parameters
    ----------
    operands : int
        2 to 64.
    latency : int or None
        Cycles, from 1; None for about 210 MHz on ECP5 (13 with 8 operands; 15 reach 230 MHz).
    guard : int or None
        Bits below the last place of the largest operand, from 3; None for 3 + log2(operands - 1),
        rounded up.

    Members
    -------
    valid_i, valid_o : whether there is a sum in this cycle
    x : operands
    present : a bit for each; those that are absent count as -0, which adds nothing to any sum
    z : sum; -0 where every operand is -0 or absent
    flags : from bit 4: invalid, 0, overflow, underflow, inexact
    """

    def __init__(self, operands, *, latency=None, guard=None):
        if not 2 <= operands <= 64:
            raise ValueError(f"a fused sum has 2 to 64 operands, not {operands!r}")
        self._operands, self._levels = operands, ceil_log2(operands)
        guard = 3 + ceil_log2(operands - 1) if guard is None else guard
        if guard < 3:
            raise ValueError(f"a fused sum has 3 guard bits or more, not {guard!r}")
        self._guard = guard
        self._width = FP32.significand_bits + self._guard
        self._stages = self._width.bit_length()
        self._reach = self._width + self._levels
        self._delays = [4.0, *[2.8] * (self._levels - 1), 2.8, *[1.0] * (self._stages - 1), 2.0,
                        *[2.0] * self._levels, *round_delays(self._reach)]
        self.latency = shortest(self._delays, LONGEST) if latency is None else latency
        spread(self._delays, self.latency)
        super().__init__(sum_members(operands))

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self._delays, self.latency)
        numbers = [self.x[n] for n in range(self._operands)]

        leading = [number.exponent.any() for number in numbers]
        # The exponent of a subnormal number is that of the smallest normal one.
        scales = [pipe.keep(f"scale_{n}", number.exponent | ~leading[n])
                  for n, number in enumerate(numbers)]
        significands = [pipe.keep(f"significand_{n}", Cat(number.fraction, leading[n]))
                        for n, number in enumerate(numbers)]
        signs = [pipe.keep(f"sign_{n}", number.sign) for n, number in enumerate(numbers)]
        present = [pipe.keep(f"present_{n}", self.present[n]) for n in range(self._operands)]
        largest, overrides = self._largest(pipe, numbers, scales, present)

        shifts = []
        for n, scale in enumerate(scales):
            distance = (largest() - scale())[:FP32.exponent_bits]
            far = distance[self._stages:].any()
            shifts.append(pipe.keep(
                f"shift_{n}", distance[:self._stages] | far.replicate(self._stages)))
        limit = pipe.keep("limit", largest() + (self._levels - 1))

        # All signs are taken relative to the first one, so that there is a carry for each negation.
        turned = [pipe.keep(f"turned_{n}", sign() ^ signs[0]()) for n, sign in enumerate(signs)]
        values, cuts = self._align(pipe, significands, shifts, present, turned)
        total, cut = self._add(pipe, values, turned, cuts)
        deliver(m, pipe, self, total=total, limit=limit, reach=self._reach, overrides=overrides,
                cut=cut, reversed_sign=signs[0])
        m.d.comb += self.valid_o.eq(
            delayed(m, self.valid_i, self.latency, name="valid", reset=True))
        return m

    def _largest(self, pipe, numbers, scales, present):
        """The largest exponent of those present, and what the operands override."""
        overrides = None
        nodes = list(zip(present, scales, strict=True))
        while len(nodes) > 1:
            joined = []
            for n in range(0, len(nodes) - 1, 2):
                (a_here, a), (b_here, b) = nodes[n:n + 2]
                b_counts = b_here() & (~a_here() | (b() > a()))
                joined.append((pipe.keep(f"here_{n}", a_here() | b_here()),
                               pipe.keep(f"largest_{n}", Mux(b_counts, b(), a()))))
            nodes = joined + nodes[2 * len(joined):]
            if overrides:
                pipe.step()
            else:
                overrides = Overrides(pipe, numbers, self.present)
        return nodes[0][1], overrides

    def _align(self, pipe, significands, shifts, present, turned):
        """What to add for each operand, and whether bits of it were cut off.

        The significand at its place below the largest; its last bit is set where anything was cut
        off below; complemented where it is to be subtracted, which leaves one to be added.
        """
        values, cuts = [], [None] * self._operands
        pipe.step()
        for significand, here in zip(significands, present, strict=True):
            values.append(Cat(Const(0, self._guard), significand() & here().replicate(
                FP32.significand_bits)))
        for stage in reversed(range(self._stages)):
            for n, (value, shift) in enumerate(zip(values, shifts, strict=True)):
                moves = shift()[stage]
                lost = moves & value[:1 << stage].any()
                cuts[n] = lost | cuts[n]() if cuts[n] else lost
                values[n] = Mux(moves, value >> (1 << stage), value)
            if stage:
                cuts = [pipe.keep(f"cut_{n}", cut) for n, cut in enumerate(cuts)]
                values = [pipe.keep(f"aligned_{n}", value) for n, value in enumerate(values)]
                pipe.step()
                values = [value() for value in values]
        return [pipe.keep(f"addend_{n}", Cat((value | cut) ^ sign().replicate(len(value)), sign()))
                for n, (value, cut, sign) in enumerate(zip(values, cuts, turned, strict=True))], [
                    pipe.keep(f"cut_{n}", cut) for n, cut in enumerate(cuts)]

    def _add(self, pipe, values, turned, cuts):
        """The sum of all, by levels, and whether bits of any were cut off.

        Each addition has room for a carry into its last place; an operand that was complemented
        takes the next one that is free. The first one never is, so there are as many as it takes.
        """
        nodes = [(value, [sign]) for value, sign in zip(values, turned, strict=True)]
        nodes[0] = values[0], []
        cut = None
        for level in range(self._levels):
            pipe.step()
            if not level:
                cut = pipe.keep("cut", Cat(each() for each in cuts).any())
            joined = []
            for n in range(0, len(nodes) - 1, 2):
                (a, a_open), (b, b_open) = nodes[n:n + 2]
                carry, *still_open = a_open + b_open
                total = Cat(1, a()).as_signed() + Cat(carry(), b()).as_signed()
                joined.append((pipe.keep(f"total_{n}", total[1:].as_signed()), still_open))
            nodes = joined + nodes[2 * len(joined):]
        return nodes[0][0], cut
