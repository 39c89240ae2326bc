# SPDX-License-Identifier: Apache-2.0
"""Exact sum: the sum itself, rounded once, in any order and over any number of beats."""

import functools
import gc
import itertools

import harness
import pytest
import sums
from summer import Summer, adds_as_softfloat

from flytrim.fp32.exact import ExactSum

pytestmark = pytest.mark.model
#: (operands of a beat, beats, latency or None, share of the sums in per cent); fractions
#: take their time, so there is a sum for every five vectors.
KINDS = [(2, 1, 1, 20), (4, 1, None, 25), (8, 1, None, 25), (1, 8, None, 15), (3, 5, 8, 10),
         (2, 256, None, 5)]
PAIR, FOUR, EIGHT, SERIAL, _, LONG = range(6)


@functools.cache
def model(kind):
    operands, beats, latency, _ = KINDS[kind]
    return Summer(ExactSum(operands, beats=beats, latency=latency), operands)


def beats_of(numbers, mask, width):
    """The beats of one sum, so many operands each."""
    count = len(numbers) // width
    return [(n == count - 1, mask >> n * width & (1 << width) - 1, numbers[n * width:][:width])
            for n in range(count)]


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[
    f"{beats}x{operands}-operands" for operands, beats, *_ in KINDS])
def test_a_sum_is_exact_and_rounded_once(rng, vectors, kind):
    width, most, _, share = KINDS[kind]
    trials = []
    while len(trials) < max(vectors * share // 500 // most, 1):
        count = width * rng.randint(1, most)
        trials.append((sums.operands(rng, count), sums.mask(rng, count)))
    beats = [beat for numbers, mask in trials for beat in beats_of(numbers, mask, width)]
    for (numbers, mask), got in zip(
            trials, model(kind).run(beats, seed=harness.seed()), strict=True):
        assert got == sums.exact(numbers, mask), (
            f"{[f'{x:08x}' for x in numbers]}, present {mask:#x}, is {got[0]:08x} {got[1]:#x}")


def test_two_operands_are_added_as_by_softfloat(rng, vectors):
    adds_as_softfloat(model(PAIR), rng, vectors // 20)


@pytest.mark.parametrize("kind, orders", [(FOUR, 24), (EIGHT, 50), (SERIAL, 50)],
                         ids=["4", "8", "serial"])
def test_the_order_of_the_operands_changes_nothing(rng, kind, orders):
    width, most, *_ = KINDS[kind]
    operands = width * most
    beats = []
    for _ in range(100):
        numbers, mask = sums.operands(rng, operands), sums.mask(rng, operands)
        every = (itertools.permutations(range(operands)) if orders == 24 else
                 (rng.sample(range(operands), operands) for _ in range(orders)))
        for order in every:
            beats += beats_of([numbers[n] for n in order], sum(
                (mask >> n & 1) << place for place, n in enumerate(order)), width)
    got = model(kind).run(beats)
    for n in range(0, len(got), orders):
        assert len(set(got[n:n + orders])) == 1, f"operands from beat {n * most}"


def test_carries_run_through_every_word():
    """Sums whose words are all ones, all zeros, or nearly so, before the last carry or borrow."""
    trials = []
    for low, high in itertools.combinations(range(0, 255, 7), 2):
        for fraction in (0, 1, 0x7FFFFF):
            big, small = high << 23 | fraction, low << 23 | fraction
            minus = 1 << 31
            trials += [[big, small | minus, 0, 0], [big | minus, small, 0, 0],
                       [big, big, small | minus, 1 | minus], [big | minus, big, small, 1 | minus],
                       [big, small | minus, small | minus, small | minus],
                       [big | minus, small, 1, 1]]
    got = model(FOUR).run([(1, 15, numbers) for numbers in trials])
    for numbers, result in zip(trials, got, strict=True):
        assert result == sums.exact(numbers), [f"{x:08x}" for x in numbers]


def test_most_operands_of_one_sign_fit():
    for number in (0x7F7FFFFF, 0xFF7FFFFF, 0x80000000, 0x807FFFFF, 0x00FFFFFF):
        trial = [number] * 512
        assert model(LONG).run(beats_of(trial, -1, 2)) == [sums.exact(trial)]


@pytest.mark.parametrize("operands, beats, latency", [
    (1, 1, 5), (0, 2, 5), (8, 65, 5), (513, 1, 5), (4, 1, 0), (4, 1, 99)])
@pytest.mark.filterwarnings("ignore::amaranth.UnusedElaboratable")
def test_what_cannot_be_built_is_refused(operands, beats, latency):
    with pytest.raises(ValueError):
        ExactSum(operands, beats=beats, latency=latency)
    gc.collect()
