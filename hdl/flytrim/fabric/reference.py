# SPDX-License-Identifier: Apache-2.0
"""What a reduction in fixed order must give, and data that shows it: on arrays, by the processor.

Sums are made by the floating-point unit of the machine this runs on, element by element in a
balanced tree over the ports; nothing here is shared with the model of the switch.
"""

import numpy as np

__all__ = ["BITS", "draw", "reduced"]

#: Elements as bits, by the name of their type.
BITS = {"fp32": np.dtype("<u4"), "int32": np.dtype("<u4"), "bf16": np.dtype("<u2"),
        "fp16": np.dtype("<u2")}
_NAN = np.uint32(0x7FC00000)
_NARROW_NAN = {"bf16": 0x7FC0, "fp16": 0x7E00}
_SIGN = np.uint32(0x80000000)
#: Share of the elements that are no common gradients.
SPECIAL_SHARE = 1 / 16
#: Bits of a sign, an exponent and a fraction, by type.
_FIELDS = {"fp32": (31, 23), "bf16": (15, 7), "fp16": (15, 10)}


def draw(rng, count, dtype):
    """Gradients: normally distributed, NaN-free; some places hold what arithmetic finds hard.

    Those places, the same at all hosts of one seed, have subnormals, zeros of both signs,
    infinities, NaNs of all kinds and numbers about to overflow. Integers are any.

    Parameters
    ----------
    rng : sequence of (numpy.random.Generator, numpy.random.Generator)
        The one that the hosts share, and the host's own.
    count : int
        Elements.
    dtype : str
        Their type.

    Returns their bits.
    """
    shared, own = rng
    kind = BITS[dtype]
    if dtype == "int32":
        return own.integers(0, 1 << 32, count, np.uint32).astype(kind)
    scale = np.float32(10.0) ** shared.integers(-3, 3, count).astype(np.float32)
    bits = _narrow((own.standard_normal(count).astype(np.float32) * scale).view(np.uint32), dtype)
    sign, fraction = _FIELDS[dtype]
    junk = own.integers(0, 1 << 32, count, np.uint32)
    sign_bit = junk & np.uint32(1 << sign)
    infinity = np.uint32((1 << sign) - (1 << fraction))
    below = junk & np.uint32((1 << fraction) - 1)
    special = np.select(
        [(choice := own.integers(0, 8, count)) < 3, choice == 3, choice == 4, choice == 5],
        [sign_bit | below,                                      # subnormals and zeros
         np.full(count, np.uint32(1 << sign)),                  # -0
         sign_bit | infinity,
         sign_bit | infinity | below],                          # NaNs, quiet and signalling
        sign_bit | infinity - np.uint32(1 << fraction) | below)     # nearly infinite
    # One kind of place has nothing but -0, whose sum is the one that is -0.
    where = shared.random(count)
    bits = np.where(where < SPECIAL_SHARE, special, bits)
    return np.where(where < SPECIAL_SHARE / 8, np.uint32(1 << sign), bits).astype(kind)


def reduced(columns, operation, dtype):
    """The bits of the result of the bits of each port, in their order."""
    with np.errstate(all="ignore"):
        if dtype == "int32":
            return _tree([each.view("<i4") for each in columns], {
                "sum": np.add, "min": np.minimum, "max": np.maximum}[operation]).view("<u4")
        wide = [_widen(each, dtype) for each in columns]
        join = _add if operation == "sum" else _extreme(operation == "max")
        return _narrow(_tree(wide, join), dtype).astype(BITS[dtype])


def _tree(columns, join):
    """Neighbour with neighbour, level by level; who has none goes up as he is."""
    while len(columns) > 1:
        columns = [join(*columns[n:n + 2]) if n + 1 < len(columns) else columns[n]
                   for n in range(0, len(columns), 2)]
    return columns[0]


def _add(a, b):
    z = a.view(np.float32) + b.view(np.float32)
    return np.where(np.isnan(z), _NAN, z.view(np.uint32))


def _extreme(largest):
    def rank(x):
        """A signed integer in the order of the numbers, -0 below +0."""
        return np.where(x & _SIGN, ~(x & ~_SIGN).astype(np.int64), x.astype(np.int64))

    def join(a, b):
        z = np.where((rank(a) > rank(b)) == largest, a, b)
        nan = np.isnan(a.view(np.float32)) | np.isnan(b.view(np.float32))
        return np.where(nan, _NAN, z)

    return join


def _widen(bits, dtype):
    """Bits of the same numbers in binary32."""
    if dtype == "fp16":
        return bits.view("<f2").astype(np.float32).view(np.uint32)
    if dtype == "bf16":
        return bits.astype(np.uint32) << np.uint32(16)
    return bits.astype(np.uint32)


def _narrow(bits, dtype):
    """Bits of the nearest number of the type, ties to even; binary32 stays as it is."""
    if dtype == "fp32":
        return bits
    nan = np.isnan(bits.view(np.float32))
    if dtype == "fp16":
        with np.errstate(all="ignore"):
            near = bits.view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        even = bits >> np.uint32(16) & np.uint32(1)
        near = (np.where(nan, 0, bits) + np.uint32(0x7FFF) + even) >> np.uint32(16)
    return np.where(nan, np.uint32(_NARROW_NAN[dtype]), near)
