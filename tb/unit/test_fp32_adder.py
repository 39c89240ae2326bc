# SPDX-License-Identifier: Apache-2.0
"""Adder against SoftFloat, on every bit of sum and flags."""

import functools
import gc

import arith
import harness
import numpy as np
import operands
import pytest
import softfloat
from amaranth import C, Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from flytrim.fp32.adder import Adder
from flytrim.fp32.number import FP16, Format
from flytrim.fp32.product import ValidAdder

LATENCIES = range(3, 12)
FEW = 100_000
#: So small that every pair of numbers is added.
SMALL = (Format(4, 3), Format(5, 2), Format(3, 4))
pytestmark = pytest.mark.model


@functools.cache
def adder():
    return arith.Units(Adder())


@functools.cache
def all_latencies():
    return arith.Units(*(Adder(latency=latency) for latency in LATENCIES), Watched(),
                       *(Adder(fmt, 3) for fmt in SMALL), Adder(FP16))


class Watched(wiring.Component):
    """The adder with ``valid``, which is seen as a flag."""

    latency = 5
    a: In(32)
    b: In(32)
    valid: In(1)
    z: Out(32)
    flags: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.adder = adder = ValidAdder(self.latency)
        m.d.comb += [adder.a.eq(self.a), adder.b.eq(self.b), adder.valid_i.eq(self.valid),
                     self.z.eq(adder.z), self.flags.eq(Cat(adder.flags, C(0, 2), adder.valid_o))]
        return m


def check(units, a, b, **options):
    """(sums, flags), which are those of SoftFloat."""
    got, expected = units(a, b, **options), softfloat.add(a, b)
    arith.same(got, expected, a, b)
    return got


def test_every_pair_of_special_values():
    assert len(operands.special_values()) >= 400
    check(adder(), *operands.special_pairs())


def test_many_sums(vectors):
    """What was asked for is what was met: each kind of rounding, flag and cancellation."""
    rng = np.random.default_rng(harness.seed())
    met = np.zeros(6, np.int64)
    for count in operands.blocks(vectors):
        a, b = operands.pairs(rng, count)
        z, flags = check(adder(), a, b)
        subnormal = ((z & 0x7F800000) == 0) & (z & 0x7FFFFF != 0)
        met += [np.count_nonzero(each) for each in (
            flags & 1, flags & 4, flags & 16, subnormal, z == 0, z == 0x7FC00000)]
        assert not np.any(flags & 10), "a sum neither underflows nor divides"
    assert met.min() > vectors / 1000, met


@pytest.mark.parametrize("latency", LATENCIES)
def test_every_latency(latency):
    rng = np.random.default_rng([harness.seed(), latency])
    check(all_latencies(), *operands.pairs(rng, FEW), unit=latency - LATENCIES[0])


@pytest.mark.filterwarnings("ignore::amaranth.UnusedElaboratable")
@pytest.mark.parametrize("latency", (2, 12))
def test_refuses_other_latencies(latency):
    with pytest.raises(ValueError, match="latency is 3 to 11 cycles"):
        Adder(latency=latency)
    gc.collect()


def test_valid_keeps_pace():
    rng = np.random.default_rng(harness.seed())
    a, b = operands.pairs(rng, FEW)
    valid = rng.integers(0, 2, FEW, np.uint8)
    z, flags = all_latencies()(a, b, valid, unit=len(LATENCIES))
    arith.same((z, flags & 31), softfloat.add(a, b), a, b)
    assert np.array_equal(flags >> 7, valid)


@pytest.mark.parametrize("number", range(len(SMALL)), ids=(
    f"{fmt.exponent_bits}_{fmt.fraction_bits}" for fmt in SMALL))
def test_every_pair_of_a_small_format(number):
    """Against integers: multiples of the least number, all sums of which are exact."""
    fmt = SMALL[number]
    magnitudes = np.arange(1 << fmt.width - 1)
    exponent, fraction = np.divmod(magnitudes, 1 << fmt.fraction_bits)
    multiples = np.where(exponent, (fraction | 1 << fmt.fraction_bits) << np.maximum(
        exponent, 1) - 1, fraction)
    finite = multiples[:fmt.infinity]
    bits = np.arange(1 << fmt.width, dtype=np.uint32)
    a, b = np.repeat(bits, len(bits)), np.tile(bits, len(bits))
    sign_a, sign_b = (np.where(x >> fmt.width - 1, -1, 1) for x in (a, b))
    rank_a, rank_b = (x & len(magnitudes) - 1 for x in (a, b))
    exact = sign_a * multiples[rank_a] + sign_b * multiples[rank_b]

    # The nearest of them; of two as near the even one; beyond the last as if there were one more.
    steps = np.append(finite, 2 * finite[-1] - finite[-2])
    above = np.searchsorted(steps, np.abs(exact)).clip(max=len(steps) - 1)
    below = (above - 1).clip(0)
    up, down = steps[above] - np.abs(exact), np.abs(exact) - steps[below]
    rank = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    negative = np.where(exact, exact < 0, (sign_a < 0) & (sign_b < 0))
    z = rank | negative << fmt.width - 1
    flags = np.where(rank == fmt.infinity, 5, steps[rank] != np.abs(exact))

    infinite_a, infinite_b = rank_a == fmt.infinity, rank_b == fmt.infinity
    z = np.select([infinite_a, infinite_b], [a, b], z)
    nan_a, nan_b = rank_a > fmt.infinity, rank_b > fmt.infinity
    opposite = infinite_a & infinite_b & (a != b)
    signalling = [nan & (rank < fmt.nan) for nan, rank in ((nan_a, rank_a), (nan_b, rank_b))]
    none = nan_a | nan_b | opposite
    z = np.where(none, fmt.nan, z)
    flags = np.where(none | infinite_a | infinite_b, 0, flags)
    flags = flags | 16 * (opposite | signalling[0] | signalling[1])
    arith.same(all_latencies()(a, b, unit=len(LATENCIES) + 1 + number), (z, flags), a, b)


def test_binary16():
    rng = np.random.default_rng(harness.seed())
    a, b = rng.integers(0, 1 << 16, (2, FEW), np.uint32)
    got = all_latencies()(a, b, unit=len(LATENCIES) + 1 + len(SMALL))
    arith.same(got, softfloat.add(a, b, "f16"), a, b)
