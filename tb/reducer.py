# SPDX-License-Identifier: Apache-2.0
"""Beats of many children for a compiled reduction, and what must come of them."""

import numpy as np
import operands
import reduced
import softfloat
import sums
from streamed import Streamed

from flytrim.fp32.element import ElementType
from flytrim.fp32.shape import Shape
from flytrim.fp32.tree import ReductionTree

__all__ = ["Reducer"]

_NARROW = {ElementType.BF16: "bf16", ElementType.FP16: "f16"}
#: Rows in one call; what is made for them is many times as large.
ROWS = 1 << 16


class Reducer:
    """A compiled reduction and its reference, which are to agree on each bit of each cycle.

    Parameters
    ----------
    children, width, options
        As of :class:`ReductionTree`.
    """

    def __init__(self, children, width, **options):
        tree = ReductionTree(children, width, **options)
        self._shape, self._words = Shape(children, options.get("taps", 0)), width // 32
        self._sum = options.get("sum", "tree")
        self._types = list(options.get("types", (ElementType.FP32, ElementType.INT32)))
        self._half_rate = options.get("half_rate", False)
        self._latencies = tree.latencies
        self._model = Streamed(tree)

    def check(self, rng, count):
        """Run so many rows of random beats; fails at the first result that is not the expected."""
        for start in range(0, count, ROWS):
            self._check(rng, min(ROWS, count - start))

    def sums(self, valid, x):
        """(rows, words) of sums of binary32 where rows are valid; all children are present."""
        count, latency = len(x), self._latencies[0]
        rows = {name: np.zeros((count + latency, self._shape.blocks), np.uint8) for name in (
            "valid_i", "tap", "op", "type", "last_i", "error_i")}
        rows["valid_i"][:count, 0] = valid
        rows["present"] = np.ones((count + latency, self._shape.children), bool)
        rows["x"] = np.zeros((count + latency, self._shape.children, self._words), np.uint32)
        rows["x"][:count] = x
        out = self._model(**self._ports(rows))
        shown = out["valid_o"][:, 0] != 0
        assert np.array_equal(np.flatnonzero(shown), np.flatnonzero(valid) + latency)
        return out["z"][shown]

    def check_reset(self, rng):
        """Nothing of the beats before a cycle of reset comes out behind it."""
        rows = self._rows(rng, max(self._latencies))
        rows["valid_i"][:] = True
        self._model(**self._ports(rows))
        self._model.reset()
        rows["valid_i"][:] = False
        assert not self._model(**self._ports(rows))["valid_o"].any()
        self.check(rng, 1000)

    def _check(self, rng, count):
        rows = self._rows(rng, count)
        if self._half_rate:
            rows = self._spread(rows)
        # So that all of them come out.
        empty = {name: np.zeros((max(self._latencies), *each.shape[1:]), each.dtype)
                 for name, each in rows.items()}
        rows = {name: np.concatenate([each, empty[name]]) for name, each in rows.items()}
        taken = rows.pop("taken")
        out = self._model(**self._ports(rows))
        if self._half_rate:
            ready = rows["valid_i"] & ~taken == 0
            shown = out["ready_i"] >> np.arange(self._shape.blocks) & 1 != 0
            assert (shown == ready)[rows["valid_i"]].all(), "a beat is taken in the wrong cycle"
        for n, (output, latency) in enumerate(zip(
                self._shape.outputs, self._latencies, strict=True)):
            self._compare(n, output, latency, rows, taken, out)

    def _compare(self, n, output, latency, rows, taken, out):
        block, blocks = self._shape.block(*output), list(self._shape.blocks_of(*output))
        leaves = rows["tap"][:, block] == self._shape.levels - output[0]
        due = np.flatnonzero(taken[:, block] & leaves)
        valid = np.zeros(len(taken), bool)
        valid[due + latency] = True
        assert np.array_equal(out["valid_o"][:, 0] >> n & 1 != 0, valid), (
            f"output {n}: results do not come {latency} cycles behind their beats")
        for name, flag in (("last", rows["last_i"][:, block]),
                           ("error", rows["error_i"][:, blocks].any(axis=1))):
            assert np.array_equal(out[f"{name}_o"][due + latency, 0] >> n & 1, flag[due]), (
                f"output {n}: {name} is wrong")
        z = out["z"][due + latency].reshape(len(due), -1, self._words)[:, n]
        raised = np.unpackbits(out["flags"].view(np.uint8), axis=1, bitorder="little")
        for word in range(self._words):
            first = 5 * (n * self._words + word)
            flags = np.packbits(raised[due + latency, first:first + 5], axis=1,
                                bitorder="little")[:, 0]
            children = self._shape.span(*output)
            x = rows["x"][due][:, children, word]
            controls = [rows[name][due, block] for name in ("op", "type")]
            expected = self._expected(x, rows["present"][due][:, children], *controls)
            self._same((z[:, word], flags), expected, x, rows["present"][due][:, children],
                       *controls)

    def _same(self, got, expected, x, present, op, kind):
        wrong = np.flatnonzero((got[0] != expected[0]) | (got[1] != expected[1]))
        lines = [f"{len(wrong)} of {len(op)} differ"]
        for n in wrong[:4]:
            children = " ".join(f"{value:08x}" if here else "absent" for value, here in zip(
                x[n], present[n], strict=True))
            lines.append(f"operation {op[n]}, {ElementType(kind[n]).name}, {children}: expected "
                         f"{expected[0][n]:08x} {expected[1][n]:05b}, got {got[0][n]:08x} "
                         f"{got[1][n]:05b}")
        assert not len(wrong), "\n".join(lines)

    def _expected(self, x, present, op, kind):
        """(results, flags) of one word of all children."""
        z, flags = np.zeros(len(op), np.uint32), np.zeros(len(op), np.uint8)
        for each in self._types:
            rows = np.flatnonzero(kind == each.value)
            some = x[rows], present[rows], op[rows]
            if each not in _NARROW:
                z[rows], flags[rows] = self._reduced(*some, each == ElementType.INT32)
                continue
            for shift in (0, 16):
                halves = (some[0] >> np.uint32(shift)).astype(np.uint16)
                wide, widened = (each.reshape(halves.shape) for each in softfloat.widen(
                    np.ascontiguousarray(halves).reshape(-1), _NARROW[each]))
                total, raised = self._reduced(wide, *some[1:], False)
                narrow, narrowed = softfloat.narrow(total, _NARROW[each])
                z[rows] |= narrow.astype(np.uint32) << np.uint32(shift)
                flags[rows] |= raised | narrowed | np.where(some[1], widened, 0).max(axis=1)
        return z, flags

    def _reduced(self, x, present, op, integer):
        integer = np.full(len(op), integer)
        columns = [np.where(present[:, n], x[:, n], reduced.identity(op, integer))
                   for n in range(x.shape[1])]
        z, flags = reduced.tree(columns, op, integer)
        if self._sum != "tree":
            once = sums.fused if self._sum == "fused" else sums.exact
            for n in np.flatnonzero((op & reduced.EXTREME == 0) & ~integer):
                z[n], flags[n] = once([int(column[n]) for column in columns])
        return z, flags

    def _rows(self, rng, count):
        """Random beats by row: for each block of children its controls, for each child a beat."""
        shape = self._shape
        rows = {
            "valid_i": np.zeros((count, shape.blocks), bool),
            "tap": np.zeros((count, shape.blocks), np.uint8),
            "op": np.zeros((count, shape.blocks), np.uint8),
            "type": np.zeros((count, shape.blocks), np.uint8),
            "last_i": np.zeros((count, shape.blocks), bool),
            "error_i": rng.random((count, shape.blocks)) < 0.1,
            "present": rng.random((count, shape.children)) < rng.choice(
                (1.0, 1.0, 0.8, 0.3, 0.0), (count, 1)),
        }
        # A group is what a node stands for, or its halves are groups, or parts of these.
        open_to = {(shape.levels, 0): np.ones(count, bool)}
        kinds = np.array([each.value for each in self._types], np.uint8)
        for level, n in shape.outputs:
            open_here = open_to.get((level, n))
            lowest = level == shape.levels - shape.taps
            here = open_here & (lowest | (rng.random(count) < 0.4))
            for below in (2 * n, 2 * n + 1):
                open_to[level - 1, below] = open_here & ~here
            values = {"valid_i": rng.random(count) < 0.9, "op": rng.choice(
                np.array(reduced.OPERATIONS, np.uint8), count), "type": rng.choice(kinds, count),
                "last_i": rng.random(count) < 0.3, "tap": shape.levels - level}
            for block in shape.blocks_of(level, n):
                for name, value in values.items():
                    rows[name][:, block] = np.where(here, value, rows[name][:, block])
        kind = np.repeat(rows["type"], [len(shape.span(shape.levels - shape.taps, n))
                                        for n in range(shape.blocks)], axis=1)
        rows["x"] = self._numbers(rng, kind)
        rows["taken"] = rows["valid_i"].copy()
        return rows

    def _numbers(self, rng, kind):
        """Beats of children whose types are given: binary32 that is hard, 16 bits of any kind."""
        count, children = kind.shape
        shape = count, children, self._words
        size = count * -(-children // 2) * self._words
        a, b = (each.reshape(count, self._words, -1) for each in operands.pairs(rng, size))
        x = np.stack([a, b], axis=3).reshape(count, self._words, -1)[:, :, :children]
        x = np.ascontiguousarray(x.transpose(0, 2, 1))
        # Exponents that are alike, so that all operands count.
        alike = rng.integers(0, 255, (count, 1, 1)) + rng.integers(0, 12, shape)
        exponent = (alike.clip(0, 254).astype(np.uint32)) << np.uint32(23)
        x = np.where(rng.random((count, 1, 1)) < 0.4, x & ~np.uint32(0x7F800000) | exponent, x)
        halves = rng.integers(0, 1 << 32, shape, np.uint32)
        # Without the upper half of the exponents there is neither infinity nor NaN.
        halves = np.where(rng.random((count, 1, 1)) < 0.7, halves & np.uint32(0xBFFFBFFF), halves)
        narrow = np.isin(kind, [each.value for each in _NARROW])[:, :, None]
        return np.where(narrow, halves, x)

    def _spread(self, rows):
        """Each row for two cycles: beats of 16 bits stay, others are there in the first one."""
        narrow = np.isin(rows["type"], [each.value for each in _NARROW])
        twice = {name: np.repeat(each, 2, axis=0) for name, each in rows.items()}
        first, second = slice(0, None, 2), slice(1, None, 2)
        twice["valid_i"][second] &= narrow
        twice["taken"][first] &= ~narrow
        twice["taken"][second] &= narrow
        if self._shape.taps:
            return twice
        # With one block there is no need for a second cycle where nothing is.
        keep = twice["valid_i"][:, 0].copy()
        keep[first] = True
        return {name: each[keep] for name, each in twice.items()}

    def _ports(self, rows):
        shape = self._shape

        def packed(values, bits):
            """Fields of so many bits, side by side, as words."""
            values = values[:, :, None] >> np.arange(bits) & 1
            flat = np.packbits(values.reshape(len(values), -1).astype(np.uint8), axis=1,
                               bitorder="little")
            pad = -flat.shape[1] % 4
            return np.pad(flat, ((0, 0), (0, pad))).view(np.uint32)

        ports = {name: packed(rows[name], 1) for name in (
            "valid_i", "last_i", "error_i", "present")}
        ports["op"] = packed(rows["op"], 3)
        if len(self._types) > 1:
            ports["type"] = packed(rows["type"], 2)
        if shape.taps:
            ports["tap"] = packed(rows["tap"], shape.taps.bit_length())
        return ports | {"x": rows["x"].reshape(len(rows["x"]), -1)}
