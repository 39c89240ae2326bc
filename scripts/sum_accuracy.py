# SPDX-License-Identifier: Apache-2.0
"""How far the three sums are from the exact one, by the reference model.

    python scripts/sum_accuracy.py [--sums N]

Operands are normal random numbers over eight binades: as they come ("gradients"), or so that every
second one cancels another but for the last bits, next to it ("neighbours") or anywhere
("shuffled"). SEED is the seed of all that is random.
"""

import math
import os
import random
import struct

import click
from rich.console import Console
from rich.table import Table

from flytrim.model import arithmetic

SUMS = {"tree": arithmetic.tree_sum, "fused": arithmetic.fused_sum, "exact": arithmetic.exact_sum}


def bits(x):
    return int.from_bytes(struct.pack(">f", x), "big")


def number(x):
    return struct.unpack(">f", x.to_bytes(4, "big"))[0]


def unit(x):
    """A unit in the last place of a number of binary32."""
    return 2.0 ** (max(math.frexp(x)[1] - 1, -126) - 23)


def operands(rng, count, data):
    chosen = [rng.gauss(0, 1) * 2.0 ** rng.uniform(-4, 4) for _ in range(count)]
    if data != "gradients":
        for n in range(0, count, 2):
            chosen[n + 1] = -chosen[n] * (1 + rng.uniform(-1, 1) * 2.0**-12)
    if data == "shuffled":
        rng.shuffle(chosen)
    return [bits(x) for x in chosen]


@click.command()
@click.option("--sums", default=2000, show_default=True, help="Sums of each kind.")
def main(sums):
    """Compare the three sums with the exact one."""
    seed = int(os.environ.get("SEED", "1"))
    table = Table("operands", "data", "sum", "most ulp", "mean ulp", "most ulp of the largest",
                  "not the nearest", box=None, padding=(0, 2, 0, 0),
                  title=f"Distance from the exact sum; {sums:,} sums a row, SEED={seed}")
    for count in (2, 4, 8, 16):
        for data in ("gradients", "neighbours", "shuffled"):
            rng = random.Random(f"{seed} {count} {data}")
            trials = [operands(rng, count, data) for _ in range(sums)]
            for name, function in SUMS.items():
                errors, of_largest, wrong = [], [], 0
                for trial in trials:
                    # Doubles have room for such sums without a rounding that counts.
                    exact = math.fsum(map(number, trial))
                    z, _ = function(trial)
                    error = abs(number(z) - exact)
                    errors.append(error / unit(exact) if exact else error)
                    of_largest.append(error / max(unit(number(x)) for x in trial))
                    wrong += z != arithmetic.exact_sum(trial)[0]
                table.add_row(str(count), data, name, f"{max(errors):.3g}",
                              f"{sum(errors) / sums:.3f}", f"{max(of_largest):.3f}",
                              f"{wrong / sums:.1%}")
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
