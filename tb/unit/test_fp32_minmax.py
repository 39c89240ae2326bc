# SPDX-License-Identifier: Apache-2.0
"""Minimum and maximum against SoftFloat's comparison, on every bit."""

import functools

import arith
import harness
import numpy as np
import operands
import pytest
import softfloat

from flytrim.fp32.minmax import MinMax

LATENCIES = (1, 2, 8)
pytestmark = pytest.mark.model


@functools.cache
def units():
    return arith.Units(*(MinMax(latency=latency) for latency in LATENCIES))


def check(a, b, op, unit):
    expected = softfloat.extreme(a, b, op & 1 != 0, op & 2 != 0)
    arith.same(units()(a, b, op, unit=unit), expected, a, b, op)


@pytest.mark.parametrize("op", range(4), ids=(
    "minimum", "maximum", "minimum_number", "maximum_number"))
def test_every_pair_of_special_values(op):
    a, b = operands.special_pairs()
    check(a, b, np.full(len(a), op, np.uint8), unit=1)


@pytest.mark.parametrize("unit", range(len(LATENCIES)), ids=map(str, LATENCIES))
def test_many(unit):
    rng = np.random.default_rng([harness.seed(), unit])
    a, b = operands.pairs(rng, 300_000)
    check(a, b, rng.integers(0, 4, len(a), np.uint8), unit)
