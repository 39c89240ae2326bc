# SPDX-License-Identifier: Apache-2.0
"""What sums of binary32 numbers must be, in fractions; and operands that try them hard."""

import functools
import math
import struct
from fractions import Fraction

__all__ = ["SPECIAL", "exact", "fused", "mask", "operands", "unit", "value"]

NAN, INFINITY, MINUS_ZERO = 0x7FC00000, 0x7F800000, 0x80000000
INVALID, OVERFLOW, UNDERFLOW, INEXACT = 16, 4, 2, 1
_POSITIVE = (0x00000000, 0x00000001, 0x00000002, 0x00400000, 0x007FFFFF, 0x00800000, 0x00800001,
             0x00FFFFFF, 0x01000000, 0x33800000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x4B800000,
             0x7EFFFFFF, 0x7F000000, 0x7F7FFFFE, 0x7F7FFFFF, INFINITY, 0x7F800001, 0x7FBFFFFF, NAN,
             0x7FC00001, 0x7FFFFFFF)
#: Zeros, the ends of the subnormal, normal and infinite ranges, quiet and signalling NaNs.
SPECIAL = (*_POSITIVE, *(x | MINUS_ZERO for x in _POSITIVE))
_NORMAL_LEAST = Fraction(1, 2**126)


def _float(x):
    return struct.unpack(">f", x.to_bytes(4, "big"))[0]


@functools.lru_cache(1 << 16)
def value(x):
    """The fraction that a finite number is."""
    return Fraction(_float(x))


def unit(x):
    """A unit in the last place of a finite number, as a fraction."""
    return Fraction(2) ** (max(_exponent(x), -126) - 23)


def _exponent(x):
    """Of the leading bit; far down for zero."""
    number = _float(x)
    return math.frexp(number)[1] - 1 if number else -1000


def _size(x):
    """The value of a non-negative number; infinity counts as the next power of two."""
    return Fraction(2**128) if x == INFINITY else value(x)


def _nearest(number):
    """The bits nearest to a fraction that is not zero, ties to even."""
    size = abs(number)
    if size >= 2**128:
        near = INFINITY
    else:
        try:
            near = int.from_bytes(struct.pack(">f", float(size)), "big")
        except OverflowError:
            near = INFINITY
    # Two roundings may have missed by one; so look at the neighbours.
    candidates = range(max(near - 1, 0), min(near + 1, INFINITY) + 1)
    best = min(candidates, key=lambda x: (abs(_size(x) - size), x & 1))
    return best | (MINUS_ZERO if number < 0 else 0)


def _special(chosen):
    """(bits, flags) where an operand is a NaN or infinite, else None."""
    numbers = [_float(x) for x in chosen]
    both = math.inf in numbers and -math.inf in numbers
    signalling = any(math.isnan(number) and not x & 0x400000
                     for x, number in zip(chosen, numbers, strict=True))
    if both or any(math.isnan(number) for number in numbers):
        return NAN, INVALID if both or signalling else 0
    if infinite := [x for x, number in zip(chosen, numbers, strict=True) if math.isinf(number)]:
        return infinite[0], 0
    return None


def _of(total, zero):
    """(bits, flags) of a sum that is to be rounded once; ``zero`` is what a sum of zero is."""
    if not total:
        return zero, 0
    z = _nearest(total)
    if z & ~MINUS_ZERO == INFINITY:
        return z, OVERFLOW | INEXACT
    return z, INEXACT if value(z) != total else 0


def _present(operands, present):
    return [x for n, x in enumerate(operands) if present >> n & 1]


def _zero(chosen):
    return MINUS_ZERO if all(x == MINUS_ZERO for x in chosen) else 0


def exact(operands, present=-1):
    """(bits, flags) of the exact sum, rounded once."""
    chosen = _present(operands, present)
    return _special(chosen) or _of(sum(map(value, chosen)), _zero(chosen))


def fused(operands, present=-1, guard=None):
    """(bits, flags) of the sum of operands that were rounded to odd.

    The quantum lies ``guard`` bits below a unit in the last place of the largest operand.
    """
    chosen = _present(operands, present)
    if special := _special(chosen):
        return special
    if guard is None:
        guard = 3 + math.ceil(math.log2(max(len(operands) - 1, 1)))
    quantum = max(map(unit, chosen), default=Fraction(1, 2**149)) / 2**guard
    total, cut = 0, False
    for x in chosen:
        steps = abs(value(x)) / quantum
        whole = math.floor(steps)
        if steps != whole:
            whole, cut = whole | 1, True
        total += -whole if value(x) < 0 else whole
    z, flags = _of(total * quantum, 0 if cut else _zero(chosen))
    if cut:
        flags |= INEXACT
        if z & ~MINUS_ZERO < INFINITY and abs(value(z)) < _NORMAL_LEAST:
            flags |= UNDERFLOW
    return z, flags


def _fraction(rng):
    kind = rng.randrange(6)
    if kind < 3:
        return rng.getrandbits(23)
    if kind == 3:
        return 1 << rng.randrange(23)
    return 0x7FFFFF ^ (1 << rng.randrange(23) if kind == 4 else 0)


def operands(rng, count):
    """Operands with exponents that are equal, close or far; that cancel; that are special."""
    kind = rng.randrange(16)
    if kind == 0:
        return [rng.getrandbits(32) for _ in range(count)]
    if kind == 1:
        return [rng.choice(SPECIAL) for _ in range(count)]
    spread = rng.choice((0, 1, 2, 4, 8, 24, 28, 32, 40, 64, 254))
    base = rng.choice((0, 1, 254 - spread, rng.randint(0, 254)))
    signs = rng.choice((0, 1, 2, 2, 2, 2))
    chosen = []
    for _ in range(count):
        exponent = min(max(base + rng.randint(0, spread), 0), 254)
        sign = rng.getrandbits(1) if signs == 2 else signs
        chosen.append(sign << 31 | exponent << 23 | _fraction(rng))
    if kind < 9:
        # Some cancel others, wholly or but for the last bits; what remains is small.
        for n in range(0, count - 1 - rng.randrange(2), 2):
            if rng.random() < 0.8:
                chosen[n + 1] = chosen[n] ^ MINUS_ZERO
                if rng.random() < 0.3:
                    chosen[n + 1] ^= 1 << rng.randrange(4)
    if kind == 9:
        chosen[rng.randrange(count)] = rng.choice(SPECIAL)
    rng.shuffle(chosen)
    return chosen


def mask(rng, count):
    """Which operands are present: mostly all, sometimes none."""
    everything = (1 << count) - 1
    return rng.choice((everything, everything, everything, rng.getrandbits(count),
                       rng.getrandbits(count), 1 << rng.randrange(count), 0))
