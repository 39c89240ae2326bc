# SPDX-License-Identifier: Apache-2.0
"""A sum of many operands as a compiled model that takes arrays, thousands of beats in one call."""

import itertools

import numpy as np
import softfloat
import sums
from streamed import Streamed

__all__ = ["Summer", "adds_as_softfloat"]


class Summer:
    """A compiled model of a sum, in reset when made.

    Parameters
    ----------
    component : FusedSum or ExactSum
    operands : int
        Of a beat.
    """

    def __init__(self, component, operands):
        self._latency, self._operands = component.latency, operands
        self._several = hasattr(component, "last_i")
        self._model = Streamed(component)

    def run(self, beats, seed=None):
        """[(z, flags)] of the sums, in order.

        Parameters
        ----------
        beats : list of (last, mask, operands)
        seed : int or None
            Of the cycles without a beat that are put in between, a fifth of all; none without it.
            There is junk on all inputs then.

        Raises ``AssertionError`` unless results come exactly ``latency`` cycles behind the last
        beats of sums.
        """
        records = np.array([(1, last, mask & 0xFFFFFFFF, mask >> 32, *numbers)
                            for last, mask, numbers in beats], dtype=np.uint32)
        rng = np.random.default_rng(seed)
        cycles = len(records) + (len(records) // 4 if seed is not None else 0)
        rows = rng.integers(0, 1 << 32, (cycles + self._latency, 4 + self._operands),
                            dtype=np.uint32)
        rows[:, 0] = 0
        rows[np.sort(rng.choice(cycles, len(records), replace=False))] = records
        words = -(-self._operands // 32)
        out = self._model(valid_i=rows[:, 0], x=rows[:, 4:], present=rows[:, 2:2 + words],
                          **({"last_i": rows[:, 1]} if self._several else {}))
        due = np.zeros(len(rows), dtype=bool)
        due[self._latency:] = (rows[:, 0] & rows[:, 1])[:-self._latency]
        assert (out["valid_o"][:, 0] == due).all(), f"latency is not {self._latency} cycles"
        return [(int(z), int(flags)) for z, flags in zip(
            out["z"][due, 0], out["flags"][due, 0], strict=True)]


def adds_as_softfloat(summer, rng, count):
    """Fails unless sums of two operands are SoftFloat's: all special pairs and ``count`` more."""
    pairs = [*itertools.product(sums.SPECIAL, repeat=2),
             *(sums.operands(rng, 2) for _ in range(count))]
    got = summer.run([(1, 3, pair) for pair in pairs])
    z, flags = softfloat.add(*np.array(pairs, dtype=np.uint32).T.copy())
    for pair, result, expected in zip(pairs, got, zip(z, flags, strict=True), strict=True):
        assert result == expected, [f"{x:08x}" for x in pair]
