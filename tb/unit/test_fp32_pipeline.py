# SPDX-License-Identifier: Apache-2.0
"""Placement of the registers of a pipeline."""

import itertools
import random

import harness
import pytest

from flytrim.fp32.pipeline import shortest, spread


def longest_part(delays, cuts):
    edges = (-1, *cuts, len(delays) - 1)
    return max(sum(delays[start + 1:end + 1]) for start, end in itertools.pairwise(edges))


def test_no_other_cuts_make_a_shorter_longest_part():
    rng = random.Random(harness.seed())
    for _ in range(40):
        delays = [rng.randint(1, 9) for _ in range(rng.randint(1, 9))]
        for count in range(1, len(delays) + 1):
            cuts = spread(delays, count)
            assert len(cuts) == count - 1
            assert longest_part(delays, cuts) == min(
                longest_part(delays, others)
                for others in itertools.combinations(range(len(delays) - 1), count - 1))


def test_as_few_parts_as_it_takes():
    delays = [2, 2, 2, 5, 1, 1]
    assert shortest(delays, 6) == 3
    assert shortest(delays, 13) == 1
    assert shortest(delays, 1) == 4, "no part can be shorter than a step"


@pytest.mark.parametrize("count", (0, 4))
def test_more_registers_than_steps_are_refused(count):
    with pytest.raises(ValueError, match="latency must be 1 to 3 cycles"):
        spread([1, 1, 1], count)
