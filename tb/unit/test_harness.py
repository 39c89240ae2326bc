# SPDX-License-Identifier: Apache-2.0
"""The harness: whatever did not run, or did not build, has not passed."""

import os

import cocotb
import harness
import pytest
from cocotb.triggers import Timer

DESIGN = """
module tiny(clk, i, o);
  input clk;
  input i;
  output o;
  reg o;
  always @(posedge clk) o <= {};
endmodule
"""

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model():
    return harness.build(DESIGN.format("~i"), "tiny")


@cocotb.test()
async def passes(dut):
    await Timer(1, "ns")


@cocotb.test()
async def fails(dut):
    dut.i.value = 1
    await Timer(1, "ns")
    assert dut.i.value == 0, "one is not zero"


@cocotb.test()
async def ends_the_process(dut):
    os._exit(0)


def test_counts_what_ran(model):
    assert harness.run(model, __name__, select="passes") == 1


def test_failure_is_told_with_its_message_and_seed(model, monkeypatch):
    monkeypatch.setenv("SEED", "77")
    with pytest.raises(harness.BenchError, match="1 of 2 failed with SEED=77") as caught:
        harness.run(model, __name__, select="passes|fails")
    assert "fails: one is not zero" in str(caught.value)


def test_selection_that_matches_nothing_is_an_error(model):
    with pytest.raises(harness.BenchError, match="no cocotb test ran, none matches 'no_such'"):
        harness.run(model, __name__, select="no_such")


def test_module_without_tests_is_an_error(model):
    with pytest.raises(harness.BenchError, match="pacing"):
        harness.run(model, "pacing")


def test_module_that_does_not_import_is_an_error(model):
    with pytest.raises(harness.BenchError, match="no_such_module"):
        harness.run(model, "no_such_module")


def test_simulation_that_ends_early_is_an_error(model):
    with pytest.raises(harness.BenchError, match="ended without results"):
        harness.run(model, __name__, select="ends_the_process")


def test_warning_fails_the_build():
    with pytest.raises(harness.BenchError, match="BLKSEQ"):
        harness.build(DESIGN.format("~i").replace("<=", "="), "tiny")
