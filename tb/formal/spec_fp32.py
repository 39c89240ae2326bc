# SPDX-License-Identifier: Apache-2.0
"""Adder, minimum and maximum: what holds for all operands, whatever they sum up to.

The steps are taken without registers between them: where those stand is the simulation's to check.
"""

from amaranth import Module
from proof import Fault, Proof, Spec

from flytrim.fp32.adder import Adder
from flytrim.fp32.minmax import MinMax
from flytrim.fp32.number import FP16, FP32
from flytrim.fp32.steps import run


class LooseAdder(Adder):
    """The adder's steps without registers."""

    def elaborate(self, platform):
        m = Module()
        result = run(m, self.steps, (), a=self.a, b=self.b)
        m.d.comb += [self.z.eq(result["z"]), self.flags.eq(result["flags"])]
        return m


class LooseMinMax(MinMax):
    def elaborate(self, platform):
        m = Module()
        result = run(m, (self.order, self.choose), (), a=self.a, b=self.b, op=self.op)
        m.d.comb += [self.z.eq(result["z"]), self.flags.eq(result["flags"])]
        return m


class Number:
    """Bits of a format, and plain words for them."""

    def __init__(self, fmt, bits):
        self.bits, self.negative = bits, bits[-1]
        magnitude = bits[:-1]
        self.is_nan, self.is_zero = magnitude > fmt.infinity, magnitude == 0
        self.is_finite = magnitude < fmt.infinity
        self.is_infinite = magnitude == fmt.infinity
        self.is_subnormal = (magnitude < 1 << fmt.fraction_bits) & ~self.is_zero
        #: As an integer that has the order of the numbers, with -0 right below +0.
        self.key = (bits[-1].replicate(len(bits)) & ~magnitude) | (~bits[-1]).replicate(
            len(bits)) & (magnitude | 1 << fmt.width - 1)
        self.opposite = bits ^ (1 << fmt.width - 1)


class Arithmetic(Spec):
    """Two operands that are any bits; proofs of this file are about one cycle."""

    def __init__(self, fmt):
        self.fmt = fmt

    def operand(self, name):
        return Number(self.fmt, self.anything(self.fmt.width, name))

    def add(self, a, b):
        """(sum, flags) of bits."""
        adder = LooseAdder(self.fmt)
        self.m.submodules += adder
        self.m.d.comb += [adder.a.eq(a), adder.b.eq(b)]
        return Number(self.fmt, adder.z), adder.flags


class Commutes(Arithmetic):
    def specify(self, m):
        a, b = self.operand("a"), self.operand("b")
        (z, flags), (other, other_flags) = self.add(a.bits, b.bits), self.add(b.bits, a.bits)
        self.check("sum_commutes", z.bits == other.bits)
        self.check("flags_commute", flags == other_flags)
        self.cover("inexact", flags[0] & (a.negative ^ b.negative))
        self.cover("subnormal", z.is_subnormal & (a.negative ^ b.negative))


class Negates(Arithmetic):
    def specify(self, m):
        a, b = self.operand("a"), self.operand("b")
        (z, flags), (other, other_flags) = (self.add(a.bits, b.bits),
                                            self.add(a.opposite, b.opposite))
        self.check("sum_negates", z.is_nan | z.is_zero | (z.opposite == other.bits))
        self.check("flags_stay", flags == other_flags)
        self.cover("inexact", flags[0] & (a.negative ^ b.negative))


class Zeros(Arithmetic):
    """What adding nothing, and adding the opposite, comes to."""

    def specify(self, m):
        x = self.operand("x")
        minus_zero = 1 << self.fmt.width - 1
        (z, flags), (cancelled, cancelled_flags) = (self.add(x.bits, minus_zero),
                                                    self.add(x.bits, x.opposite))
        self.check("minus_zero_adds_nothing", x.is_nan | (z.bits == x.bits))
        self.check("minus_zero_raises_nothing", x.is_nan | (flags == 0))
        self.check("cancels_to_plus_zero", ~x.is_finite | (cancelled.bits == 0))
        self.check("cancels_exactly", ~x.is_finite | (cancelled_flags == 0))
        self.cover("minus_zero_stays", x.is_zero & x.negative)
        self.cover("subnormal", x.is_subnormal)


class Ranges(Arithmetic):
    """Which operands give which results and flags."""

    def specify(self, m):
        a, b = self.operand("a"), self.operand("b")
        z, flags = self.add(a.bits, b.bits)
        inexact, underflow, overflow, division, invalid = flags
        finite = a.is_finite & b.is_finite
        self.check("finite_gives_no_nan", ~finite | ~z.is_nan)
        self.check("finite_is_valid", ~finite | ~invalid)
        self.check("never_underflows", ~underflow & ~division)
        self.check("subnormal_is_exact", ~(z.is_subnormal | z.is_zero) | ~inexact)
        self.check("nan_is_canonical", ~z.is_nan | (z.bits == self.fmt.nan))
        self.check("nan_stays", ~(a.is_nan | b.is_nan) | z.is_nan)
        self.check("overflows_to_infinity", ~overflow | (z.is_infinite & inexact & finite))
        self.check("infinity_overflowed", ~(finite & z.is_infinite) | overflow)
        self.check("infinity_stays", ~(a.is_infinite & b.is_finite) | (z.bits == a.bits))
        opposite = a.is_infinite & b.is_infinite & (a.negative ^ b.negative)
        self.check("infinities_cancel_to_nan", ~opposite | (z.is_nan & invalid))
        self.check("one_sign_stays", (a.negative ^ b.negative) | z.is_nan
                   | (z.negative == a.negative))
        self.cover("subnormal", z.is_subnormal)
        self.cover("overflow", overflow)
        self.cover("invalid", invalid & ~a.is_nan & ~b.is_nan)


class Extremes(Arithmetic):
    def specify(self, m):
        a, b, op = self.operand("a"), self.operand("b"), self.anything(2, "op")
        m.submodules.unit = unit = LooseMinMax(self.fmt)
        m.d.comb += [unit.a.eq(a.bits), unit.b.eq(b.bits), unit.op.eq(op)]
        z, greater, number = unit.z, op[0], op[1]
        numbers, both = ~a.is_nan & ~b.is_nan, a.is_nan & b.is_nan
        a_wins = (a.key > b.key) == greater
        self.check("is_one_of_both", ~numbers | (z == a.bits) | (z == b.bits))
        self.check("is_the_extreme", ~numbers | (a.bits == b.bits)
                   | ((z == a.bits) == a_wins))
        self.check("nan_wins", number | numbers | (z == self.fmt.nan))
        self.check("nan_loses_against_a", ~number | a.is_nan | ~b.is_nan | (z == a.bits))
        self.check("nan_loses_against_b", ~number | b.is_nan | ~a.is_nan | (z == b.bits))
        self.check("two_nans_are_one", ~both | (z == self.fmt.nan))
        self.check("numbers_raise_nothing", ~numbers | (unit.flags == 0))
        self.cover("zeros", a.is_zero & b.is_zero & (a.negative ^ b.negative) & (z == b.bits))
        self.cover("nan_lost", number & a.is_nan & (z == b.bits))


ADDER, MINMAX = "fp32/adder.py", "fp32/minmax.py"


def _proof(name, says, spec, fmt, *faults):
    return Proof(name=name, says=says, spec=lambda: spec(fmt), depth=1, reach=1, faults=faults,
                 solver="yices")


PROOFS = [
    _proof("fp_commutes", "a + b = b + a", Commutes, FP16,
           Fault(name="swapped operand not shifted by one", file=ADDER,
                 old="Cat(significand_a, Const(0, 1)), Cat", new="Cat(Const(0, 1), significand_a), "
                 "Cat", caught=("sum_commutes",)),
           Fault(name="negative difference without its one", file=ADDER,
                 old="self._shift_up((1, 2), shift, bits, negative)",
                 new="self._shift_up((1, 2), shift, bits, Const(0, 1))",
                 caught=("sum_commutes",))),
    _proof("fp_negates", "(-a) + (-b) = -(a + b), but for NaN and zero", Negates, FP32,
           Fault(name="sign of a only", file=ADDER,
                 old='"sign": Mux(swap, sign_b, sign_a)', new='"sign": sign_a & sign_b',
                 caught=("sum_negates",))),
    _proof("fp_zeros", "x + (-0) = x, x - x = +0", Zeros, FP32,
           Fault(name="difference of equals is minus zero", file=ADDER,
                 old="(sign ^ negative) & ~(subtract & zero)", new="(sign ^ negative)",
                 caught=("cancels_to_plus_zero",)),
           Fault(name="subnormals start an exponent too high", file=ADDER,
                 old="last = ~bits[-1] & (enough | exponent[0])", new="last = ~bits[-1] & enough",
                 caught=("minus_zero_adds_nothing",))),
    _proof("fp_ranges", "finite gives no NaN, subnormal is exact, overflow is infinite", Ranges,
           FP32,
           Fault(name="carry beyond the largest exponent", file=ADDER,
                 old="infinite = special | over", new="infinite = special",
                 caught=("overflows_to_infinity", "finite_gives_no_nan")),
           Fault(name="payload of a NaN passes", file=ADDER,
                 old="Mux(infinite, 0, z.fraction[:-1])", new="Mux(over, 0, z.fraction[:-1])",
                 caught=("nan_is_canonical",)),
           Fault(name="infinities of opposite sign add up", file=ADDER,
                 old='"nan": quiet_any | opposite,', new='"nan": quiet_any,',
                 caught=("infinities_cancel_to_nan",))),
    _proof("fp_extremes", "minimum and maximum are those of a plain comparison", Extremes, FP32,
           Fault(name="negative numbers in the order of positive ones", file=MINMAX,
                 old="less ^ sign_a", new="less", caught=("is_the_extreme",)),
           Fault(name="a NaN never loses", file=MINMAX,
                 old="Mux(number, nan_a & nan_b, nan_a | nan_b)", new="nan_a | nan_b",
                 caught=("nan_loses_against_?",))),
]
