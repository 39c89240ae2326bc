# SPDX-License-Identifier: Apache-2.0
"""CRCs of 32 bits, bit-reflected, as steps of a register; plain data, for hardware and software."""

import functools

__all__ = ["ONE", "Crc"]

#: The polynomial 1 in a register whose highest bit is the coefficient of x^0.
ONE = 1 << 31


class Crc:
    """A CRC whose register begins with ones and is inverted in the end, its lowest byte sent first.

    Parameters
    ----------
    polynomial : int
        Bit-reflected, without x^32.

    Attributes
    ----------
    residue : the register behind a message and its own CRC, whatever the message
    """

    def __init__(self, polynomial):
        self.polynomial = polynomial
        # A message of no bytes has CRC 0.
        self.residue = self.advance(0xFFFF_FFFF, 4)

    def advance(self, state, count=1):
        """The register after ``count`` zero bytes."""
        for _ in range(8 * count):
            state = (state >> 1) ^ (self.polynomial if state & 1 else 0)
        return state

    def retreat(self, state, count=1):
        """The register that ``count`` zero bytes take to ``state``."""
        for _ in range(8 * count):
            state = (state << 1 ^ (self.polynomial << 1 | 1 if state >> 31 else 0)) & 0xFFFF_FFFF
        return state

    def columns(self, lanes):
        """What each bit of ``lanes`` bytes adds to the register."""
        return [self.advance(1 << bit, lanes - lane) for lane in range(lanes) for bit in range(8)]

    def steps(self, lanes):
        """What each bit of the register becomes after ``lanes`` zero bytes."""
        return [self.advance(1 << bit, lanes) for bit in range(32)]

    def remainders(self, degree):
        """The registers that x^0, x^1 and so on leave, up to x^(degree - 1)."""
        found = [ONE]
        while len(found) < degree:
            last = found[-1]
            found.append(last >> 1 ^ (self.polynomial if last & 1 else 0))
        return found

    def of(self, data):
        """The CRC of bytes."""
        state = 0xFFFF_FFFF
        for byte in data:
            state = state >> 8 ^ self._table[(state ^ byte) & 0xFF]
        return ~state & 0xFFFF_FFFF

    @functools.cached_property
    def _table(self):
        return [self.advance(byte) for byte in range(256)]
