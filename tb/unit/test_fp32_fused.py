# SPDX-License-Identifier: Apache-2.0
"""Fused sum: every bit by its definition, in any order, within its bound."""

import functools
import gc
import itertools

import harness
import pytest
import sums
from summer import Summer, adds_as_softfloat

from flytrim.fp32.fused import FusedSum

pytestmark = pytest.mark.model
#: (operands, latency or None, guard or None, share of the sums in per cent); fractions
#: take their time, so there is a sum for every five vectors.
KINDS = [(2, 1, None, 20), (3, 5, None, 20), (4, None, None, 20), (8, None, None, 28),
         (5, 9, 3, 10), (17, 7, 8, 2)]
PAIR, FOUR, EIGHT = 0, 2, 3


@functools.cache
def model(kind):
    operands, latency, guard, _ = KINDS[kind]
    return Summer(FusedSum(operands, latency=latency, guard=guard), operands)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[
    f"{operands}-operands" for operands, *_ in KINDS])
def test_a_sum_is_what_its_definition_says(rng, vectors, kind):
    operands, _, guard, share = KINDS[kind]
    beats = [(1, sums.mask(rng, operands), sums.operands(rng, operands))
             for _ in range(max(vectors * share // 500, 1))]
    for (_, mask, numbers), got in zip(
            beats, model(kind).run(beats, seed=harness.seed()), strict=True):
        assert got == sums.fused(numbers, mask, guard), (
            f"{[f'{x:08x}' for x in numbers]}, present {mask:#x}, is {got[0]:08x} {got[1]:#x}")


def test_two_operands_are_added_as_by_softfloat(rng, vectors):
    adds_as_softfloat(model(PAIR), rng, vectors // 20)


@pytest.mark.parametrize("kind, orders", [(FOUR, 24), (EIGHT, 50)], ids=["4", "8"])
def test_the_order_of_the_operands_changes_nothing(rng, kind, orders):
    operands = KINDS[kind][0]
    beats = []
    for _ in range(200):
        numbers, mask = sums.operands(rng, operands), sums.mask(rng, operands)
        every = (itertools.permutations(range(operands)) if orders == 24 else
                 (rng.sample(range(operands), operands) for _ in range(orders)))
        beats += [(1, sum((mask >> n & 1) << place for place, n in enumerate(order)),
                   [numbers[n] for n in order]) for order in every]
    got = model(kind).run(beats)
    for n in range(0, len(got), orders):
        assert len(set(got[n:n + orders])) == 1, [f"{x:08x}" for x in beats[n][2]]


def test_the_error_is_within_its_bound(rng):
    """Half a unit in the last place, and an eighth of one of the largest operand."""
    beats = []
    while len(beats) < 5000:
        numbers = sums.operands(rng, 8)
        if all(x & 0x7F800000 < 0x7F800000 for x in numbers):
            beats.append((1, 255, numbers))
    for (_, _, numbers), (z, _) in zip(beats, model(EIGHT).run(beats), strict=True):
        if z & 0x7F800000 < 0x7F800000:
            error = abs(sums.value(z) - sum(map(sums.value, numbers)))
            assert error <= sums.unit(z) / 2 + max(map(sums.unit, numbers)) / 8


def test_no_sum_overflows_on_its_way():
    largest, smallest = 0x7F7FFFFF, 1
    numbers = [largest, largest, largest ^ 1 << 31, largest ^ 1 << 31, smallest, 0, 0, 0]
    assert model(EIGHT).run([(1, 255, numbers)]) == [sums.fused(numbers)]
    numbers[4] = largest
    assert model(EIGHT).run([(1, 255, numbers)]) == [(largest, 0)]


@pytest.mark.parametrize("operands, latency, guard", [
    (1, 5, None), (65, 5, None), (4, 0, None), (4, 99, None), (4, 5, 2)])
@pytest.mark.filterwarnings("ignore::amaranth.UnusedElaboratable")
def test_what_cannot_be_built_is_refused(operands, latency, guard):
    with pytest.raises(ValueError):
        FusedSum(operands, latency=latency, guard=guard)
    gc.collect()
