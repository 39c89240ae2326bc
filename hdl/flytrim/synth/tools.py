# SPDX-License-Identifier: Apache-2.0
"""Runs the synthesis tools, which come as Python packages."""

import os
import subprocess
import sys
from pathlib import Path

from ..errors import InputError

__all__ = ["READ", "run"]

#: Reads ``top.v``. Yosys merges equal flip-flops, also those whose net has the attribute ``keep``,
#: so that is put on the flip-flops themselves first.
READ = """\
read_verilog top.v
proc
setattr -set keep 1 a:keep %ci1:+$dff[Q] t:$dff %i
"""


def run(folder, program, *arguments):
    """Run a program of this Python in a folder. Raises ``InputError`` where that fails.

    Programs as WebAssembly see files by relative names alone.
    """
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run([program, *arguments], cwd=folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=os.environ | {"PATH": search})
    except FileNotFoundError:
        raise InputError(f"{program} is not installed: run 'make synth', which installs it, "
                         f"or install flytrim with the extra 'tools'") from None
    if done.returncode:
        said = done.stdout.strip().splitlines() or ["it says nothing"]
        raise InputError(f"{program} failed: {said[-1]}")
