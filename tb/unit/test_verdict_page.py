# SPDX-License-Identifier: Apache-2.0
"""The page of what pins each verdict: it names every reason, and only tests that are there."""

import ast
import re
from pathlib import Path

import pytest

from flytrim.verdict import Reason

TB = Path(__file__).parents[1]
PAGE = (TB / "verdicts.md").read_text()
#: The rules, each with what is said of it.
RULES = re.split(r"^\* ", PAGE.split("## ", 1)[1], flags=re.MULTILINE)[1:]


def names_in(file):
    """pytest functions and cocotb tests of a file, and whether each runs the hardware."""
    [path] = [path for path in (TB / "unit" / file, TB / "system" / file) if path.exists()]
    nodes = ast.parse(path.read_text()).body
    return {node.name: isinstance(node, ast.AsyncFunctionDef) or "mark.model" in path.read_text()
            for node in nodes
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            or isinstance(node, ast.AsyncFunctionDef)
            and any("cocotb.test" in ast.unparse(each) for each in node.decorator_list)}


@pytest.mark.parametrize("reference", sorted(set(re.findall(r"`(\S+::\S+)`", PAGE))))
def test_a_test_that_the_page_names_is_there(reference):
    file, _, name = reference.partition("::")
    assert name in names_in(file)


def test_a_file_that_the_page_names_is_there():
    for file in re.findall(r"`((?:formal|unit)/\S+)`", PAGE):
        assert (TB / file).exists(), file


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_every_reason_has_a_rule_with_its_verdict(reason):
    assert len([rule for rule in RULES if rule.startswith(f"`{reason}` ({reason.verdict}): ")]) == 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.split("\n")[0][:40])
def test_every_rule_has_a_test_that_runs_the_hardware(rule):
    *_, hardware = rule.partition("  * hardware: ")
    assert any(names_in(file)[name] for file, name in re.findall(r"`(\S+?)::(\w+)`", hardware))
