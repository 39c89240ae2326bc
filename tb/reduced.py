# SPDX-License-Identifier: Apache-2.0
"""What a reduction must be: SoftFloat and integers, level by level, on arrays of elements."""

import numpy as np
import softfloat

__all__ = ["EXTREME", "GREATER", "NUMBER", "OPERATIONS", "identity", "joined", "tree"]

GREATER, NUMBER, EXTREME = 1, 2, 4
#: Sum; minimum, maximum; minimumNumber, maximumNumber.
OPERATIONS = (0, EXTREME, EXTREME | GREATER, EXTREME | NUMBER, EXTREME | NUMBER | GREATER)


def joined(a, b, op, integer):
    """(results, flags) of two operands."""
    extreme, greater, number = (op & bit != 0 for bit in (EXTREME, GREATER, NUMBER))
    least, most = np.minimum(*(x.view(np.int32) for x in (a, b))), np.maximum(
        *(x.view(np.int32) for x in (a, b)))
    whole = np.where(extreme, np.where(greater, most, least).view(np.uint32), a + b)
    (total, sum_flags), (one, one_flags) = softfloat.add(a, b), softfloat.extreme(
        a, b, greater, number)
    z = np.where(integer, whole, np.where(extreme, one, total))
    return z, np.where(integer, 0, np.where(extreme, one_flags, sum_flags)).astype(np.uint8)


def identity(op, integer):
    """What an absent child counts as."""
    greater = op & GREATER != 0
    of_integers = np.where(op & EXTREME == 0, 0, np.where(greater, 0x80000000, 0x7FFFFFFF))
    of_numbers = np.where(op & EXTREME == 0, 0x80000000, np.where(
        op & NUMBER != 0, 0x7FC00000, np.where(greater, 0xFF800000, 0x7F800000)))
    return np.where(integer, of_integers, of_numbers).astype(np.uint32)


def tree(columns, op, integer):
    """(results, flags) of operands over a balanced tree, neighbour with neighbour."""
    flags = np.zeros(len(op), np.uint8)
    while len(columns) > 1:
        pairs = [joined(columns[n], columns[n + 1], op, integer)
                 for n in range(0, len(columns) - 1, 2)]
        for _, raised in pairs:
            flags |= raised
        columns = [z for z, _ in pairs] + columns[2 * len(pairs):]
    return columns[0], flags
