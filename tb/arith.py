# SPDX-License-Identifier: Apache-2.0
"""Arithmetic units in a compiled model that takes arrays, millions of operands a second."""

import ctypes
import functools
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
from amaranth import Array, Module
from amaranth.back import verilog
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from harness import BenchError

from flytrim.sim import verilator
from flytrim.sim.build import cached, digest

__all__ = ["Units", "built", "call", "compiled", "same"]

_HERE = Path(__file__).parent
_TOP = "arith"
_CXX = ("-std=c++17", "-fPIC", "-pthread", "-DVERILATOR=1", *(f"-DVM_{part}=0" for part in (
    "COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF")))


class _Top(wiring.Component):
    """All units side by side; ``unit`` tells whose result is shown."""

    def __init__(self, units):
        self._units = units
        super().__init__({"a": In(32), "b": In(32), "control": In(8), "unit": In(8),
                          "z": Out(32), "flags": Out(8)})

    def elaborate(self, platform):
        m = Module()
        for n, unit in enumerate(self._units):
            m.submodules[f"unit_{n}"] = unit
            for name in unit.signature.members:
                if name in ("a", "b"):
                    m.d.comb += getattr(unit, name).eq(getattr(self, name))
            # What else goes in is taken from the bits of ``control``, in order.
            offset = 0
            for name, member in unit.signature.members.items():
                if member.flow is In and name not in ("a", "b"):
                    port = getattr(unit, name)
                    m.d.comb += port.eq(self.control[offset:])
                    offset += len(port)
        m.d.comb += [self.z.eq(Array(unit.z for unit in self._units)[self.unit]),
                     self.flags.eq(Array(getattr(unit, "flags", 0) for unit in self._units)
                                   [self.unit])]
        return m


class Units:
    """A compiled model of some units, each with members ``a``, ``z`` and, maybe, ``b``, ``flags``.

    Parameters
    ----------
    units : list
        Components with an attribute ``latency``.
    """

    def __init__(self, *units):
        self._latencies = [unit.latency for unit in units]
        text = verilog.convert(_Top(units), name=_TOP, emit_src=False, strip_internal_attrs=True)
        path = compiled(_TOP, text, {f"{_TOP}.cpp": (_HERE / f"{_TOP}.cpp").read_text()})
        self._library = ctypes.CDLL(path)

    def __call__(self, a, b, control=None, *, unit=0):
        """(results, flags) of arrays of operands."""
        z, flags = np.empty(len(a), np.uint32), np.empty(len(a), np.uint8)
        control = np.zeros(len(a), np.uint8) if control is None else control
        call(self._library.stream, len(a), self._latencies[unit], unit,
             np.asarray(a, np.uint32), np.asarray(b, np.uint32), np.asarray(control, np.uint8), z,
             flags)
        return z, flags


def same(got, expected, *operands):
    """Fails with the first few operands whose (result, flags) differ."""
    wrong = np.flatnonzero((got[0] != expected[0]) | (got[1] != expected[1]))
    lines = [f"{' '.join(f'{int(operand[n]):#x}' for operand in operands)}: expected "
             f"{int(expected[0][n]):#x} {int(expected[1][n]):05b}, got "
             f"{int(got[0][n]):#x} {int(got[1][n]):05b}" for n in wrong[:8]]
    assert not lines, "\n".join((f"{len(wrong)} of {len(got[0])} differ", *lines))


def call(function, count, *arguments):
    """Calls C with a 64-bit count, arrays as pointers to their data, and numbers."""
    values = [ctypes.c_uint64(count)]
    for value in arguments:
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous and len(value) == count
            value = ctypes.c_void_p(value.ctypes.data)
        values.append(value)
    function(*values)


def compiled(top, text, sources):
    """The path of a shared library: a Verilated module, and ``<top>.cpp`` that includes all of it.

    Parameters
    ----------
    top, text : str
        Name of the module, and its Verilog.
    sources : {str: str}
        Names and texts of what is to be compiled with it.
    """
    return built(f"lib{top}.so", [
        ["verilator", "--cc", "--top-module", top, "-Mdir", ".", "--output-split", "0",
         *verilator.FAST_ARGS, *verilator.LINT_ARGS, f"{top}.v"],
        # What the makefile does first: all of the model in one file.
        ["make", "-f", f"V{top}.mk", f"V{top}__ALL.cpp"],
        ["g++", "-O1", *_CXX, "-shared", "-o", f"lib{top}.so", f"{top}.cpp", _runtime()],
    ], {f"{top}.v": text} | sources)


@functools.cache
def _runtime():
    """What all models are linked with, which takes longer to compile than most of them."""
    return str(built("verilated.o", [
        ["g++", "-O1", *_CXX, "-c", "-o", "verilated.o", "all.cpp"],
    ], {"all.cpp": '#include "verilated.cpp"\n#include "verilated_threads.cpp"\n'}))


@functools.cache
def _environment():
    """For compilers: that of Verilator, whose headers are found, too."""
    values = verilator.environment()
    headers = Path(shutil.which("verilator", path=values["PATH"])).parents[1] / "include"
    return values | {"CPLUS_INCLUDE_PATH": f"{headers}{os.pathsep}{headers / 'vltstd'}"}


def built(product, commands, sources):
    """The path of the file ``product`` that commands make of sources, {name: text}.

    It is made once for the same texts.
    """
    name = Path(product).name
    key = digest([*(Path(word).name for command in commands for word in command), _fingerprint(),
                  *(f"{source}\0{text}" for source, text in sources.items())])

    def make(target):
        for source, text in sources.items():
            (target.parent / source).write_text(text)
        for command in commands:
            done = subprocess.run(command, cwd=target.parent, env=_environment(), text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            if done.returncode:
                raise BenchError(f"{name} does not build:\n{done.stdout[-3000:]}")
        os.replace(target.parent / product, target)

    return cached(f"{key}-{name}", make)


@functools.cache
def _fingerprint():
    return verilator.fingerprint()
