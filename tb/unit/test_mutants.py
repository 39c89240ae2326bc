# SPDX-License-Identifier: Apache-2.0
"""Each fault of tb/mutants.toml can be planted: what it replaces is there, once."""

import tomllib
from pathlib import Path

import pytest

import flytrim

TESTBENCH = Path(__file__).parents[1]
FAULTS = tomllib.loads((TESTBENCH / "mutants.toml").read_text())["mutant"]


def test_a_name_stands_for_one_fault():
    names = [(fault["file"], fault["name"]) for fault in FAULTS]
    assert len(names) == len(set(names)) >= 60


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault['file']}: {fault['name']}")
def test_fault_has_its_place(fault):
    source = Path(flytrim.__file__).parent / fault["file"]
    assert source.read_text().count(fault["before"]) == 1 and fault["after"] != fault["before"]
