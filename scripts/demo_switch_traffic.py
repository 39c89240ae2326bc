# SPDX-License-Identifier: Apache-2.0
"""Writes captures of a switch: one AllReduce step of four workers, as each of its ports sees it.

    python scripts/demo_switch_traffic.py OUTDIR [--seed N]

Every worker sends the gradients of a small training run in UC packets of 256 bytes, to be summed,
and the largest of them, to be compared. Of the packets that worker 2 sends one is damaged on the
way and comes again; one of worker 3 comes twice. Between them stands other traffic, which the
switch forwards. OUTDIR/port0.pcap to port3.pcap is what enters the ports, OUTDIR/flows.toml the
switch and its two groups.
"""

import argparse
import random
import sys
from pathlib import Path

import demo_traffic
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tb"))

import frames  # noqa: E402

PORTS = 4
PACKET_BYTES = 256
SWITCH = "10.0.0.9"
#: By group, the queue pair that contributions to it go to.
QPS = {"gradients": 0x11, "largest": 0x12}
OTHER_FRAMES = 10

DEVICE = f"""\
# The switch, and the two groups that the workers of port0.pcap to port{PORTS - 1}.pcap reduce.

[device]
width = 64                  # bits a beat
clock_mhz = 156.25
ports = {PORTS}
groups = 4
window = 64                 # packets
slot_bytes = {PACKET_BYTES}
forward = [1, 0, 3, 2]      # where frames leave that enter on port 0 to 3 and are not reduced
"""
FLOW = """
[[flow]]
name = "{name}"
src = "10.0.0.{host}"
dst = "{switch}"
dqpn = {qp:#x}
action = "reduce"
port = {port}
start_psn = {psn:#x}
[flow.header]               # of the results for it
src_mac = "02:00:00:00:00:09"
dst_mac = "02:00:00:00:01:{host:02x}"
dqpn = {back:#x}
"""
GROUPS = """
[[group]]
name = "gradients"
children = ["w0", "w1", "w2", "w3"]
op = "sum"

[[group]]
name = "largest"
children = ["m0", "m1", "m2", "m3"]
op = "max"
"""


def start_psn(port):
    """Worker 1 comes to the end of its PSNs meanwhile."""
    return (0, 0xFFFFF8, 0x1000, 0xABCDE)[port]


def packets(port, group, data):
    """The frames of a worker's contribution."""
    return [frames.roce_frame(
        "UC_SEND_ONLY", data[at:at + PACKET_BYTES], src=f"10.0.0.{port + 1}", dst=SWITCH,
        dqpn=QPS[group], psn=(start_psn(port) + at // PACKET_BYTES) & 0xFFFFFF,
        src_mac=f"02:00:00:00:01:{port + 1:02x}", dst_mac="02:00:00:00:00:09", tos=26 << 2 | 2)
        for at in range(0, len(data), PACKET_BYTES)]


def enters(port, gradient, rng):
    """What enters a port, in order."""
    own = packets(port, "gradients", gradient.astype("<f4").tobytes())
    if port == 2:
        # A bit turned on the way; the worker's timer sends the packet again.
        damaged = bytearray(own[5])
        damaged[100] ^= 1
        own.insert(10, own[5])
        own[5] = bytes(damaged)
    if port == 3:
        own.insert(9, own[8])
    own += packets(port, "largest", np.abs(gradient).max().astype("<f4").tobytes())
    return demo_traffic.mixed([own, demo_traffic.other_traffic(OTHER_FRAMES, rng)], rng)


def flows_toml():
    """The text of flows.toml."""
    flows = [FLOW.format(name=f"{letter}{port}", host=port + 1, switch=SWITCH, qp=qp, port=port,
                         psn=start_psn(port), back=qp + 0x10)
             for letter, qp in zip("wm", QPS.values(), strict=True) for port in range(PORTS)]
    return "".join([DEVICE, *flows, GROUPS])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path, metavar="OUTDIR", help="where all files go")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default: 1)")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    arguments.outdir.mkdir(parents=True, exist_ok=True)
    for port, gradient in enumerate(demo_traffic.gradients(arguments.seed)[:PORTS]):
        sequence = enters(port, gradient, rng)
        capture = arguments.outdir / f"port{port}.pcap"
        demo_traffic.write_capture(capture, sequence, rng)
        print(f"{capture}: {len(sequence)} frames")
    (arguments.outdir / "flows.toml").write_text(flows_toml())


if __name__ == "__main__":
    main()
