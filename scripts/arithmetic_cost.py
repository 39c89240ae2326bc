# SPDX-License-Identifier: Apache-2.0
"""What the arithmetic costs and how fast it is: the adder at each latency, reductions, lanes.

    python scripts/arithmetic_cost.py [--only PATTERN] [--seeds N]

Each stands between registers that are not counted. On ECP5 (LFE5UM5G-85F, speed 8) it is placed
and routed with as many seeds; LUT4 are all of them, two for each carry cell. UltraScale+ is as
Yosys maps it; levels are LUT and carry entries between two registers. All together take an hour or
two.
"""

import concurrent.futures
import os
import re
import warnings

import click
from amaranth import UnusedElaboratable

from flytrim.fp32.adder import REGISTERS, Adder
from flytrim.fp32.element import ElementType
from flytrim.fp32.node import Node
from flytrim.fp32.tree import SUMS, ReductionTree
from flytrim.generate import lanes_verilog
from flytrim.synth import ecp5, xcup
from flytrim.synth.report import cost

ROW = "{:27} {:>6} {:>6} {:>7} {:>7} {:>7}   {:>6} {:>6} {:>6} {:>6}"


def blocks():
    """{name: (latency, lanes, function that makes one)} of all there is to measure."""
    rows = {f"adder, {latency} cycles": (latency, 1, lambda latency=latency: Adder(latency=latency))
            for latency in REGISTERS}
    for latency in (8, 10):
        rows[f"adder, {latency} cycles, 16 lanes"] = (
            latency, 16, lambda latency=latency: Adder(latency=latency))
    rows["node"] = 8, 1, Node
    for children in (2, 4, 8):
        for each in SUMS:
            def make(children=children, each=each):
                return ReductionTree(children, 32, sum=each, types=[ElementType.FP32])

            rows[f"{children} children, {each}"] = None, 1, make
    return rows


def measure(name, latency, lanes, make, seeds):
    """A line of the table."""
    text, chain = lanes_verilog(make, lanes)
    placed = ecp5.synthesize(text, "lanes", seeds)
    mapped = xcup.synthesize(text, "lanes")
    counted = cost(mapped)
    return ROW.format(
        name, latency or max(make().latencies), placed.luts, placed.flip_flops - chain,
        f"{placed.median:.1f}", f"{min(placed.frequencies):.1f}",
        counted["LUT"], counted["flip-flop"] - chain, counted["carry"], mapped.deepest(1)[0].levels)


@click.command()
@click.option("--only", default="", metavar="PATTERN", help="Rows whose name matches.")
@click.option("--seeds", default=3, show_default=True, help="Runs of place and route.")
@click.option("--jobs", default=os.cpu_count(), show_default=True, help="Rows at one time.")
def main(only, seeds, jobs):
    """Measure area and frequency of the arithmetic."""
    # A latency is asked of one that nothing is made of.
    warnings.simplefilter("ignore", UnusedElaboratable)
    print(ROW.format("", "cycles", "ECP5:", "", "MHz", "MHz", "xcup:", "", "", ""))
    print(ROW.format("", "", "LUT4", "FF", "median", "least", "LUT", "FF", "carry", "levels"))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        rows = [pool.submit(measure, name, *row, seeds) for name, row in blocks().items()
                if re.search(only, name)]
        for row in rows:
            print(row.result(), flush=True)


if __name__ == "__main__":
    main()
