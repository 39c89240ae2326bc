# SPDX-License-Identifier: Apache-2.0
"""``flytrim allreduce``: what it prints, what it refuses, and its exit status."""

import json
import re

import pytest
from click.testing import CliRunner

from flytrim import cli
from flytrim.errors import InputError
from flytrim.model import reduction

SMALL = ("--model", "--bytes", "1024", "--payload", "256", "--rounds", "2")


def flytrim(*arguments):
    return CliRunner().invoke(cli.cli, ["allreduce", *arguments])


def test_shows_what_each_link_did_and_that_all_is_right():
    result = flytrim(*SMALL, "--nodes", "8", "--loss", "0.1", "--duplicate", "0.1", "--reorder",
                     "4")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(
        "AllReduce sum of fp32: 8 hosts in a star around the reference model of the switch\n"
        "2 rounds of 1,024 bytes, packets of 256, 128 in flight, links of 1000 ns\n")
    assert "All of 4,096 elements are right, bit for bit, in the order of the ports." in (
        result.output)
    rows = re.findall(r"^(\d|total) +8 |^total +64 ", result.output, re.MULTILINE)
    assert len(rows) == 9
    assert re.search(r"^healed +\d+ lost frames, by \d+ contributions sent again",
                     result.output, re.MULTILINE)


def test_a_good_network_is_shown_with_what_it_saves():
    output = flytrim(*SMALL, "--nodes", "4").output
    # Four packets beside the six of a ring.
    assert re.search(r"to the switch +1,352 +66\.7%\n", output)
    assert re.search(r"ring AllReduce without losses +2,028 +100\.0%\n", output)
    assert "healed" not in output


def test_a_barrier_says_so():
    result = flytrim("--model", "--bytes", "0", "--nodes", "2")
    assert result.exit_code == 0
    assert "A barrier has no elements; every host came through." in result.output


def test_figures_are_had_as_json_and_a_seed_repeats_them():
    outputs = [flytrim(*SMALL, "--seed", seed, "--loss", "0.1", "--json").output
               for seed in ("5", "5", "6")]
    assert outputs[0] == outputs[1] != outputs[2]
    figures = json.loads(outputs[0])
    assert (figures["switch"], figures["plan"]["seed"]) == ("model", 5)
    assert (figures["checked_elements"], figures["differing_elements"]) == (8 * 2 * 256, 0)


def test_an_element_that_differs_is_told_and_is_status_1(monkeypatch):
    right = reduction.reduce_payloads
    monkeypatch.setattr("flytrim.model.switch.reduce_payloads", lambda *arguments: bytes(
        [right(*arguments)[0] ^ 1]) + right(*arguments)[1:])
    result = flytrim(*SMALL, "--nodes", "2", "--dtype", "int32")
    assert result.exit_code == 1
    assert re.search(r"16 of 1,024 elements differ; the first: host \d, round 0, element 0: "
                     r"0x[0-9a-f]{8}, not 0x[0-9a-f]{8}", result.output)
    assert json.loads(flytrim(*SMALL, "--nodes", "2", "--dtype", "int32", "--json").output)[
        "differing_elements"] == 16


def test_frames_that_are_no_results_are_told_and_are_status_1(monkeypatch):
    monkeypatch.setattr("flytrim.model.result._MIGRATED", 0x41)
    result = flytrim(*SMALL, "--nodes", "2")
    assert result.exit_code == 1
    assert "flytrim: the simulation failed: no result came since cycle" in result.output
    assert "header version is 0x1, not 0x0" in result.output


@pytest.mark.parametrize(("arguments", "message"), [
    (("--nodes", "1"), "nodes must be 2 to 16 hosts, not 1"),
    (("--loss", "0.9"), "loss must be a chance from 0 to 0.5, not 0.9"),
    (("--loss", "nan"), "loss must be a chance from 0 to 0.5, not nan"),
    (("--bytes", "3"), "bytes must be whole elements of 4 bytes, not 3"),
    (("--window", "3"), "window must be a power of two from 2 to 4096 packets, not 3"),
    (("--width", "96"), "width must be one of 64, 128, 256, 512, 1024 bits, not 96"),
])
def test_an_option_that_cannot_be_is_one_line(arguments, message):
    result = flytrim("--model", *arguments)
    assert isinstance(result.exception, InputError) and str(result.exception) == message
