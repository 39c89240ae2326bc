# SPDX-License-Identifier: Apache-2.0
"""Reduction tree: every operation and type, masks, taps and rates against SoftFloat."""

import gc
import itertools

import harness
import numpy as np
import pytest
from reducer import Reducer

from flytrim.fp32.element import ElementType
from flytrim.fp32.tree import ReductionTree

BF16, FP16, FP32, INT32 = (ElementType[name] for name in ("BF16", "FP16", "FP32", "INT32"))
ALL = tuple(ElementType)
#: (children, width, options, share of the vectors in per mille): first those that are to be many.
KINDS = {
    "2": (2, 32, {}, 100), "3": (3, 32, {}, 100), "5": (5, 32, {}, 100), "8": (8, 32, {}, 100),
    "16": (16, 32, {}, 100),
    "all_types": (3, 64, {"types": ALL, "latency": 3}, 20),
    "half_rate": (3, 64, {"types": ALL, "half_rate": True, "latency": 4}, 20),
    "half_rate_taps": (4, 32, {"types": (FP32, BF16), "half_rate": True, "taps": 1}, 20),
    "bf16_alone": (2, 32, {"types": (BF16,), "latency": 3}, 20),
    "taps_of_6": (6, 32, {"types": (FP32, FP16), "taps": 2, "latency": 3}, 20),
    "taps_of_8": (8, 64, {"taps": 2, "latency": 3}, 20),
    "taps_of_13": (13, 32, {"taps": 3, "latency": 3}, 20),
    "19": (19, 32, {"latency": 3}, 20),
    "fused": (5, 32, {"sum": "fused", "types": (FP32, INT32, FP16)}, 2),
    "fused_taps": (5, 32, {"sum": "fused", "taps": 1}, 2),
    "exact": (4, 32, {"sum": "exact", "taps": 1}, 2),
}
pytestmark = pytest.mark.model


@pytest.mark.parametrize("kind", KINDS)
def test_every_beat_is_what_softfloat_says(vectors, kind):
    children, width, options, share = KINDS[kind]
    rng = np.random.default_rng([harness.seed(), list(KINDS).index(kind)])
    Reducer(children, width, **options).check(rng, max(vectors * share // 1000, 100))


def test_the_order_of_arrival_changes_nothing():
    """Beats wait in a place of their child's own until the last one is there, in every order.

    Children that change places do change most sums, or this would show nothing.
    """
    children = 5
    rng = np.random.default_rng(harness.seed())
    reducer = Reducer(children, 32)
    beats = rng.normal(size=(100, children)).astype(np.float32).view(np.uint32)
    orders = list(itertools.permutations(range(children)))
    rows = np.zeros((len(beats), len(orders), children, children), np.uint32)
    places = rng.integers(0, 1 << 32, rows.shape[:2] + (children,), np.uint32)
    for n, order in enumerate(orders):
        for step, child in enumerate(order):
            places[:, n, child] = beats[:, child]
            rows[:, n, step] = places[:, n]
    complete = np.tile(np.arange(children) == children - 1, len(beats) * len(orders))
    z = reducer.sums(complete, rows.reshape(-1, children, 1)).reshape(len(beats), len(orders))
    assert (z == z[:, :1]).all()
    swapped = beats[:, np.array(orders)].reshape(-1, children, 1)
    z = reducer.sums(np.ones(len(swapped), bool), swapped).reshape(len(beats), len(orders))
    assert (z != z[:, :1]).any(axis=1).sum() > len(beats) / 2


@pytest.mark.parametrize("kind", ["half_rate_taps", "fused_taps"])
def test_reset_within_beats(kind):
    children, width, options, _ = KINDS[kind]
    rng = np.random.default_rng(harness.seed())
    reducer = Reducer(children, width, **options)
    for _ in range(10):
        reducer.check_reset(rng)


def test_the_largest(vectors):
    """As many children as there may be: a model that takes a minute to build."""
    if vectors < 10_000_000:
        pytest.skip("left to make soak")
    Reducer(64, 32, latency=3).check(np.random.default_rng(harness.seed()), vectors // 100)


@pytest.mark.parametrize("children, bits, options, fault", [
    (1, 32, {}, "2 to 64 children"), (65, 32, {}, "2 to 64 children"),
    (2, 0, {}, "multiple"), (2, 48, {}, "multiple"), (2, 32, {"types": ()}, "no type"),
    (2, 32, {"half_rate": True}, "half rate"), (8, 32, {"taps": 3}, "taps"),
    (2, 32, {"sum": "best"}, "one of tree, fused, exact"), (2, 32, {"latency": 2}, "3 to 11"),
    (2, 32, {"sum": "exact", "latency": 99}, "latency")])
@pytest.mark.filterwarnings("ignore::amaranth.UnusedElaboratable")
def test_what_cannot_be_built_is_refused(children, bits, options, fault):
    with pytest.raises(ValueError, match=fault):
        ReductionTree(children, bits, **options)
    gc.collect()
