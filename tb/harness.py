# SPDX-License-Identifier: Apache-2.0
"""Builds Verilated models for cocotb and runs benches on them, without a way to pass by accident.

A model is kept under a hash of everything it is made from, so that only a change of the hardware
costs a build. One model serves many benches; processes that want the same one build it once.
"""

import contextlib
import fcntl
import hashlib
import inspect
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import Verilator

from flytrim.sim import verilator

__all__ = ["BenchError", "Model", "build", "run", "seed"]

#: Measured on a ``TrimNic`` of 64 bits: -O1 builds in the time of -O0 and runs six times as fast,
#: -O2 gains nothing more. Splitting keeps all cores busy.
_COMPILER_FLAGS = ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1")
_BUILD_ARGS = (*verilator.LINT_ARGS, "--output-split", "12000", "--x-assign", "unique",
               "--x-initial", "unique")
_TIMESCALE = ("1ns", "1ps")
_PORT = re.compile(r"^\s*(?:input|output)\s+(?:\[[^\]]*\]\s*)?(\w+)\s*;", re.MULTILINE)


class BenchError(AssertionError):
    """A bench that failed, or that passed without having run."""


@dataclass(frozen=True)
class Model:
    """A built model: where it is, and the name of its top module."""

    folder: Path
    top: str


def seed():
    """The seed of a run: ``SEED`` of the environment, else 1."""
    return int(os.environ.get("SEED", "1"))


class _Runner(Verilator):
    """cocotb's runner, but that benches see the ports of the top module alone.

    With every signal public, which is what the runner asks for, Verilator may optimise nothing
    away: the model is a hundred times slower.
    """

    def _build_command(self):
        verilate, *rest = super()._build_command()
        source, = (Path(source.value) for source in self._sources)
        top = source.read_text().partition(f"module {self.hdl_toplevel}(")[2]
        ports = _PORT.findall(top.partition("endmodule")[0])
        assert ports, f"{source} has no module {self.hdl_toplevel} with ports"
        public = source.with_suffix(".vlt")
        public.write_text("`verilator_config\n" + "".join(
            f'public_flat_rw -module "{self.hdl_toplevel}" -var "{port}"\n' for port in ports))
        return [[arg for arg in verilate if arg != "--public-flat-rw"] + [str(public)], *rest]


def _cache():
    root = os.environ.get("FLYTRIM_CACHE") or Path(__file__).parents[1] / "build"
    return Path(root) / "cocotb"


@contextlib.contextmanager
def _lock(path):
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _environment(values):
    """The process's environment, for a while: cocotb's runner takes it from there."""
    saved = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


def build(verilog, top):
    """The :class:`Model` of a design; built unless it is there.

    Parameters
    ----------
    verilog : str
        Text of the design.
    top : str
        Name of its top module.

    Raises :class:`BenchError`, with the end of the log, when the design does not build. A lint
    warning that is not excepted in :mod:`flytrim.sim.verilator` is such a failure.
    """
    key = hashlib.sha256("\0".join((
        verilog, top, *_BUILD_ARGS, *_COMPILER_FLAGS, *verilator.MAKE_ARGS, *_TIMESCALE,
        inspect.getsource(_Runner), verilator.fingerprint(), metadata.version("cocotb"),
    )).encode()).hexdigest()[:20]
    folder = _cache() / f"{top}-{key}"
    model = Model(folder, top)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not (folder / "done").exists():
        with _lock(folder.with_suffix(".lock")):
            if not (folder / "done").exists():
                _compile(model, verilog)
    return model


def _compile(model, verilog):
    shutil.rmtree(model.folder, ignore_errors=True)
    model.folder.mkdir()
    source, log = model.folder / f"{model.top}.v", model.folder / "build.log"
    source.write_text(verilog)
    jobs = os.cpu_count() or 1
    flags = " ".join((f"-j{jobs}", *verilator.MAKE_ARGS, *_COMPILER_FLAGS))
    with _environment(verilator.environment() | {"MAKEFLAGS": flags}):
        try:
            _Runner().build(
                sources=[source], hdl_toplevel=model.top, build_args=_BUILD_ARGS,
                build_dir=model.folder, timescale=_TIMESCALE, always=True, log_file=log)
        except (Exception, SystemExit) as error:
            raise BenchError(f"{model.top} does not build, {error}; end of {log}:\n"
                             f"{_tail(log)}") from None
    for left_over in (*model.folder.glob("*.o"), *model.folder.glob("*.gch")):
        left_over.unlink()
    (model.folder / "done").touch()


def run(model, module, *, select=None, parameters=None):
    """Run the cocotb tests of a module on a model; all of them, or those that match a pattern.

    Parameters
    ----------
    model : Model
        What to run on.
    module : str
        Importable name of the Python module that holds the tests.
    select : str or None
        Regular expression on the names of the tests.
    parameters : dict or None
        What the module reads back with :func:`json.loads` from ``BENCH_PARAMETERS``.

    Returns how many tests ran. Raises :class:`BenchError` when one failed, when none ran, or when
    the simulation ended before it wrote its results.
    """
    chosen = seed()
    log_folder = model.folder / "runs"
    log_folder.mkdir(exist_ok=True)
    print(f"SEED={chosen}")
    with tempfile.TemporaryDirectory(prefix=f"{module}-", dir=log_folder) as folder:
        results, log = Path(folder, "results.xml"), Path(log_folder, f"{module}.log")
        try:
            _Runner().test(
                test_module=module, hdl_toplevel=model.top, hdl_toplevel_lang="verilog",
                build_dir=model.folder, test_dir=folder, results_xml=str(results), seed=chosen,
                test_filter=select, log_file=log, timescale=_TIMESCALE,
                extra_env={"BENCH_PARAMETERS": json.dumps(parameters or {}),
                           "COCOTB_ANSI_OUTPUT": "0"})
        except SystemExit:
            # The results below say more than an exit status.
            pass
        return _check(module, select, results, log, chosen)


def _check(module, select, results, log, chosen):
    if not results.is_file():
        raise BenchError(f"{module}: the simulation ended without results; end of {log}:\n"
                         f"{_tail(log)}")
    total, failed = get_results(results)
    if not total:
        raise BenchError(f"{module}: no cocotb test ran"
                         + (f", none matches {select!r}" if select else ""))
    if failed:
        raise BenchError(f"{module}: {failed} of {total} failed with SEED={chosen}; log {log}\n\n"
                         + "\n\n".join(_failures(results)))
    return total


def _failures(results):
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        for fault in (*case.findall("failure"), *case.findall("error")):
            said = fault.get("error_msg") or fault.get("message") or (fault.text or "").strip()
            yield f"{case.get('name')}: {said[:3000]}"


def _tail(log, lines=40):
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""
