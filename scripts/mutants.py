# SPDX-License-Identifier: Apache-2.0
"""Plants each fault of tb/mutants.toml in a copy of the hardware and shows which test catches it.

    python scripts/mutants.py [--only PATTERN] [--jobs N] [--json FILE]

The tests are those of ``make test``, quickest first; a fault is caught by the first that fails. A
line for each fault as it is done. Exit status 1 when fewer than 95 % are caught.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
FLOOR = 0.95
#: Units of the arithmetic that have tests of their own.
ARITHMETIC = ("adder", "minmax", "convert", "node", "fused", "exact", "tree")
#: Files whose faults a bench of their own is quickest to see.
BENCHES = {
    **dict.fromkeys(("encapsulator.py", "frame_sequence.py", "header_stack.py",
                     "icrc_generator.py"), "encapsulator"),
    "axis.py": "receive", "flow_cam.py": "flow_cam", "flow_hash.py": "flow_hash",
    "flow_hand.py": "flow_hash", "flow_overflow.py": "flow_hash", "port_table.py": "flow_hash",
    "registers/__init__.py": "register_bank", "registers/bank.py": "register_bank",
    "switch_control.py": "switch_control",
    "axil_pages.py": "axil_pages",
    **{f"telemetry/{part}.py": "switch_control" for part in ("gather", "switch_telemetry")},
    "stream/queue.py": "queue", "stream/steady.py": "stream_cells",
    "stream/arbiter.py": "stream_cells",
    **{f"reduction/{part}.py": "reducer" for part in
       ("slots", "results", "keeper", "arrivals", "reducer", "scheduler", "lives")},
    **{f"telemetry/{part}.py": "counters" for part in
       ("total", "counters", "tally", "flow_counters", "latency")},
    "fp32/lead.py": "fp32_adder", "fp32/steps.py": "fp32_adder", "fp32/product.py": "fp32_adder",
    "fp32/round.py": "fp32_fused", "fp32/pipeline.py": "fp32_fused", "fp32/lane.py": "fp32_tree",
    "fp32/plain.py": "fp32_tree",
    **{f"fp32/{unit}.py": f"fp32_{unit}" for unit in ARITHMETIC},
}
#: Tests by stage, behind that bench: a stage runs where those before it saw nothing.
STAGES = (
    [*(f"tb/system/test_nic{about}.py"
       for about in ("", "_counters", "_events", "_verdicts", "_flows", "_overflow", "_rate",
                     "_reset")),
     "--widths", "64"],
    ["tb/unit", "tb/system", "-m", "model", "--widths", "64"],
    ["tb/unit", "tb/system", "-m", "model", "--widths", "512"],
)
#: The only stage of faults in what a switch alone has.
SWITCH = ("reduction/", "egress.py", "switch.py", "stream/arbiter.py", "stream/steady.py")
SWITCH_STAGES = (
    [f"tb/system/test_switch{about}.py" for about in ("_rate", "_groups", "_parents", "")],)
#: The only stage of faults in the arithmetic, which no other test sees.
ARITHMETIC_STAGES = ([f"tb/unit/test_fp32_{unit}.py" for unit in ARITHMETIC],)
_BENCH_FAILURE = re.compile(r"^E\s+(?:harness\.)?BenchError: (\w+)", re.MULTILINE)
_COCOTB_FAILURE = re.compile(r"^E\s+(\w+(?:/[^:\s]+)?): ", re.MULTILINE)
_PYTEST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?: - |$)", re.MULTILINE)
_TIMEOUT_SECONDS = 900


def run(mutant, models):
    """(mutant, what caught it or None) of one planted fault.

    Models of arithmetic that the fault is no part of are kept in the folder ``models``; those of
    devices are large, and no two faults have one in common.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        hardware = Path(folder, "hdl")
        shutil.copytree(ROOT / "hdl", hardware, ignore=shutil.ignore_patterns("__pycache__"))
        source = hardware / "flytrim" / mutant["file"]
        text = source.read_text()
        assert text.count(mutant["before"]) == 1, f"{mutant['name']}: has lost its place"
        source.write_text(text.replace(mutant["before"], mutant["after"]))
        arithmetic = mutant["file"].startswith("fp32/")
        environment = os.environ | {
            "PYTHONPATH": f"{hardware}:{ROOT / 'tb'}",
            "FLYTRIM_CACHE": models if arithmetic else f"{folder}/cache",
            "SEED": os.environ.get("SEED", "1")}
        bench = BENCHES.get(mutant["file"])
        nearest = [[f"tb/unit/test_{bench}.py", "--widths", "64"]] if bench else []
        stages = (ARITHMETIC_STAGES if arithmetic else
                  SWITCH_STAGES if mutant["file"].startswith(SWITCH) else STAGES)
        for stage in (*nearest, *stages):
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *stage],
                    cwd=ROOT, env=environment, text=True, capture_output=True,
                    timeout=_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                return mutant, "hangs"
            if done.returncode not in (0, 5):
                return mutant, _catcher(done.stdout)
    return mutant, None


def _catcher(output):
    test = _PYTEST_FAILURE.search(output)
    if not test:
        return None
    if "does not build" in output:
        return f"{test[1]}: lint"
    inner = _COCOTB_FAILURE.search(output, output.find("BenchError"))
    return test[1] + (f": {inner[1]}" if "BenchError" in output and inner else "")


@click.command()
@click.option("--only", default="", metavar="PATTERN", help="Faults whose name or file match.")
@click.option("--jobs", default=os.cpu_count(), show_default=True, help="Faults at one time.")
@click.option("--json", "json_path", type=click.Path(), help="Where to write the results, too.")
def main(only, jobs, json_path):
    """Plant faults in the hardware, one at a time, and show which test catches each."""
    mutants = [mutant for mutant in tomllib.loads((ROOT / "tb/mutants.toml").read_text())["mutant"]
               if re.search(only, f"{mutant['file']}: {mutant['name']}")]
    results = []
    with (tempfile.TemporaryDirectory(prefix="mutants-") as models,
          concurrent.futures.ThreadPoolExecutor(jobs) as pool):
        planted = [pool.submit(run, mutant, models) for mutant in mutants]
        for done in concurrent.futures.as_completed(planted):
            mutant, catcher = done.result()
            results.append((mutant, catcher))
            print(f"{len(results):>3} of {len(mutants)}  {mutant['file']}: {mutant['name']}: "
                  f"{catcher or 'NOT CAUGHT'}", flush=True)

    caught = sum(catcher is not None for _, catcher in results)
    print(f"{caught} of {len(results)} faults caught, {caught / max(1, len(results)):.1%}")
    if json_path:
        Path(json_path).write_text(json.dumps([
            {"file": mutant["file"], "fault": mutant["name"], "caught_by": catcher}
            for mutant, catcher in sorted(
                results, key=lambda result: mutants.index(result[0]))], indent=1) + "\n")
    sys.exit(caught < FLOOR * len(results))


if __name__ == "__main__":
    main()
