# SPDX-License-Identifier: Apache-2.0
"""How far up a leading one goes, where an exponent may set a limit."""

from amaranth import Cat, Const, Mux

__all__ = ["lead"]


def lead(levels, bits, exponent, enough, wanted):
    """Bits of the shift that brings the leading one to the top, and ``enough``.

    A bit is set where that many of the topmost bits are zero, shifted by the bits above it, and
    the exponent leaves room for it. So the limit costs no comparison, only a bit of the exponent a
    level: where the room is less than the zeros, all that remains of the exponent is shifted.

    Parameters
    ----------
    levels : sequence of int
        Binary logarithms of the steps, the largest first.
    bits : Value
        Not shifted by any of them yet.
    exponent : Value
        The limit: a shift is as far as this at most, by all levels together.
    enough : Value
        The exponent is known to be more than what is still to be shifted.
    wanted : Value
        Nothing is shifted where it is zero.
    """
    shift = []
    for level in levels:
        zero = _zero(bits, levels[:len(shift)], shift, 1 << level) & wanted
        room = exponent[level] if level < len(exponent) else Const(0, 1)
        shift.append(zero & (enough | room))
        enough = enough | (room & ~zero)
    return Cat(reversed(shift)), enough


def _zero(bits, levels, shift, count):
    """Whether the topmost ``count`` bits are zero once shifted up."""
    if not levels:
        return ~bits[max(0, len(bits) - count):].any()
    moved = bits[:max(0, len(bits) - (1 << levels[0]))]
    return Mux(shift[0], _zero(moved, levels[1:], shift[1:], count),
               _zero(bits, levels[1:], shift[1:], count))
