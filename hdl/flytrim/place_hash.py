# SPDX-License-Identifier: Apache-2.0
"""The hash of the flow table: which places of the table a key may stand in."""

import functools
import hashlib
import operator

__all__ = ["BANKS", "PlaceHash"]

#: A key has one place in each bank.
BANKS = 4

_SEED = b"flytrim flow hash 1"
#: Bits of the digest; a multiple of the two numbers below.
_DIGEST_BITS = 60
#: Digest bits that a key bit reaches.
_WEIGHT = 5
#: What one lookup table of an FPGA takes.
_INPUTS = 6


class PlaceHash:
    """Key to one place in each bank; fixed for all time by the seed above.

    The digest is linear. A hash that was linear throughout would send a regular set of keys, say
    all pairs of 64 addresses and 64 queue pairs, to half the places of a bank or fewer, so two
    rounds that are not linear stand behind it. Depth in 6-input tables: digest 2, places 2.

    The functions take and give lists of bits, least significant first. They use ``^``, ``&`` and
    ``|`` alone, so bits may be Amaranth values, the integers 0 and 1, or NumPy arrays of those.

    Parameters
    ----------
    key_bits : int
        At most 432, as deep as two levels of tables reach.
    place_bits : int
        Bits of the number of a place in its bank.
    """

    def __init__(self, key_bits, place_bits):
        deal = _deal(_SEED)
        reached = [next(deal) for _ in range(key_bits * _WEIGHT)]
        self._digest = [[n // _WEIGHT for n, bit in enumerate(reached) if bit == each]
                        for each in range(_DIGEST_BITS)]
        self._mixed = [[next(deal) for _ in range(_INPUTS)] for _ in range(_DIGEST_BITS)]
        # Dealt for the largest table whatever the size, bit by bit.
        self._places = [[[next(deal) for _ in range(_INPUTS)] for _ in range(BANKS)]
                        for _ in range(place_bits)]

    def digest(self, key):
        return [_tree([key[n] for n in inputs]) for inputs in self._digest]

    def places(self, digest):
        """A list of bits for each bank."""
        mixed = [_mix(*(digest[n] for n in inputs)) for inputs in self._mixed]
        return [[_mix(*(mixed[n] for n in banks[bank])) for banks in self._places]
                for bank in range(BANKS)]


def _deal(seed):
    """Numbers below ``_DIGEST_BITS``, each once before any comes again, in random order."""
    for count in range(1 << 16):
        draw = hashlib.shake_128(seed + count.to_bytes(2, "little")).digest(8 * _DIGEST_BITS)
        yield from sorted(range(_DIGEST_BITS), key=lambda n: draw[8 * n:8 * n + 8])


def _mix(a, b, c, d, e, f):
    return a ^ b ^ (c & d) ^ (e | f)


def _tree(bits):
    """Exclusive or of all, in trees of six."""
    while len(bits) > 1:
        bits = [functools.reduce(operator.xor, bits[n:n + _INPUTS])
                for n in range(0, len(bits), _INPUTS)]
    return bits[0]
