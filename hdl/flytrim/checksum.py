# SPDX-License-Identifier: Apache-2.0
"""The IPv4 header checksum without a carry chain (RFC 1071).

One's complement addition is addition modulo 2^16 - 1, where a carry out of the top bit comes in at
the bottom. So three words compress to a sum and a carry word of the same width, the carry word
rotated by one, and nothing is ever lost: a tree of such compressors takes ten words to four, four
to two, in as many levels of logic as it has steps.
"""

from amaranth import Cat

__all__ = ["compress", "is_sound"]


def compress(words, target):
    """As many 16-bit ``words`` as given, compressed to ``target`` words of the same sum."""
    words = list(words)
    while len(words) > target:
        rest, groups = words, []
        while len(rest) >= 3 and len(groups) * 2 + len(rest) > target:
            (a, b, c), rest = rest[:3], rest[3:]
            carry = (a & b) | (a & c) | (b & c)
            groups += [a ^ b ^ c, Cat(carry[15], carry[:15])]
        words = groups + rest
    return words


def is_sound(a, b):
    """Whether two words left of a whole header, checksum included, add up to a sound header.

    The sum must be all ones: the words are complements of each other. The other representations of
    zero, both words all zeros or both all ones, come only from headers that are so throughout.
    """
    return (a ^ b).all()
