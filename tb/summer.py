# SPDX-License-Identifier: Apache-2.0
"""A sum of many operands as a compiled model that takes arrays, thousands of beats in one call."""

import ctypes
import itertools
from pathlib import Path

import numpy as np
import softfloat
import sums
from amaranth.back import verilog
from arith import built

from flytrim.sim import verilator

__all__ = ["Summer", "adds_as_softfloat"]

_TOP = "summer"


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
        last = hasattr(component, "last_i")
        text = verilog.convert(component, name=_TOP, emit_src=False, strip_internal_attrs=True)
        command = ["verilator", "--cc", "--exe", "--build", "--top-module", _TOP, "-Mdir", "obj",
                   "-o", f"lib{_TOP}.so", "--x-assign", "unique", "--x-initial", "unique", "-O3",
                   *verilator.LINT_ARGS,
                   *(arg for flag in (*verilator.MAKE_ARGS, "OPT_FAST=-O1") for arg in
                     ("-MAKEFLAGS", flag)),
                   "-CFLAGS", f"-fPIC -std=c++17 -DOPERANDS={operands} -DLAST={int(last)}",
                   "-LDFLAGS", "-shared", f"{_TOP}.v", f"{_TOP}.cpp"]
        path = built(f"obj/lib{_TOP}.so", [command], {
            f"{_TOP}.v": text, f"{_TOP}.cpp": (Path(__file__).parent / f"{_TOP}.cpp").read_text()})
        self._library = ctypes.CDLL(str(path))
        self._library.reset(8)

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
        everything = rng.integers(0, 1 << 32, (cycles + self._latency, 4 + self._operands),
                                  dtype=np.uint32)
        everything[:, 0] = 0
        everything[np.sort(rng.choice(cycles, len(records), replace=False))] = records
        out = np.zeros((len(everything), 3), dtype=np.uint32)
        self._library.run(ctypes.c_uint64(len(everything)),
                          ctypes.c_void_p(everything.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        due = np.zeros(len(everything), dtype=bool)
        due[self._latency:] = (everything[:, 0] & everything[:, 1])[:-self._latency]
        assert (out[:, 0] == due).all(), f"latency is not {self._latency} cycles"
        return [(int(z), int(flags)) for _, z, flags in out[due]]


def adds_as_softfloat(summer, rng, count):
    """Fails unless sums of two operands are SoftFloat's: all special pairs and ``count`` more."""
    pairs = [*itertools.product(sums.SPECIAL, repeat=2),
             *(sums.operands(rng, 2) for _ in range(count))]
    got = summer.run([(1, 3, pair) for pair in pairs])
    z, flags = softfloat.add(*np.array(pairs, dtype=np.uint32).T.copy())
    for pair, result, expected in zip(pairs, got, zip(z, flags, strict=True), strict=True):
        assert result == expected, [f"{x:08x}" for x in pair]
