# SPDX-License-Identifier: Apache-2.0
"""Which lines of the generated Verilog ran, and which bits went both ways, in the coverage plan.

    PYTHONPATH=tb python scripts/line_coverage.py FOLDER

Builds the device of the coverage plan with Verilator's counters, sends the frames of the plan
through it as the test of the plan does (SEED is their seed), and what they leave out. Prints a
table by module, every line and branch that was not reached, and why bits did not go both ways;
FOLDER/lines.txt and FOLDER/toggles.txt name each. A line of the table's counts is a block of
Verilog. Exit status 1 where a line or branch was not reached.
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
from coverage_rest import play_registers, play_waiting
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
#: A character that Verilator hides in a name.
HIDDEN = re.compile("__0([0-9A-Fa-f]{2})")
#: A counter as Verilator writes it: keys and values between marks, then the count.
FIELD = re.compile("\x01([^\x02]*)\x02([^\x01']*)")

#: Why bits do not go both ways: a pattern for "module signal", and what is to be said. The first
#: that matches counts. A line or branch that is not reached has no excuse.
EXCUSES = {re.compile(pattern): why for pattern, why in (
    ("dump_module", "constants that Yosys writes to wake simulators up"),
    (r" \$\d+(\[|:)", "values inside of expressions, without a name: not looked at one by one"),
    (r"(payload|decision|record|_tdata|\bout|read__data|signature__data|port)(\$\d+)*\[",
     "structs as a whole, whose fields are named besides"),
    ("capability__|max_frame__|version__|build__|reduction__",
     "what the device was built with: constant"),
    ("a[wr]prot", "protection of AXI, which is not looked at: held low"),
    (r"a[wr]addr\[[01]\]", "addresses of words: constant"),
    ("wstrb|strobe", "the harness writes whole words; unit/test_register_bank.py writes bytes"),
    (r"[br]resp\[0\]", "OKAY and SLVERR differ in the other bit: constant"),
    (r"status(__code|\$\d+)?\[3\]", "no status of this flow table has it: constant"),
    (r"flow\[(6|7|8|9|1.)\]", "numbers of flows end at 63: constant"),
    (r"reason(\$\d+)?\[|damage\[", "codes of reasons that end below, or that this place never has"),
    (r"cut\[1[45]\]|length\[1[45]\]", "no payload has 16 KB: constant"),
    (r"opcode\[7\]", "opcodes with payload end below 0x80"),
    ("commit|rewind", "payloads and records are never taken back: constant"),
    (r"keep(\$\d+)?\[0\]|inside\[0\]|(bypass|trim) port",
     "the first lane is part of every beat: constant"),
    ("tready", "the receive port never waits: constant"),
    ("receive bad", "the harness packs beats as it must; unit/test_receive.py does not"),
    (r"(header|extension)_bytes\[[01]\]|(stack|shift)\[0\]", "headers end at words: constant"),
    (r"stack\[6\]", "an IP header ends within 64 bytes: constant"),
    (r"classifier first\.(bytes\[|beat\.oversize)", "headers are whole within 128 bytes"),
    (r"stripper out\.data|truncator beat\.error|parser out\S*\.(key|place|frame_ends)",
     "part of a register that is driven behind it"),
    ("icrc expected", "one of few constants: a bit that they share"),
)}


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
                what = HIDDEN.sub(lambda code: chr(int(code[1], 16)), fields["o"])
                number = int(fields["l"])
                if kind != "branch" or IDLE_BRANCH not in source[number - 1]:
                    counts[module][kind][number, what, fields["n"]] += int(count)
    return counts


def unreached(counters):
    """The keys of the counters at zero, in order."""
    return sorted(key for key, count in counters.items() if not count)


def report(folder, counts, source):
    """Print the table and what was not reached, and write it; gives the unreached lines."""
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
    console = Console(width=100)
    console.print(table)
    console.print(excuses(toggles))
    if told:
        print(f"Not reached, by line of {folder / DEVICE}:")
    for line in told:
        print(f"  {line[:96]}")
    return told


def excuses(toggles):
    """Why bits did not go a way, as a table; each that nobody can explain is a row."""
    table = Table("toggles", "not reached, and why", box=None, padding=(0, 2, 0, 0))
    groups, rest = defaultdict(int), []
    for toggle in toggles:
        why = next((why for pattern, why in EXCUSES.items() if pattern.search(toggle)), None)
        if why:
            groups[why] += 1
        else:
            rest.append(toggle)
    for why, count in sorted(groups.items(), key=lambda group: -group[1]):
        table.add_row(str(count), why)
    for toggle in rest:
        table.add_row("1", f"unexplained: {toggle}")
    return table


def figures(reached, total):
    return (f"{reached} of {total}", f"{100 * reached / total:.1f} %") if total else ("none", "")


def main():
    """Build, run, report."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    program = build(folder)
    seed = harness.seed()
    rng = random.Random(seed)
    files = [folder / f"counts-{name}.dat" for name in ("plan", "stalled", "registers", "waiting")]
    count = play_plan(program, rng, Coverage(), files[:2])
    play_registers(program, rng, files[2])
    count += play_waiting(program, rng, files[3])
    print(f"{count} frames, SEED={seed}")
    source = (folder / DEVICE).read_text().splitlines()
    sys.exit(bool(report(folder, read_counts(files, source), source)))


if __name__ == "__main__":
    main()
