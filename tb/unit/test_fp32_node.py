# SPDX-License-Identifier: Apache-2.0
"""Node: each operation on each type, mixed from cycle to cycle, on every bit."""

import functools

import arith
import harness
import numpy as np
import operands
import pytest
import softfloat

from flytrim.fp32.node import Node, Operation

LATENCIES = (3, 8, 11)
EXTREME, GREATER, NUMBER = (flag.value for flag in (
    Operation.EXTREME, Operation.GREATER, Operation.NUMBER))
#: The bit of ``control`` that is ``integer``.
INTEGER = 8
pytestmark = pytest.mark.model


@functools.cache
def nodes():
    return arith.Units(*(Node(latency=latency) for latency in LATENCIES))


def expected(a, b, control):
    extreme, greater, number, integer = (control & bit != 0 for bit in (
        EXTREME, GREATER, NUMBER, INTEGER))
    least, most = np.minimum(*(x.view(np.int32) for x in (a, b))), np.maximum(
        *(x.view(np.int32) for x in (a, b)))
    whole = np.where(extreme, np.where(greater, most, least).view(np.uint32), a + b)
    (total, sum_flags), (one, one_flags) = softfloat.add(a, b), softfloat.extreme(
        a, b, greater, number)
    z = np.where(integer, whole, np.where(extreme, one, total))
    return z, np.where(integer, 0, np.where(extreme, one_flags, sum_flags))


def check(a, b, control, latency=8):
    got = nodes()(a, b, control, unit=LATENCIES.index(latency))
    arith.same(got, expected(a, b, control), a, b, control)


@pytest.mark.parametrize("control", (
    0, INTEGER, *(EXTREME | flags for flags in range(4)), INTEGER | EXTREME,
    INTEGER | EXTREME | GREATER))
def test_every_pair_of_special_values(control):
    a, b = operands.special_pairs()
    check(a, b, np.full(len(a), control, np.uint8))


@pytest.mark.parametrize("latency", LATENCIES)
def test_operations_and_types_mixed(latency):
    rng = np.random.default_rng([harness.seed(), latency])
    a, b = operands.pairs(rng, 400_000)
    check(a, b, rng.integers(0, 16, len(a), np.uint8), latency)
