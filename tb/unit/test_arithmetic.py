# SPDX-License-Identifier: Apache-2.0
"""The reference arithmetic, against Berkeley SoftFloat and against fractions."""

import itertools
from fractions import Fraction

import pytest
import softfloatpy
import sums

from flytrim.model import arithmetic

PAIRS = 100_000


def softfloat(function, *operands):
    """(bits, flags) of one of SoftFloat's functions, NaNs made canonical."""
    softfloatpy.set_exception_flags(0)
    z = function(*operands)
    bits = int.from_bytes(z.to_bytes(), "big")
    return bits, int(softfloatpy.get_exception_flags())


def binary32(x):
    return softfloatpy.Float32.from_bytes(x.to_bytes(4, "big"))


def canonical(bits, exponent, fraction):
    infinity = (2**exponent - 1) << fraction
    if bits & 2**(exponent + fraction) - 1 > infinity:
        return infinity | 1 << fraction - 1
    return bits


def pairs(rng):
    yield from itertools.product(sums.SPECIAL, repeat=2)
    for _ in range(PAIRS):
        yield sums.operands(rng, 2)


def test_an_addition_is_that_of_softfloat(rng):
    for a, b in pairs(rng):
        z, flags = softfloat(softfloatpy.f32_add, binary32(a), binary32(b))
        expected = canonical(z, 8, 23), flags
        assert arithmetic.add(a, b) == expected, f"{a:08x} + {b:08x}"
        assert arithmetic.fused_sum((a, b)) == expected, f"{a:08x} + {b:08x}, fused"


def test_sums_are_those_of_fractions(rng):
    for count in (1, 2, 3, 4, 5, 8, 16, 64):
        for _ in range(1500):
            operands, present = sums.operands(rng, count), sums.mask(rng, count)
            text = f"{[f'{x:08x}' for x in operands]}, present {present:#x}"
            assert arithmetic.exact_sum(operands, present) == sums.exact(operands, present), text
            guard = rng.choice((None, 3, 8, 24))
            assert (arithmetic.fused_sum(operands, present, guard)
                    == sums.fused(operands, present, guard)), f"{text}, guard {guard}"


def test_a_tree_adds_neighbours():
    one, half_ulp = 0x3F800000, 0x33800000
    # (1 + u/2) + (u/2 + 0) loses both halves of a unit, and (1 + 0) + (u/2 + u/2) none.
    assert arithmetic.tree_sum((one, half_ulp, half_ulp, 0)) == (one, arithmetic.INEXACT)
    assert arithmetic.tree_sum((one, 0, half_ulp, half_ulp)) == (one + 1, 0)
    assert arithmetic.tree_sum((half_ulp, half_ulp, one)) == (one + 1, 0)
    assert arithmetic.tree_sum((half_ulp, one, half_ulp), present=0b101) == (0x34000000, 0)
    assert arithmetic.tree_sum((1, 2, 3), present=0) == (0x80000000, 0)


@pytest.mark.parametrize("largest", (False, True))
@pytest.mark.parametrize("number", (False, True))
def test_minimum_and_maximum_by_value(rng, largest, number):
    operation = {(False, False): arithmetic.minimum, (True, False): arithmetic.maximum,
                 (False, True): arithmetic.minimum_number,
                 (True, True): arithmetic.maximum_number}[largest, number]
    for a, b in itertools.islice(pairs(rng), 40_000):
        z, flags = operation(a, b)
        x, y = binary32(a), binary32(b)
        signalling = softfloatpy.f32_is_signaling_nan(x) or softfloatpy.f32_is_signaling_nan(y)
        assert flags == (arithmetic.INVALID if signalling else 0)
        numbers = [bits for bits, value in ((a, x), (b, y)) if not softfloatpy.f32_is_nan(value)]
        if not numbers or len(numbers) == 1 and not number:
            assert z == 0x7FC00000
        elif len(numbers) == 1:
            assert z == numbers[0]
        elif softfloatpy.f32_eq(x, y):
            # The same number, or zeros, of which -0 is the smaller one.
            assert z == ((a & b) if largest else (a | b))
        else:
            assert z == (a if softfloatpy.f32_lt(x, y) != largest else b)


def test_integers(rng):
    for _ in range(1000):
        a, b = rng.getrandbits(32), rng.choice((rng.getrandbits(32), 0x7FFFFFFF, 0x80000000, 0))
        x, y = (int.from_bytes(v.to_bytes(4, "big"), "big", signed=True) for v in (a, b))
        assert arithmetic.int32_add(a, b) == ((x + y) % 2**32, 0)
        assert arithmetic.int32_min(a, b) == (min(x, y) % 2**32, 0)
        assert arithmetic.int32_max(a, b) == (max(x, y) % 2**32, 0)


@pytest.mark.parametrize("operation, nothing", [
    ("add", 0x80000000), ("minimum", 0x7F800000), ("maximum", 0xFF800000),
    ("minimum_number", 0x7FC00000), ("maximum_number", 0x7FC00000), ("int32_add", 0),
    ("int32_min", 0x7FFFFFFF), ("int32_max", 0x80000000)])
def test_what_is_absent_changes_nothing(rng, operation, nothing):
    function = getattr(arithmetic, operation)
    assert arithmetic.reduce(function, (1, 2, 3), present=0) == (nothing, 0)
    for _ in range(2000):
        operands = sums.operands(rng, 5)
        n = rng.randrange(5)
        z, flags = arithmetic.reduce(function, operands, present=1 << n)
        expected = operands[n]
        if not operation.startswith("int") and expected & 0x7FFFFFFF > 0x7F800000:
            expected = 0x7FC00000
        assert z == expected
        assert flags in (0, arithmetic.INVALID)


@pytest.mark.parametrize("form, name, exponent, fraction", [
    (arithmetic.FP16, "f16", 5, 10), (arithmetic.BF16, "bf16", 8, 7)])
def test_conversions_are_those_of_softfloat(rng, form, name, exponent, fraction):
    kind = {"f16": softfloatpy.Float16, "bf16": softfloatpy.BFloat16}[name]
    wide = getattr(softfloatpy, f"{name}_to_f32")
    for x in range(1 << 16):
        z, flags = softfloat(wide, kind.from_bytes(x.to_bytes(2, "big")))
        assert arithmetic.widen(form, x) == (canonical(z, 8, 23), flags), f"{x:04x}"
    narrow = getattr(softfloatpy, f"f32_to_{name}")
    for x in itertools.chain(sums.SPECIAL, (x for _ in range(PAIRS // 2)
                                            for x in sums.operands(rng, 2))):
        z, flags = softfloat(narrow, binary32(x))
        assert arithmetic.narrow(form, x) == (canonical(z, exponent, fraction), flags), f"{x:08x}"


def test_the_bound_of_a_fused_sum_is_honest(rng):
    """Rounding, and an eighth of a unit in the last place of the largest operand."""
    worst = Fraction(0)
    for count in (2, 3, 8, 16):
        for _ in range(3000):
            operands = [x for x in sums.operands(rng, count) if x & 0x7F800000 < 0x7F800000]
            z, _ = arithmetic.fused_sum(operands, guard=arithmetic.fused_guard(count))
            if z & 0x7FFFFFFF < 0x7F800000:
                error = abs(sums.value(z) - sum(map(sums.value, operands)))
                largest = max(map(sums.unit, operands), default=Fraction(0))
                assert error <= sums.unit(z) / 2 + largest / 8
                worst = max(worst, error / max(sums.unit(z), largest or 1))
    assert worst > Fraction(1, 2)
