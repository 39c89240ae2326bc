# SPDX-License-Identifier: Apache-2.0
"""Writes the demo's capture: one AllReduce step of eight workers, as the receiving port sees it.

    python scripts/demo_traffic.py OUTDIR [--seed N]

The payloads are the gradients of a small training run, computed here. Half of the workers send
every gradient as a message of its own, the other half messages of 1 KB; between them stands what
else such a port sees. OUTDIR/allreduce8.pcap has nanosecond stamps at the pace of 100 Gb/s,
OUTDIR/flows.toml registers the eight flows.
"""

import argparse
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scapy.utils import RawPcapWriter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tb"))

import background  # noqa: E402
import frames  # noqa: E402
import roce  # noqa: E402

from flytrim.flows import flow_toml  # noqa: E402
from flytrim.model import Flow  # noqa: E402

SWITCH, SWITCH6 = "10.0.0.9", "fd00::9"
MESSAGE_BYTES = 1024
PATH_MTU = 256
#: Preamble, start delimiter, FCS and gap, in bytes beside a frame on the wire.
WIRE_OVERHEAD = 24
BYTE_NS = 8 / 100
START_S = 1_700_000_000


@dataclass(frozen=True)
class Worker:
    """A sender: how it cuts its gradients into messages, and the habits of its NIC.

    ``verb`` is the stem of the opcodes; ``multi`` sends a message as packets of ``PATH_MTU``.
    ``sport`` None is a fresh source port for every packet: path entropy.
    """

    name: str
    src: str
    dqpn: int
    verb: str
    bytes: int
    multi: bool = False
    sport: int | None = None
    hardware: bool = True
    vlan: int | None = None
    psn: int = 0

    @property
    def dst(self):
        return SWITCH6 if ":" in self.src else SWITCH

    def fields(self, rng):
        """Fields of a packet from here, as :class:`frames.RocePacket` has them."""
        sport = rng.randrange(0xC000, 0x10000) if self.sport is None else self.sport
        return {
            "src": self.src, "dst": self.dst, "dqpn": self.dqpn, "udp_sport": sport,
            "src_mac": f"02:00:00:00:01:{self.dqpn & 0xFF:02x}", "dst_mac": "02:00:00:00:00:09",
            "vlans": () if self.vlan is None else ((0x8100, 3 << 13 | self.vlan),),
            "migreq": int(self.hardware), "tos": 26 << 2 | 2 if self.hardware else 0,
            "identification": rng.getrandbits(16),
        }


WORKERS = (
    Worker("w0", "10.0.0.1", 0x11, "RC_WRITE", 4, sport=69, psn=0xFFFF00),
    Worker("w1", "10.0.0.2", 0x12, "RC_SEND", 4, sport=72),
    Worker("w2", "fd00::3", 0x13, "UC_WRITE", 4, psn=0x1234),
    Worker("w3", "10.0.0.4", 0x14, "RC_SEND", 4, hardware=False, vlan=100, psn=0x77),
    Worker("w4", "10.0.0.5", 0x15, "RC_WRITE", MESSAGE_BYTES, sport=72, psn=0xABCDE),
    Worker("w5", "10.0.0.6", 0x16, "RC_SEND", MESSAGE_BYTES, multi=True, sport=69),
    Worker("w6", "fd00::7", 0x17, "RC_WRITE", MESSAGE_BYTES, multi=True, hardware=False, psn=9),
    Worker("w7", "10.0.0.8", 0x18, "UC_SEND", MESSAGE_BYTES, psn=0xFFFFFE),
)


def gradients(seed, *, steps=5, samples=64, inputs=40, hidden=32, classes=10):
    """A gradient vector for every worker, after ``steps`` steps of data-parallel training.

    A network of one hidden layer learns to tell noisy clusters apart; each worker has its own
    samples, and every step applies the mean of the gradients. float32, shape (workers, weights).
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, inputs))
    labels = rng.integers(classes, size=(len(WORKERS), samples))
    data = centres[labels] + rng.normal(size=(len(WORKERS), samples, inputs))
    shapes = [(inputs, hidden), (hidden,), (hidden, classes), (classes,)]
    weights = [rng.normal(scale=0.1, size=shape).astype(np.float32) for shape in shapes]
    for _ in range(steps + 1):
        each = [_backward(weights, x.astype(np.float32), y)
                for x, y in zip(data, labels, strict=True)]
        for weight, parts in zip(weights, zip(*each, strict=True), strict=True):
            weight -= np.float32(0.5) * np.mean(parts, axis=0)
    return np.stack([np.concatenate([part.ravel() for part in parts]) for parts in each])


def _backward(weights, x, labels):
    """Gradients of the mean cross-entropy at ``weights``, one array for each of them."""
    w1, b1, w2, b2 = weights
    hidden = np.tanh(x @ w1 + b1)
    scores = hidden @ w2 + b2
    share = np.exp(scores - scores.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    share[np.arange(len(labels)), labels] -= 1
    share /= len(labels)
    back = (share @ w2.T) * (1 - hidden ** 2)
    return x.T @ back, back.sum(axis=0), hidden.T @ share, share.sum(axis=0)


def messages(worker, gradient, rng):
    """The frames that carry a worker's gradients, in order."""
    data = gradient.astype("<f4").tobytes()
    psn, rkey = worker.psn, rng.getrandbits(32)
    for start in range(0, len(data), worker.bytes):
        message = data[start:start + worker.bytes]
        step = PATH_MTU if worker.multi else worker.bytes
        parts = [message[at:at + step] for at in range(0, len(message), step)]
        for n, part in enumerate(parts):
            last = n == len(parts) - 1
            yield frames.roce_frame(
                f"{worker.verb}_{_place(worker, n, last)}", part, psn=psn, rkey=rkey,
                address=0x7F00_0000_0000 + start, dma_length=len(message),
                immediate=start // worker.bytes, ack_request=int(last), **worker.fields(rng))
            psn = (psn + 1) & 0xFFFFFF


def _place(worker, number, last):
    if last and number == 0:
        return "ONLY"
    if not last:
        return "FIRST" if number == 0 else "MIDDLE"
    # The measured hardware NICs end every message of several packets with an immediate.
    return "LAST_IMM" if worker.hardware else "LAST"


def answers(worker, count, rng):
    """What a worker sends beside its data on the same queue pair: nothing here is to be trimmed."""
    for n in range(count):
        fields = {**worker.fields(rng), "psn": n}
        kind = rng.random()
        if kind < 0.85:
            yield frames.ack(msn=n, **fields)
        elif kind < 0.95:
            yield frames.cnp(**fields)
        elif kind < 0.98:
            yield frames.read_request(address=0x7F00_0000_0000, dma_length=64, **fields)
        else:
            yield frames.nak(**fields)


def other_traffic(count, rng):
    """``count`` frames of what else arrives at the port; a datagram's fragments stay together."""
    large = background.udp_packet(dport=roce.UDP_PORT, size=4000)
    kinds = [
        [background.arp()], [background.arp(vlan=100)], [background.lldp()], [background.icmp()],
        [background.icmp6()], [background.tcp()], [background.tcp6()], [background.udp(dport=53)],
        [background.tcp(size=512, vlan=100)], [background.tcp(vlan=200, outer=7)],
        [background.pause()], background.fragments(large),
        *([background.tcp(size=size)] for size in (1, 64, 700, 1446, 1460)),
    ]
    made = []
    while len(made) < count:
        made.extend(rng.choice(kinds))
    return made


def mixed(sources, rng):
    """The frames of all sources in one order that keeps the order of each."""
    places = []
    for source in sources:
        places += zip(sorted(rng.random() for _ in source), source, strict=True)
    return [frame for _, frame in sorted(places, key=lambda place: place[0])]


def stamped(sequence, rng):
    """(ns since the start, frame): bursts back to back at 100 Gb/s, gaps between them."""
    now, burst = 0.0, 0
    for frame in sequence:
        if burst == 0:
            burst = rng.randrange(8, 128)
            now += rng.expovariate(1 / 2000)
        burst -= 1
        yield int(now), frame
        now += (max(len(frame), 60) + WIRE_OVERHEAD) * BYTE_NS


def write_capture(path, sequence, rng):
    """Write frames to a pcap file, stamped."""
    with RawPcapWriter(str(path), linktype=1, nano=True) as writer:
        writer.write_header(None)
        for stamp, frame in stamped(sequence, rng):
            writer.write_packet(frame, sec=START_S + stamp // 10**9, usec=stamp % 10**9)


def flows_toml():
    """The text of flows.toml."""
    lines = ["# The eight workers of allreduce8.pcap, and the queue pair each sends to.",
             "# Half of them send 4-byte messages, one gradient each, the others 1-KB messages.",
             "", "[device]", "width = 512                 # bits a beat", "clock_mhz = 250"]
    flows = [Flow(worker.name, worker.src, worker.dst, worker.dqpn, vlan=worker.vlan)
             for worker in WORKERS]
    return "\n".join([*lines, "", *map(flow_toml, flows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path, metavar="OUTDIR", help="where both files go")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default: 1)")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)

    each = gradients(arguments.seed)
    data = [list(messages(worker, gradient, rng))
            for worker, gradient in zip(WORKERS, each, strict=True)]
    beside = [list(answers(worker, 60, rng)) for worker in WORKERS]
    sequence = mixed([*data, *beside, other_traffic(500, rng)], rng)

    arguments.outdir.mkdir(parents=True, exist_ok=True)
    capture = arguments.outdir / "allreduce8.pcap"
    write_capture(capture, sequence, rng)
    (arguments.outdir / "flows.toml").write_text(flows_toml())
    print(f"{capture}: {len(sequence)} frames, {sum(map(len, data))} of them carry "
          f"{each.shape[1]} gradients of each of {len(WORKERS)} workers (seed {arguments.seed})")


if __name__ == "__main__":
    main()
