# SPDX-License-Identifier: Apache-2.0
"""Stripper: what is left of a frame is its bytes behind the headers, from lane 0 on."""

import random

import cocotb
import harness
import pytest
from agents import Edges, LaneMonitor, LaneSource, beats_of
from bench import config_of_run
from pacing import EVERY

from flytrim.context import Parsed
from flytrim.stripper import Stripped

#: Every header stack: tags, IP, UDP and BTH, extension headers of any opcode.
STACKS = sorted({link + ip + 20 + extension for link in (14, 18, 22) for ip in (20, 40)
                 for extension in (0, 4, 8, 12, 16, 20, 28)})


@pytest.mark.model
def test_stripper(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 3


def sizes_for(header, lanes):
    """Frames that end in the headers, right behind them, and around each bound of a beat."""
    around = {base + step for base in (header, *(header + n * lanes for n in (1, 2, 3)))
              for step in (-1, 0, 1)}
    end = -(-header // lanes) * lanes
    around |= {end + n * lanes + step for n in (0, 1, 2) for step in (-1, 0, 1)}
    return sorted(size for size in around if size > 0)


def items_of(data, lanes):
    """(bytes, final) of each item with data."""
    parts = [data[start:start + lanes] for start in range(0, len(data), lanes)]
    return [(part, n == len(parts) - 1) for n, part in enumerate(parts)]


class Bench:
    def __init__(self, dut, pacing):
        self.config, self.rng = config_of_run(), random.Random(cocotb.RANDOM_SEED)
        self.edges, self.shape = Edges(dut), Parsed(self.config)
        self.source = LaneSource(self.edges, "stripper__i", self.shape, self.rng, pacing=pacing,
                                 announced=lambda item: True)
        self.monitor = LaneMonitor(self.edges, "stripper__o", Stripped(self.config.width),
                                   callback=self._collect)
        self.sent, self.frames, self.items = [], [], []

    def send(self, frame, header):
        """A frame; before its headers are whole, ``header_bytes`` is anything not yet reached."""
        seen = 0
        for beat in beats_of(frame, self.config.lanes):
            first = not seen
            seen += beat["count"]
            known = header if seen >= header else self.rng.randrange(min(seen, 111), 111)
            self.source.send({
                "beat": {"packet": beat, "first": first}, "seen": min(seen, 127), "bytes": seen,
                "header_bytes": max(known, min(seen, 110)) if seen < header else header})
        self.sent.append((frame, header, len(self.source.cycles)))

    def _collect(self, transaction):
        cycle, item = transaction
        self.items.append(item)
        if item.end:
            self.frames.append((cycle, self.items))
            self.items = []

    async def check(self):
        await self.source.idle()
        await self.edges.wait(10)
        assert not self.items, "items without an end"
        assert len(self.frames) == len(self.sent)
        taken, lanes = iter(self.source.cycles), self.config.lanes
        for number, ((frame, header, _), (cycle, items)) in enumerate(
                zip(self.sent, self.frames, strict=True)):
            about = f"frame {number}, {len(frame)} bytes behind {header} of headers"
            last_in = [next(taken) for _ in range(-(-len(frame) // lanes))][-1]
            assert cycle - last_in == 2, f"{about}: end after {cycle - last_in} cycles"
            received = [(item.data.to_bytes(lanes, "little")[:item.count], bool(item.final))
                        for item in items if item.count]
            assert received == items_of(frame[header:], lanes), about
            assert [bool(item.end) for item in items] == [False] * (len(items) - 1) + [True], about


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def every_header_length_and_bound(dut, pacing):
    bench = Bench(dut, pacing)
    await bench.edges.start()
    for header in STACKS:
        for size in sizes_for(header, bench.config.lanes):
            bench.send(bench.rng.randbytes(size), header)
    await bench.check()


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def random_frames(dut):
    bench = Bench(dut, EVERY[1].value)
    await bench.edges.start()
    for _ in range(300):
        bench.send(bench.rng.randbytes(bench.rng.randrange(1, 400)), bench.rng.choice(STACKS))
    await bench.check()
