# SPDX-License-Identifier: Apache-2.0
"""Frames of every bin of the coverage plan through the RTL, each compared with the model.

What is counted is the reason that the hardware gave and what the frame was built from.
"""

import random

import harness
import pytest
from coverage_plan import CONFIG, CROSSES, Coverage, play_plan
from directed import UNDEFINED, Order

from flytrim.sim.build import build, device_verilog
from flytrim.verdict import Reason


@pytest.fixture
def coverage(request):
    coverage = Coverage(request.node.originalname)
    yield coverage
    coverage.close()


@pytest.mark.model
def test_frames_of_every_bin_go_through_the_hardware(coverage, record_property):
    seed = harness.seed()
    rng = random.Random(seed)
    count = play_plan(build(CONFIG, device_verilog(CONFIG)), rng, coverage)
    text = f"{count} frames, SEED={seed}\n{coverage.table()}"
    print(text)
    record_property("functional coverage", text)
    coverage.check()


def test_a_run_that_leaves_bins_out_fails(coverage):
    for order in coverage.orders(random.Random(harness.seed())):
        if order.reason is not Reason.NONE:
            coverage.sample(order, order.reason)
    with pytest.raises(AssertionError, match="^trimmed: 0.0 % of the reachable bins, not 95 %; "
                                             "missing 4608: IPv4 0 x RC_SEND_FIRST x 0 x 0 x trim"):
        coverage.check()


def test_every_order_is_in_a_bin_that_can_be(coverage):
    """Planned and excluded bins together are all there are."""
    for order in coverage.orders(random.Random(harness.seed())):
        coverage.sample(order, order.reason)
    assert not any(coverage.missing(cross) for cross in CROSSES)


@pytest.mark.parametrize("fields", [
    {"opcode": "CNP"}, {"opcode": UNDEFINED, "reason": Reason.ICRC},
    {"opcode": "RC_SEND_FIRST", "reason": Reason.MESSAGE_LENGTH},
    {"length": "0", "reason": Reason.MESSAGE_LENGTH}, {"length": "0", "preset": "cut"},
], ids=str)
def test_a_sample_in_an_excluded_bin_is_a_fault(coverage, fields):
    order = Order("IPv4 0", "RC_SEND_ONLY", 0, "beat", "none", Reason.NONE)._replace(**fields)
    with pytest.raises(AssertionError, match="excluded by the plan, and yet it came"):
        coverage.sample(order, order.reason)
