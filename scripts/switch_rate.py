# SPDX-License-Identifier: Apache-2.0
"""Line rate and latency of a switch with one group over all its ports.

    python scripts/switch_rate.py [--ports 8] [--width 512] [--payloads 4,8,...]

For each payload, every host sends contributions back to back from the same cycle on, a beat in
every cycle; a port that does not take one is a fault. Beats a cycle are those that left a port
between its first and its last one, of frames as long as those that came; the sums of all elements
are held, bit for bit, against the reduction in fixed order. Then single contributions, the last of
which comes late: latency is from its last beat in to the first beat of the result. SEED is the seed
of the data.

Exit status 1 where a cycle was without a beat, an element differs, or a result was late.
"""

import dataclasses
import os
import sys

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from flytrim.config import SwitchConfig
from flytrim.driver import Switch
from flytrim.fabric import AllReduce
from flytrim.fabric.reference import reduced
from flytrim.groups import SwitchFile
from flytrim.reduction import sum_latency
from flytrim.sim.build import build_fabric, device_verilog
from flytrim.sim.fabric import Fabric

#: Cycles that a result may take beside those of the sum.
BUDGET = 20
#: SEND_ONLY of UC, as contributions are: results are as long.
OPCODE = 0x24
MHZ = 250


class Bench:
    """A switch with a group of all ports, and the data that its hosts send."""

    def __init__(self, fabric, config, payload):
        self.fabric, self.config, self.payload = fabric, config, payload
        plan = AllReduce(nodes=config.ports, width=config.width, payload=payload,
                         window=config.window, seed=int(os.environ.get("SEED", 1)))
        pairs = [plan.channels(node) for node in range(config.ports)]
        self.out = [out for out, _ in pairs]
        self.back = [dataclasses.replace(back, immediate=False) for _, back in pairs]
        group = plan.group()
        children = tuple(
            dataclasses.replace(child, header=dataclasses.replace(child.header, opcode=OPCODE))
            for child in group.children)
        fabric.reset()
        Switch(fabric).configure(SwitchFile(
            config, (dataclasses.replace(group, children=children),), {}, MHZ))
        self.rng = np.random.default_rng([plan.seed, payload])
        self.now = fabric.run(0).cycle

    def contribute(self, offset, cycles):
        """Let each host send a packet; what the results must hold."""
        columns = [self.rng.standard_normal(self.payload // 4).astype("<f4").view("<u4")
                   for _ in self.out]
        for port, (channel, column, cycle) in enumerate(
                zip(self.out, columns, cycles, strict=True)):
            self.fabric.send(port, channel.frame(
                column.tobytes(), (channel.psn + offset) % (1 << 24)), cycle)
        return reduced(columns, "sum", "fp32").tobytes()

    def check(self, frames, expected):
        """How many elements of the results are not what they must be; absent ones are not."""
        found = {}
        for left in frames:
            packet = self.back[left.port].read(left.frame)
            found[left.port, (packet.psn - self.back[left.port].psn) % (1 << 24)] = packet.payload
        return sum(
            np.count_nonzero(np.frombuffer(found.get((port, offset), b"").ljust(len(data), b"\1"),
                                           "<u4") != np.frombuffer(data, "<u4"))
            for offset, data in enumerate(expected) for port in range(self.config.ports))


def full_rate(fabric, config, payload, packets):
    """(beats a cycle that leave the slowest port; wrong elements, or faults of a port)."""
    bench = Bench(fabric, config, payload)
    start = bench.now + 100
    expected = [bench.contribute(offset, [start] * config.ports) for offset in range(packets)]
    beats = packets * -(-max(60, bench.out[0].header_bytes + payload) // config.lanes)
    ran = fabric.drain(start + 20 * beats + 10_000)
    spans = {}
    for left in ran.frames:
        first, last = spans.get(left.port, (left.first, left.last))
        spans[left.port] = min(first, left.first), max(last, left.last)
    out = min((beats / (last - first + 1) for first, last in spans.values()), default=0)
    return out, bench.check(ran.frames, expected) + len(ran.faults)


def latency(fabric, config, payload):
    """Cycles from the last beat of the last contribution to the first of each result."""
    bench = Bench(fabric, config, payload)
    cycles = [bench.now + 100 * (1 + port) for port in range(config.ports)]
    expected = bench.contribute(0, cycles)
    end = cycles[-1] + -(-max(60, bench.out[0].header_bytes + payload) // config.lanes) - 1
    ran = fabric.drain(end + 10_000)
    return {left.first - end for left in ran.frames}, bench.check(ran.frames, [expected])


@click.command()
@click.option("--ports", default=8, show_default=True)
@click.option("--width", default=512, show_default=True)
@click.option("--payloads", default="4,8,16,64,256,1024,4096", show_default=True)
@click.option("--packets", default=300, show_default=True, help="Of each host.")
def main(ports, width, payloads, packets):
    payloads = [int(each) for each in payloads.split(",")]
    config = SwitchConfig(ports=ports, width=width, window=128, types=("fp32", "int32"),
                          slot_bytes=max(64, width // 8, 1 << (max(payloads) - 1).bit_length()))
    sums = sum_latency(config)
    program = build_fabric(config, device_verilog(config, "switch"),
                           say=lambda sentence: click.echo(sentence, err=True))
    table = Table("payload", "beats a cycle", "cycles", "ns", "the sum's", "wrong elements",
                  box=None, padding=(0, 2, 0, 0))
    good = True
    with Fabric(program) as fabric:
        for payload in payloads:
            left, wrong = full_rate(fabric, config, payload, packets)
            cycles, wrong_too = latency(fabric, config, payload)
            good &= (left, wrong, wrong_too) == (1, 0, 0) and len(cycles) == 1 and (
                max(cycles) <= BUDGET + sums)
            shown = ", ".join(map(str, sorted(cycles)))
            table.add_row(f"{payload:,}", f"{left:.3f}", shown,
                          f"{max(cycles, default=0) * 1000 / MHZ:.0f}", str(sums),
                          str(wrong + wrong_too))
    console = Console(highlight=False)
    console.print(f"{ports} ports of {width} bits at {MHZ} MHz, one group, {packets} packets a "
                  f"host")
    console.print(table)
    sys.exit(not good)


if __name__ == "__main__":
    main()
