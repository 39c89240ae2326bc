# SPDX-License-Identifier: Apache-2.0
"""Truncator: a payload ends where it is told, and its last beat waits for the frame's end."""

import random

import cocotb
import harness
import pytest
from agents import Edges, LaneMonitor, LaneSource
from bench import config_of_run
from pacing import EVERY

from flytrim.packet import Packet
from flytrim.stripper import Stripped


@pytest.mark.model
def test_truncator(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 2


class Bench:
    def __init__(self, dut, pacing):
        self.dut, self.config = dut, config_of_run()
        self.rng, self.edges = random.Random(cocotb.RANDOM_SEED), Edges(dut)
        self.shape = Stripped(self.config.width)
        self.source = LaneSource(self.edges, "truncator__i", self.shape, self.rng, pacing=pacing,
                                 announced=lambda item: item["count"] > 0)
        self.monitor = LaneMonitor(self.edges, "truncator__o", Packet(self.config.width),
                                   callback=lambda transaction: self.beats.append(transaction[1]))
        self.edges.every(self._watch)
        self.beats, self.sent, self.damages, self.received = [], [], [], []
        self.all_limited = (1 << len(dut.truncator__limited)) - 1
        self._next_damage = 0

    def send(self, data, length, limit, late_end):
        """What the stripper leaves of a frame; ``limit`` is None for a payload that is not cut."""
        lanes, word = self.config.lanes, self.rng.getrandbits
        items = [{"data": int.from_bytes(data[start:start + lanes], "little"),
                  "count": len(data[start:start + lanes]),
                  "final": start + lanes >= len(data)} for start in range(0, len(data), lanes)]
        for item in items:
            if free := lanes - item["count"]:
                item["data"] |= word(8 * free) << 8 * item["count"]
        if items and not late_end:
            items[-1]["end"] = 1
        else:
            items.append({"data": word(8 * lanes), "count": 0, "final": 1, "end": 1})
        for n, item in enumerate(items):
            first = {"truncator__length": length,
                     "truncator__limit": word(16) if limit is None else limit,
                     "truncator__limited": 0 if limit is None else self.all_limited}
            later = {"truncator__length": word(16), "truncator__limit": word(16),
                     "truncator__limited": word(1) * self.all_limited}
            self.source.send(item, **(later if n else first))
        self.damages.append(word(1))
        self.sent.append((data, length, limit, self.damages[-1]))

    def _watch(self):
        """Drives ``damaged`` in the cycle of ``ended``, junk in all others."""
        if self.edges.in_reset:
            return
        if self.dut.truncator__ended.value:
            self.received.append((self.beats, int(self.dut.truncator__sent.value)))
            self.beats = []
        bits = int(self.dut.truncator__i__payload.value)
        if self.dut.truncator__i__valid.value and self.shape.from_bits(bits).end:
            self.dut.truncator__damaged.value = self.damages[self._next_damage]
            self._next_damage += 1
        else:
            self.dut.truncator__damaged.value = self.rng.getrandbits(1)

    async def check(self):
        await self.source.idle()
        await self.edges.wait(10)
        assert len(self.received) == len(self.sent)
        lanes = self.config.lanes
        for number, ((data, length, limit, damage), (beats, sent)) in enumerate(
                zip(self.sent, self.received, strict=True)):
            about = f"frame {number}, {len(data)} bytes, length {length}, limit {limit}"
            kept = data[:length if limit is None else limit]
            starts = range(0, len(kept), lanes)
            expected = [(kept[start:start + lanes], start + lanes >= len(kept)) for start in starts]
            got = [(beat.data.to_bytes(lanes, "little").rstrip(b"\0").ljust(beat.count, b"\0"),
                    bool(beat.last)) for beat in beats]
            assert got == expected, about
            assert sent == len(kept), f"{about}: sent {sent}"
            assert [bool(beat.error) for beat in beats if beat.last] == [bool(damage)] * bool(kept)


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def every_length_around_beats(dut, pacing):
    bench = Bench(dut, pacing)
    await bench.edges.start()
    # The monitor saw a beat of the frame that ends in this cycle before the watch takes them.
    lanes, sizes = bench.config.lanes, [0, 1, 2]
    for beats in (1, 2, 3, 4):
        sizes += [beats * lanes + step for step in (-1, 0, 1)]
    for size in sizes:
        for length in sizes:
            limits = [None, None]
            if length:
                limits += [0, length - 1, bench.rng.randrange(length)]
            for limit in limits:
                bench.send(bench.rng.randbytes(size), length, limit, bench.rng.getrandbits(1))
    await bench.check()
