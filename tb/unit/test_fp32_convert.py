# SPDX-License-Identifier: Apache-2.0
"""16-bit formats to binary32 and back against SoftFloat, on every bit of result and flags."""

import functools

import arith
import harness
import numpy as np
import operands
import pytest
import softfloat

from flytrim.fp32.convert import Narrow, Widen
from flytrim.fp32.number import BF16, FP16

FORMATS = {"f16": FP16, "bf16": BF16}
WIDEN, NARROW = (0, 1), (1, 2, 3)
ALL = np.arange(1 << 16, dtype=np.uint32)
pytestmark = [pytest.mark.model, pytest.mark.parametrize("name", FORMATS)]


@functools.cache
def units():
    return arith.Units(
        *(Widen(fmt, latency) for fmt in FORMATS.values() for latency in WIDEN),
        *(Narrow(fmt, latency) for fmt in FORMATS.values() for latency in NARROW))


def narrow(name, a, latency=2):
    unit = 2 * len(WIDEN) + len(NARROW) * list(FORMATS).index(name) + latency - NARROW[0]
    got = units()(a, a, unit=unit)
    arith.same(got, softfloat.narrow(a, name), a)
    return got


@pytest.mark.parametrize("latency", WIDEN)
def test_widens_every_number(name, latency):
    got = units()(ALL, ALL, unit=len(WIDEN) * list(FORMATS).index(name) + latency)
    arith.same(got, softfloat.widen(ALL, name), ALL)


def test_narrows_what_was_widened(name):
    z, flags = narrow(name, softfloat.widen(ALL, name)[0])
    nan = (ALL & 0x7FFF) > FORMATS[name].infinity
    assert np.array_equal(z, np.where(nan, FORMATS[name].nan, ALL))
    assert not flags.any()


def test_narrows_at_every_boundary(name):
    """At each number and midway to the next, at the step to infinity too, and a bit beside it."""
    fmt = FORMATS[name]
    finite = softfloat.widen(ALL[:fmt.infinity], name)[0].view(np.float32).astype(np.float64)
    following = np.append(finite[1:], 2 * finite[-1] - finite[-2])
    midway = ((finite + following) / 2).astype(np.float32).view(np.uint32)
    places = np.concatenate([midway, finite.astype(np.float32).view(np.uint32)])
    a = np.concatenate([places - np.uint32(1), places, places + np.uint32(1)])
    narrow(name, np.concatenate([a, a ^ np.uint32(1 << 31)]))


@pytest.mark.parametrize("latency", NARROW)
def test_narrows_many(name, latency):
    rng = np.random.default_rng([harness.seed(), latency])
    narrow(name, operands.special_values(), latency)
    _, flags = narrow(name, operands.one_each(rng, 300_000), latency)
    for flag in 1, 2, 4, 16:
        assert np.count_nonzero(flags & flag) > 10, f"flag {flag} was hardly met"
