# SPDX-License-Identifier: Apache-2.0
"""What a flow costs: the 64-bit device with tables of more and more flows, mapped to UltraScale+.

    python scripts/flow_cost.py [--flows 64,4096]

Up to 64 flows all entries are compared at once; beyond, a hashed table looks in block RAM. The
counters of flows grow alike, and the rest of the device is the same in every row. A block RAM is
one of 36 kbit.
"""

import click

from flytrim.config import NicConfig
from flytrim.generate import nic_verilog
from flytrim.synth.report import cost
from flytrim.synth.xcup import synthesize

FLOWS = (16, 64, 256, 1024, 4096, 16384, 65536)
WIDTH = 64
#: Characters of the longest bar.
BAR = 30
SHOWN = ("LUT", "LUT as memory", "flip-flop", "block RAM")
CHARTED = ("LUT", "block RAM")
ROW = "{:>7}  {:6}" + "  {:>13}" * len(SHOWN)


@click.command()
@click.option("--flows", default=",".join(map(str, FLOWS)), show_default=True)
def main(flows):
    """Chart look-up tables and block RAM against flows."""
    costs = {}
    print(ROW.format("flows", "table", *SHOWN))
    for number in map(int, flows.split(",")):
        config = NicConfig(width=WIDTH, flows=number)
        costs[number] = found = cost(synthesize(nic_verilog(config), "flytrim_nic"))
        print(ROW.format(f"{number:,}", "hashed" if config.hashed else "CAM",
                         *(f"{found[name]:,g}" for name in SHOWN)), flush=True)
    for name in CHARTED:
        most = max(found[name] for found in costs.values())
        print(f"\n{name}")
        for number, found in costs.items():
            bar = "#" * round(BAR * found[name] / most)
            print(f"{number:>7,}  {bar:<{BAR}}  {found[name]:,g}")


if __name__ == "__main__":
    main()
