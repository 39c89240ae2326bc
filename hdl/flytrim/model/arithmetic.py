# SPDX-License-Identifier: Apache-2.0
"""Reference arithmetic of reductions: bit patterns in, bit patterns out, in exact integers.

A finite number is an integer count of a power of two, so every sum here is exact until the one
rounding that its definition names. Formats are IEEE 754-2019, rounding is to nearest even, every
NaN that comes out is the canonical quiet one. Functions that can raise flags return
``(z, flags)``, with the flags of section 7.

An absent operand is one whose bit in ``present`` is clear. It counts as the operation's identity:
-0 in sums, so that a sum of -0 stays -0.
"""

from collections import namedtuple

__all__ = ["BF16", "BINARY32", "FP16", "INEXACT", "INVALID", "OVERFLOW", "UNDERFLOW", "add",
           "exact_sum", "fused_guard", "fused_sum", "int32_add", "int32_max", "int32_min",
           "maximum", "maximum_number", "minimum", "minimum_number", "narrow", "reduce",
           "tree_sum", "widen"]

INVALID, OVERFLOW, UNDERFLOW, INEXACT = 16, 4, 2, 1

_Format = namedtuple("_Format", "exponent fraction")
BINARY32, FP16, BF16 = _Format(8, 23), _Format(5, 10), _Format(8, 7)


def _infinity(form):
    return (2**form.exponent - 1) << form.fraction


def _quiet(form):
    return _infinity(form) | 1 << form.fraction - 1


def _sign(form, x):
    return x >> form.exponent + form.fraction


def _magnitude(form, x):
    return x & 2**(form.exponent + form.fraction) - 1


def _is_nan(form, x):
    return _magnitude(form, x) > _infinity(form)


def _is_signalling(form, x):
    return _is_nan(form, x) and not x >> form.fraction - 1 & 1


def _least(form):
    """The smallest subnormal is two to this."""
    return 2 - 2**(form.exponent - 1) - form.fraction


def _scale(form, x):
    """The effective exponent field: that of subnormals is 1."""
    return max(1, _magnitude(form, x) >> form.fraction)


def _count(form, x):
    """How many smallest subnormals a finite number is, with its sign."""
    exponent, fraction = divmod(_magnitude(form, x), 2**form.fraction)
    count = (fraction + 2**form.fraction) << exponent - 1 if exponent else fraction
    return -count if _sign(form, x) else count


def _rounded(form, count, unit):
    """``count * 2**unit``, not zero, to the nearest number, ties to even."""
    sign, count = (count < 0) << form.exponent + form.fraction, abs(count)

    def to_nearest(quantum):
        drop = quantum - unit
        if drop <= 0:
            return count << -drop, False
        kept, rest = divmod(count, 2**drop)
        half = 2**(drop - 1)
        return kept + (rest > half or (rest == half and kept & 1)), rest != 0

    unbounded = unit + count.bit_length() - 1 - form.fraction
    quantum = max(unbounded, _least(form))
    kept, inexact = to_nearest(quantum)
    # The leading bit of a normal number adds one to the exponent field, and so does a carry.
    z = ((quantum - _least(form)) << form.fraction) + kept
    if z >= _infinity(form):
        return sign | _infinity(form), OVERFLOW | INEXACT
    # Tiny is what is below the smallest normal number when rounded with an unbounded exponent.
    ideal, _ = to_nearest(unbounded)
    tiny = ideal.bit_length() + unbounded <= _least(form) + form.fraction
    return sign | z, (INEXACT | (UNDERFLOW if tiny else 0)) if inexact else 0


def _special_sum(operands):
    """(z, flags) of a sum with a NaN or an infinity among its operands; None where there is none.

    In any order: signalling NaNs and infinities of both signs are invalid (section 9.4).
    """
    infinity, quiet = _infinity(BINARY32), _quiet(BINARY32)
    infinities = {x for x in operands if _magnitude(BINARY32, x) == infinity}
    invalid = len(infinities) == 2 or any(_is_signalling(BINARY32, x) for x in operands)
    if len(infinities) == 2 or any(_is_nan(BINARY32, x) for x in operands):
        return quiet, INVALID if invalid else 0
    return (infinities.pop(), 0) if infinities else None


def _chosen(operands, present):
    return [x for n, x in enumerate(operands) if present is None or present >> n & 1]


def _zero(operands):
    """A sum of zero is -0 where every operand is -0, and so is a sum of nothing."""
    return 0x80000000 if all(x == 0x80000000 for x in operands) else 0


def exact_sum(operands, present=None):
    """The exact sum of binary32 numbers, rounded once.

    Flags are those of one operation on all operands; it cannot underflow.
    """
    chosen = _chosen(operands, present)
    if special := _special_sum(chosen):
        return special
    count = sum(_count(BINARY32, x) for x in chosen)
    return _rounded(BINARY32, count, _least(BINARY32)) if count else (_zero(chosen), 0)


def add(a, b):
    """``a + b`` of binary32."""
    return exact_sum((a, b))


def fused_guard(operands):
    """Guard bits of a fused sum of so many operands: its error but for the rounding is an eighth
    of a unit in the last place of the largest operand, at most."""
    return 3 + (operands - 2).bit_length()


def fused_sum(operands, present=None, guard=None):
    """The sum by one adder that aligns all operands to the largest.

    With E the largest exponent among the operands and a quantum of 2**(E - 23 - guard), each
    operand is rounded to odd at the quantum (cut towards zero, the last bit set where anything was
    cut off), all are added exactly, and the sum is rounded once. Nothing in this depends on the
    order of the operands.

    Inexact is raised where an operand or the sum is not exact; underflow where it is, too, and the
    result is smaller than the smallest normal number.
    """
    chosen = _chosen(operands, present)
    if special := _special_sum(chosen):
        return special
    guard = fused_guard(len(operands)) if guard is None else guard
    drop = max((_scale(BINARY32, x) for x in chosen), default=1) - 1
    total, cut = 0, False
    for x in chosen:
        count = _count(BINARY32, x) << guard
        kept, rest = divmod(abs(count), 2**drop)
        cut |= rest != 0
        kept |= rest != 0
        total += -kept if count < 0 else kept
    if total:
        z, flags = _rounded(BINARY32, total, _least(BINARY32) - guard + drop)
    else:
        z, flags = (0 if cut else _zero(chosen)), 0
    if cut:
        flags |= INEXACT | (UNDERFLOW if _magnitude(BINARY32, z) < 1 << 23 else 0)
    return z, flags


def _select(a, b, *, largest, number):
    """minimum, maximum, minimumNumber and maximumNumber of section 9.6."""
    nans = [_is_nan(BINARY32, x) for x in (a, b)]
    flags = INVALID if any(_is_signalling(BINARY32, x) for x in (a, b)) else 0
    if all(nans) or any(nans) and not number:
        return _quiet(BINARY32), flags
    if any(nans):
        return (b if nans[0] else a), flags

    def rank(x):
        return -1 - _magnitude(BINARY32, x) if _sign(BINARY32, x) else x

    return (max if largest else min)(a, b, key=rank), flags


def minimum(a, b):
    """The smaller one; a NaN wins."""
    return _select(a, b, largest=False, number=False)


def maximum(a, b):
    """The larger one; a NaN wins."""
    return _select(a, b, largest=True, number=False)


def minimum_number(a, b):
    """The smaller one; a NaN loses."""
    return _select(a, b, largest=False, number=True)


def maximum_number(a, b):
    """The larger one; a NaN loses."""
    return _select(a, b, largest=True, number=True)


def _signed(x):
    return x - (1 << 32) if x >> 31 else x


def int32_add(a, b):
    """Wraps, and raises nothing."""
    return (a + b) & 0xFFFFFFFF, 0


def int32_min(a, b):
    return min(a, b, key=_signed), 0


def int32_max(a, b):
    return max(a, b, key=_signed), 0


#: What an absent operand counts as.
_IDENTITIES = {add: 0x80000000, minimum: 0x7F800000, maximum: 0xFF800000,
               minimum_number: 0x7FC00000, maximum_number: 0x7FC00000,
               int32_add: 0, int32_min: 0x7FFFFFFF, int32_max: 0x80000000}


def reduce(operation, operands, present=None):
    """A function of two operands over a balanced tree, in the order of the operands.

    Neighbours are joined level by level; one without a neighbour goes up as it is. The flags are
    those of all nodes.
    """
    level = [x if present is None or present >> n & 1 else _IDENTITIES[operation]
             for n, x in enumerate(operands)]
    flags = 0
    while len(level) > 1:
        pairs = [operation(*level[n:n + 2]) for n in range(0, len(level) - 1, 2)]
        for _, raised in pairs:
            flags |= raised
        level = [z for z, _ in pairs] + level[len(pairs) * 2:]
    return level[0], flags


def tree_sum(operands, present=None):
    """The sum by a tree of additions, each of which rounds."""
    return reduce(add, operands, present)


def widen(form, x):
    """The binary32 number that a number of 16 bits is; a signalling NaN is invalid."""
    return _converted(form, BINARY32, x)


def narrow(form, x):
    """The number of 16 bits nearest to a binary32 number, ties to even."""
    return _converted(BINARY32, form, x)


def _converted(source, target, x):
    sign = _sign(source, x) << target.exponent + target.fraction
    if _is_nan(source, x):
        return _quiet(target), INVALID if _is_signalling(source, x) else 0
    if _magnitude(source, x) == _infinity(source):
        return sign | _infinity(target), 0
    count = _count(source, x)
    return _rounded(target, count, _least(source)) if count else (sign, 0)
