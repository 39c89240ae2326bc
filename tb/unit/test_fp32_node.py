# SPDX-License-Identifier: Apache-2.0
"""Node: each operation on each type, mixed from cycle to cycle, on every bit."""

import functools

import arith
import harness
import numpy as np
import operands
import pytest
import reduced

from flytrim.fp32.node import Node

LATENCIES = (3, 8, 11)
#: The bit of ``control`` that is ``integer``.
INTEGER = 8
pytestmark = pytest.mark.model


@functools.cache
def nodes():
    return arith.Units(*(Node(latency=latency) for latency in LATENCIES))


def check(a, b, control, latency=8):
    got = nodes()(a, b, control, unit=LATENCIES.index(latency))
    arith.same(got, reduced.joined(a, b, control, control & INTEGER != 0), a, b, control)


@pytest.mark.parametrize("control", (
    *reduced.OPERATIONS, *(INTEGER | op for op in reduced.OPERATIONS[:3])))
def test_every_pair_of_special_values(control):
    a, b = operands.special_pairs()
    check(a, b, np.full(len(a), control, np.uint8))


@pytest.mark.parametrize("latency", LATENCIES)
def test_operations_and_types_mixed(latency):
    rng = np.random.default_rng([harness.seed(), latency])
    a, b = operands.pairs(rng, 400_000)
    check(a, b, rng.integers(0, 16, len(a), np.uint8), latency)
