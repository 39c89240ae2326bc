# SPDX-License-Identifier: Apache-2.0
"""What is made from the register description is what the repository holds, and works."""

import subprocess
import sys
from pathlib import Path

import pytest
from bar import CONFIG, OFFSET, write_bar
from systemrdl.node import FieldNode, RegNode

from flytrim import __version__
from flytrim.registers import load, load_lean, load_switch

ROOT = Path(__file__).parents[2]
MADE, SOFTWARE = ROOT / "fpga" / "registers", ROOT / "fpga" / "software"


def test_files_are_those_of_the_description(tmp_path):
    subprocess.run([sys.executable, ROOT / "scripts" / "register_files.py", tmp_path], check=True)
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in MADE.iterdir()}
    for file in tmp_path.iterdir():
        assert file.read_text() == (MADE / file.name).read_text(), (
            f"{MADE / file.name} is stale: make registers")


@pytest.mark.parametrize("description", [load, load_lean, load_switch])
def test_everything_is_described(description):
    for node in description().descendants():
        if isinstance(node, (RegNode, FieldNode)):
            assert node.get_property("desc", default=None), node.get_path()
            for choice in (node.get_property("encode", default=None) or ()
                           if isinstance(node, FieldNode) else ()):
                assert choice.rdl_desc, f"{node.get_path()}: {choice.name}"


@pytest.fixture
def bar(tmp_path):
    return write_bar(tmp_path / "resource0")


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    program = tmp_path_factory.mktemp("software") / "identity"
    subprocess.run(["gcc", "-D_DEFAULT_SOURCE", "-std=c11", "-Wall", "-Wextra", "-Werror",
                    f"-I{MADE}", SOFTWARE / "identity.c", "-o", program], check=True)
    return program


def say(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_c_program_tells_what_a_device_is(identity, bar):
    assert say(identity, bar, f"{OFFSET:x}") == (0, (
        f"flytrim {__version__}, commit {CONFIG.commit:08x}: {CONFIG.width} bits a beat, "
        f"{CONFIG.flows} flows, frames of up to {CONFIG.max_frame} bytes\n"), "")


def test_c_program_refuses_what_is_none(identity, bar, tmp_path):
    assert say(identity, bar) == (1, "", (
        f"{bar}: register id reads 0xa5a5a5a5, not 0x464c5954: this is no flytrim device\n"))
    none = tmp_path / "none"
    assert say(identity, none) == (
        2, "", f"{none}: cannot be opened as a device: No such file or directory\n")
    assert say(identity, bar, "zz") == (2, "", "zz: is no hexadecimal offset\n")
    short = tmp_path / "short"
    for size in (0, 100):
        short.write_bytes(bytes(size))
        assert say(identity, short) == (
            2, "", f"{short}: is too short to hold the registers of a device\n")
    assert say(identity)[0] == 2
