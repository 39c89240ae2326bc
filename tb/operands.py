# SPDX-License-Identifier: Apache-2.0
"""Operands in binary32 that arithmetic finds hard, as arrays of bits."""

import numpy as np

__all__ = ["BLOCK", "blocks", "one_each", "pairs", "special_pairs", "special_values"]

#: Operands that are made, run and compared at a time.
BLOCK = 1 << 20

_SIGN, _EXPONENT, _FRACTION = 0x80000000, 0x7F800000, 0x007FFFFF
_EXPONENTS = (1, 2, 3, 12, 23, 24, 25, 26, 27, 64, 102, 103, 104, 112, 113, 126, 127, 128, 142, 143,
              150, 151, 152, 228, 253, 254)
_FRACTIONS = (0, 1, 2, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF)
_SUBNORMALS = (1, 2, 3, 0x200000, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF)
#: Infinity, and NaNs: two quiet ones, and signalling ones with the highest, lowest and all bits.
_NO_NUMBERS = (0x7F800000, 0x7FC00000, 0x7FFFFFFF, 0x7FA00000, 0x7F800001, 0x7FBFFFFF)


def special_values():
    """Zeros, subnormals, ends of the ranges of fractions and exponents, infinities and NaNs."""
    positive = [0, *_SUBNORMALS, *(exponent << 23 | fraction for exponent in _EXPONENTS
                                   for fraction in _FRACTIONS), *_NO_NUMBERS]
    values = np.array(positive, np.uint32)
    return np.concatenate([values, values | _SIGN])


def special_pairs():
    """Every special value with every one."""
    values = special_values()
    return np.repeat(values, len(values)), np.tile(values, len(values))


def blocks(count):
    """Sizes of the blocks that so many operands are made in."""
    return [min(BLOCK, count - start) for start in range(0, count, BLOCK)]


def pairs(rng, count):
    """So many pairs of operands: any bits, or chosen to meet in a hard way."""
    a, b = _numbers(rng, count), _numbers(rng, count)
    kind = rng.integers(0, 8, count, np.uint8)
    # Exponents so close that both operands count, or that one is but a sticky bit.
    exponent = (a & _EXPONENT).astype(np.int64) + (rng.integers(-28, 29, count) << 23)
    near = (exponent.clip(0, _EXPONENT).astype(np.uint32) | b & ~np.uint32(_EXPONENT))
    # What nearly cancels, across a power of two as well.
    opposite = (a ^ _SIGN) + rng.integers(-9, 10, count).astype(np.uint32)
    halved = opposite + (rng.integers(-1, 2, count) << 23).astype(np.uint32)
    b = np.select([kind < 3, kind == 3, kind == 4], [near, opposite, halved], b)
    # Exponents of nearly nothing, and of nearly infinity.
    low = rng.integers(0, 40, (2, count)).astype(np.uint32) << 23
    high = np.array([rng.integers(252, 255, count), rng.integers(228, 255, count)],
                    np.uint32) << 23
    a, b = (np.select([kind == 5, kind == 6], [x & ~np.uint32(_EXPONENT) | few,
                                               x & ~np.uint32(_EXPONENT) | many], x)
            for x, few, many in zip((a, b), low, high, strict=True))
    return np.ascontiguousarray(a, np.uint32), np.ascontiguousarray(b, np.uint32)


def one_each(rng, count):
    """So many single operands, most of them of 16-bit formats' range, or near a tie of them."""
    a = _numbers(rng, count)
    kind = rng.integers(0, 4, count, np.uint8)
    exponent = rng.integers(100, 146, count).astype(np.uint32) << 23
    a = np.select([kind < 2, kind == 2], [a & ~np.uint32(_EXPONENT) | exponent,
                                          a & ~np.uint32(_EXPONENT)], a)
    tie = rng.integers(0, 24, count).astype(np.uint32)
    near = (a >> tie << tie) + rng.integers(-1, 2, count).astype(np.uint32)
    return np.where(rng.integers(0, 2, count) == 0, near, a)


def _numbers(rng, count):
    """Any bits; in half of them the fraction is a run of ones and zeros, which carries run along.

    A few are special values.
    """
    bits = rng.integers(0, 1 << 32, count, np.uint32)
    run = np.uint32(_FRACTION) >> rng.integers(0, 24, count).astype(np.uint32)
    run ^= np.uint32(_FRACTION) >> rng.integers(0, 24, count).astype(np.uint32)
    kind = rng.integers(0, 32, count, np.uint8)
    bits = np.where(kind < 16, bits & ~np.uint32(_FRACTION) | run, bits)
    return np.where(kind == 16, rng.choice(special_values(), count), bits)
