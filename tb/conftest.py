# SPDX-License-Identifier: Apache-2.0
"""What every test shares: the seed in the header, and the models of the device by width."""

import functools
import os
import random
import re
import sys

import blocks as blocks_top
import harness
import pytest
import switched

from flytrim import cli
from flytrim.config import NicConfig
from flytrim.generate import nic_verilog

#: The devices that the benches run on. They differ in more than the width, so that each choice of a
#: configuration is simulated somewhere.
CONFIGS = {
    64: {"width": 64, "flows": 128, "max_frame": 2045},
    128: {"width": 128, "flows": 16, "max_frame": 1514, "side_width": 1},
    256: {"width": 256, "flows": 16, "max_frame": 4000, "side_width": 256},
    512: {"width": 512, "flows": 64, "max_frame": 9216, "side_width": 40},
    1024: {"width": 1024, "flows": 16, "max_frame": 9001},
}
#: Properties of tests whose text is printed at the end.
SUMMARIES = ("functional coverage", "hostile frames", "overload")


def pytest_addoption(parser):
    parser.addoption("--widths", default=os.environ.get("WIDTHS", "64,512"),
                     help="widths of the data path to test, in bits (default: 64,512)")
    parser.addoption("--frames", type=int, default=os.environ.get("FRAMES", "20000"),
                     help="hostile frames to send at each width (default: 20000)")
    parser.addoption("--vectors", type=int, default=os.environ.get("VECTORS", "1000000"),
                     help="sums to hold against SoftFloat (default: 1000000)")


def pytest_configure(config):
    # Processes that share the work take the seed from here.
    os.environ.setdefault("SEED", str(harness.seed()))


def pytest_report_header(config):
    return f"SEED={harness.seed()}"


def pytest_terminal_summary(terminalreporter, config):
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    for title in SUMMARIES:
        texts = [text for report in reports for name, text in report.user_properties
                 if name == title]
        if texts:
            terminalreporter.section(title)
        for text in texts:
            terminalreporter.write_line(text)
    chosen = config.getoption("--widths").split(",")
    if left := [str(width) for width in CONFIGS if str(width) not in chosen]:
        terminalreporter.write_line(f"left to make soak: widths {', '.join(left)}")


def pytest_generate_tests(metafunc):
    if "width" in metafunc.fixturenames:
        widths = [int(width) for width in metafunc.config.getoption("--widths").split(",")]
        metafunc.parametrize("width", widths, ids=[f"{width}bit" for width in widths],
                             scope="session")


@pytest.fixture(scope="session")
def vectors(pytestconfig):
    return pytestconfig.getoption("--vectors")


@pytest.fixture
def rng():
    return random.Random(harness.seed())


@functools.cache
def _build(top, width):
    config = NicConfig(**CONFIGS[width])
    if top == blocks_top.TOP:
        return harness.build(blocks_top.blocks_verilog(config), top)
    return harness.build(nic_verilog(config), top)


@pytest.fixture(scope="session")
def nic(width):
    """(model, parameters) of a ``TrimNic`` of this width."""
    return _build("flytrim_nic", width), CONFIGS[width]


@pytest.fixture(scope="session")
def blocks(width):
    """(model, parameters) of all blocks of this width side by side."""
    return _build(blocks_top.TOP, width), CONFIGS[width]


@pytest.fixture(scope="session")
def control():
    """Model of the control plane of a switch, whatever the width."""
    return harness.build(blocks_top.control_verilog(), blocks_top.TOP)


@pytest.fixture(scope="session")
def pages():
    """Model of an ``AxilPages``."""
    return harness.build(blocks_top.pages_verilog(), blocks_top.TOP)


#: What a command says that has to compile first.
COMPILING = re.compile(r"flytrim: compiling \d+ bits of hardware, once: about a minute\n")


@pytest.fixture(scope="session")
def switch_program():
    """The compiled switch of :data:`switched.CONFIG`."""
    return switched.program()


@pytest.fixture
def flytrim(monkeypatch, capsys):
    """Runs the command; gives exit status, standard output, standard error.

    Whether something had to be compiled first depends on the cache, so that line is left out.
    """
    def flytrim(*args):
        monkeypatch.setattr(sys, "argv", ["flytrim", *args])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, COMPILING.sub("", err)
    return flytrim
