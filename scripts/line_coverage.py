# SPDX-License-Identifier: Apache-2.0
"""Which lines of the generated Verilog ran, and which bits went both ways, in the coverage plan.

    PYTHONPATH=tb python scripts/line_coverage.py FOLDER

Builds the device of the coverage plan with Verilator's counters, sends the frames of the plan
through it as the test of the plan does (SEED is their seed), prints a table by module and every
line and branch that was not reached, and writes these to FOLDER/lines.txt, and the bits that did
not go a way to FOLDER/toggles.txt. A line of the table's counts is a block of Verilog.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import harness
from coverage_plan import CONFIG, Coverage, play_plan
from rich.console import Console
from rich.table import Table

import flytrim.sim
from flytrim.sim import verilator
from flytrim.sim.build import device_verilog

DEVICE = "flytrim_nic.v"
#: What the counters are asked to count.
COUNTERS = ("--coverage-line", "--coverage-toggle")
#: Yosys writes an empty branch on a constant into each process, which wakes simulators up.
IDLE_BRANCH = "verilog_backend.cc"
#: A counter as Verilator writes it: keys and values between marks, then the count.
FIELD = re.compile("\x01([^\x02]*)\x02([^\x01']*)")


def build(folder):
    """The replay program around a device with counters, in ``folder``."""
    (folder / DEVICE).write_text(device_verilog(CONFIG))
    shutil.copy(Path(__file__).with_name("covered.cpp"), folder)
    include = Path(flytrim.sim.__file__).parent
    flags = (f"-std=c++17 -I{include} -DWIDTH={CONFIG.width} -DMAX_FRAME={CONFIG.max_frame} "
             f"-DSIDE_WIDTH={CONFIG.side_width}")
    command = ["verilator", "--cc", "--exe", "--build", "-j", str(os.cpu_count() or 1),
               "--top-module", "flytrim_nic", "-Mdir", "obj", "-o", "replay", *COUNTERS,
               *verilator.FAST_ARGS, *verilator.LINT_ARGS, "--output-split", "20000",
               *(arg for flag in (*verilator.MAKE_ARGS, "OPT_FAST=-O1", "OPT_SLOW=-O0",
                                  "OPT_GLOBAL=-O1") for arg in ("-MAKEFLAGS", flag)),
               "-CFLAGS", flags, DEVICE, "covered.cpp"]
    shutil.rmtree(folder / "obj", ignore_errors=True)
    log = folder / "build.log"
    with open(log, "w") as output:
        done = subprocess.run(command, cwd=folder, env=verilator.environment(), stdout=output,
                              stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"building failed; {log} says why")
    return folder / "obj" / "replay"


def read_counts(files, source):
    """Sums of the counts by module, by kind (``branch``, ``line``, ``toggle``), by place.

    A place is (line, what, column). Branches of ``source``, its lines, that cannot be taken are
    left out.
    """
    counts = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for file in files:
        with open(file) as lines:
            next(lines)     # the version of the format
            for line in lines:
                key, _, count = line.rpartition(" ")
                fields = dict(FIELD.findall(key))
                kind, module = fields["page"].removeprefix("v_").split("/")
                what = fields["o"].replace("__0", "$")
                number = int(fields["l"])
                if kind != "branch" or IDLE_BRANCH not in source[number - 1]:
                    counts[module][kind][number, what, fields["n"]] += int(count)
    return counts


def unreached(counters):
    """The keys of the counters at zero, in order."""
    return sorted(key for key, count in counters.items() if not count)


def report(folder, counts, source):
    """Print the table and the lines, and write the toggles."""
    table = Table("module", "lines", "", "branches", "", "toggles", "", box=None,
                  padding=(0, 2, 0, 0))
    sums = defaultdict(lambda: [0, 0])
    told, toggles = [], []
    for module, kinds in sorted(counts.items()):
        row = [module]
        for kind in ("line", "branch", "toggle"):
            missing = unreached(kinds[kind])
            row += figures(len(kinds[kind]) - len(missing), len(kinds[kind]))
            sums[kind][0] += len(kinds[kind]) - len(missing)
            sums[kind][1] += len(kinds[kind])
            if kind == "toggle":
                toggles += [f"{module} {what}" for _, what, _ in missing]
            else:
                told += [f"{module}: line {line}, {what}: {source[line - 1].strip()}"
                         for line, what, _ in missing]
        table.add_row(*row)
    table.add_row("all", *(text for pair in sums.values() for text in figures(*pair)))
    (folder / "toggles.txt").write_text("".join(f"{line}\n" for line in toggles))
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in told))
    Console(width=100).print(table)
    print(f"Not reached, by line of {folder / DEVICE}:")
    for line in told:
        print(f"  {line[:96]}")


def figures(reached, total):
    return (f"{reached} of {total}", f"{100 * reached / total:.1f} %") if total else ("none", "")


def main():
    """Build, run, report."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    program = build(folder)
    seed = harness.seed()
    files = [folder / name for name in ("counts.dat", "counts-stalled.dat")]
    count = play_plan(program, random.Random(seed), Coverage(), files)
    print(f"{count} frames, SEED={seed}")
    source = (folder / DEVICE).read_text().splitlines()
    report(folder, read_counts(files, source), source)


if __name__ == "__main__":
    main()
