# SPDX-License-Identifier: Apache-2.0
"""PacketSink: frames as they came, what is packed wrongly marked bad, what is too long ended."""

import random

import cocotb
import harness
import pytest
from agents import Edges, LaneMonitor
from bench import config_of_run
from pacing import EVERY, ticks

from flytrim.context import Received


@pytest.mark.model
def test_receive(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 4


class Bench:
    """Drives raw beats: (tdata, tkeep, tlast, error)."""

    def __init__(self, dut, pacing=EVERY[0].value):
        self.dut, self.config = dut, config_of_run()
        self.rng, self.edges = random.Random(cocotb.RANDOM_SEED), Edges(dut)
        self.pace, self.lanes = ticks(pacing.source, self.rng), self.config.lanes
        self.beats, self.frames = [], []
        self.monitor = LaneMonitor(self.edges, "receive__o", Received(self.config),
                                   callback=self._collect)
        dut.receive__axis_tvalid.value = 0

    def _collect(self, transaction):
        cycle, beat = transaction
        packet = beat.packet
        assert bool(beat.first) == (not self.beats), f"@ cycle {cycle}: first is {beat.first}"
        assert packet.last or packet.count == self.lanes
        assert 1 <= packet.count <= self.lanes
        assert not packet.data >> 8 * packet.count, f"@ cycle {cycle}: bytes beyond the count"
        self.beats.append(packet.data.to_bytes(self.lanes, "little")[:packet.count])
        if packet.last:
            self.frames.append((b"".join(self.beats), bool(packet.error), bool(beat.oversize)))
            self.beats = []

    async def drive(self, beats):
        port = self.dut
        for data, keep, last, error in beats:
            while not next(self.pace):
                port.receive__axis_tvalid.value = 0
                port.receive__axis_tlast.value = self.rng.getrandbits(1)
                await self.edges.wait()
            port.receive__axis_tvalid.value = 1
            port.receive__axis_tdata.value = data
            port.receive__axis_tkeep.value = keep
            port.receive__axis_tlast.value = last
            port.receive__axis_tuser.value = (
                self.rng.getrandbits(self.config.side_width) << 1 | error)
            await self.edges.wait()
            assert port.receive__axis_tready.value
        port.receive__axis_tvalid.value = 0

    def beats_of(self, data, error=0):
        junk = self.rng.getrandbits
        for start in range(0, len(data), self.lanes):
            part = data[start:start + self.lanes]
            free = self.lanes - len(part)
            word = int.from_bytes(part, "little") | (junk(8 * free) << 8 * len(part) if free else 0)
            last = start + self.lanes >= len(data)
            yield word, (1 << len(part)) - 1, last, error if last else junk(1)


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def frames_arrive_as_they_are(dut, pacing):
    bench, expected = Bench(dut, pacing), []
    await bench.edges.start()
    for size in (*range(1, 2 * bench.lanes + 2), *range(60, 70)):
        data, error = bench.rng.randbytes(size), bench.rng.getrandbits(1)
        await bench.drive(bench.beats_of(data, error))
        expected.append((data, bool(error), False))
    await bench.edges.wait(4)
    assert bench.frames == expected


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def wrong_packing_marks_the_frame_and_no_other(dut):
    bench = Bench(dut)
    await bench.edges.start()
    lanes, full = bench.lanes, (1 << bench.lanes) - 1
    wrong = [
        [(full, full, 0, 0), (full, full >> 1, 0, 0), (full, full, 1, 0)],  # part before the last
        [(full, full & ~2, 0, 0), (full, 1, 1, 0)],                         # hole
        [(full, full, 0, 0), (full, 0b101, 1, 0)],                          # hole in the last
        [(full, full & ~1, 1, 0)],                                          # not from lane 0
        [(full, full, 0, 0), (full, 0, 1, 0)],                              # null beat
        [(full, full, 0, 0), (full, 0, 0, 0), (full, full, 1, 0)],
    ]
    for beats in wrong:
        await bench.drive(beats)
        await bench.drive(bench.beats_of(bytes(range(1, lanes + 2))))
    await bench.edges.wait(4)
    assert len(bench.frames) == 2 * len(wrong)
    assert [error for _, error, _ in bench.frames] == [True, False] * len(wrong)
    assert all(data == bytes(range(1, lanes + 2)) for data, _, _ in bench.frames[1::2])


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def too_long_is_ended_at_max_frame(dut):
    bench = Bench(dut)
    await bench.edges.start()
    limit, expected = bench.config.max_frame, []
    for size in (limit - 1, limit, limit + 1, limit + bench.lanes, limit + 5 * bench.lanes + 3, 60):
        data = bench.rng.randbytes(size)
        await bench.drive(bench.beats_of(data))
        expected.append((data[:limit], size > limit, size > limit))
    await bench.edges.wait(4)
    assert bench.frames == expected
