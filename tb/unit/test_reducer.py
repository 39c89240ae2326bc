# SPDX-License-Identifier: Apache-2.0
"""A reducer alone: packets in consecutive cycles, ports without room, bits that turn in memory.

No wrong sum leaves as a good one, and all heals.
"""

import random
from collections import Counter

import harness
import pytest
from amaranth.lib import memory
from amaranth.sim import Simulator

from flytrim.config import SwitchConfig
from flytrim.fp32.element import ElementType
from flytrim.group import AbortCause, GroupOperation, GroupStatus
from flytrim.reduction import Reducer

CONFIG = SwitchConfig(ports=2, width=64, groups=2, window=8, slot_bytes=64, counters=False)
WINDOW, BEATS = 4, 8
START_PSN = (7, 0xFFFFFE)


class Bench:
    """A reducer with two children of group 0, sums of INT32, and what leaves it."""

    def __init__(self, ctx, reducer, stores):
        self.ctx, self.reducer = ctx, reducer
        #: Payload memories of both ports, then that of the results.
        self.stores = stores
        self.left, self.told = ([], []), []
        #: Packets of port 0 by what became of them.
        self.became = Counter()

    async def tick(self, count=1):
        """Cycles, with what leaves in them noted."""
        for _ in range(count):
            for port, lane in enumerate(self.reducer.beats):
                if self.ctx.get(lane.valid):
                    beat = self.ctx.get(lane.payload)
                    self.left[port].append((beat.data, beat.last, beat.error))
            for name in ("contribution", "duplicate", "out_of_window", "bounds"):
                self.became[name] += self.ctx.get(getattr(self.reducer, name)) & 1
            if self.ctx.get(self.reducer.aborted.valid):
                told = self.ctx.get(self.reducer.aborted.payload)
                self.told.append((told.offset, AbortCause(told.cause)))
            await self.ctx.tick()

    async def start(self):
        self.ctx.set(self.reducer.room, 3)
        self.ctx.set(self.reducer.aborted.ready, 1)
        await self.command(GroupOperation.START)

    async def command(self, operation):
        """Start the group, or stop it."""
        commands, ctx = self.reducer.commands, self.ctx
        ctx.set(commands.payload, {
            "operation": operation, "group": 0,
            "context": {"members": 3, "sources": 3, "receivers": 3, "operation": 0,
                        "type": ElementType.INT32, "base": 0, "last": 2 * WINDOW - 1},
            "start_psn": [*START_PSN, *[0] * 14]})
        ctx.set(commands.valid, 1)
        while not ctx.get(commands.ready):
            await self.tick()
        assert ctx.get(self.reducer.status) == GroupStatus.DONE
        await self.tick()
        ctx.set(commands.valid, 0)
        await self.tick()

    async def contribute(self, port, offset, words, wait=5):
        """A packet of so many beats, and the few cycles until it has its mark."""
        for n, word in enumerate(words):
            self.drive(port, offset, [word], last=n == len(words) - 1, length=8 * len(words))
            await self.tick()
        self.drive(port, offset)
        await self.tick(wait)

    def drive(self, port, offset, words=(), last=True, length=8):
        """A beat of a packet of so many bytes in this cycle, or none."""
        ctx, payload, meta = self.ctx, self.reducer.payload[port], self.reducer.meta[port]
        for word in words:
            ctx.set(meta.payload, {"record": {
                "flow": 0, "psn": (START_PSN[port] + offset) % (1 << 24), "length": length}})
            ctx.set(payload.payload, {"data": word, "count": 8, "last": last})
        ctx.set(payload.valid, len(words))
        ctx.set(meta.valid, len(words) and last)

    async def results(self):
        """Beats that have left, of both ports, once nothing more comes; forgotten then."""
        quiet = 0
        while quiet < 60:
            before = len(self.left[0]), len(self.left[1])
            await self.tick()
            quiet = quiet + 1 if before == (len(self.left[0]), len(self.left[1])) else 0
        found = [list(own) for own in self.left]
        for own in self.left:
            own.clear()
        return found

    def turn(self, store, slot, beat, bit):
        """Turn a bit of a word in memory, parity among them."""
        row = self.stores[store].data[slot * BEATS + beat].as_value()
        self.ctx.set(row, self.ctx.get(row) ^ 1 << bit)


@pytest.fixture
def simulate(monkeypatch):
    """Runs a coroutine on a :class:`Bench`."""
    stores = []

    plain = memory.Memory.__init__

    def recorded(self, *args, **kwargs):
        plain(self, *args, **kwargs)
        if "parity" in getattr(self.shape, "members", ()):
            stores.append(self)

    def run(body):
        monkeypatch.setattr(memory.Memory, "__init__", recorded)
        reducer = Reducer(CONFIG)
        simulator = Simulator(reducer)
        assert len(stores) == 3

        async def bench(ctx):
            each = Bench(ctx, reducer, stores)
            await each.start()
            await body(each)

        simulator.add_clock(1e-8)
        simulator.add_testbench(bench)
        simulator.run()

    return run


def drawn(rng, beats):
    return [rng.getrandbits(64) for _ in range(beats)]


def added(*columns):
    """Beats of a result as they leave: lanes of 32 bits, each wrapping."""
    mask = 0xFFFF_FFFF
    words = [sum(((sum(word >> shift & mask for word in words)) & mask) << shift
                 for shift in (0, 32)) for words in zip(*columns, strict=True)]
    return [(word, n == len(words) - 1, 0) for n, word in enumerate(words)]


def test_a_contribution_whose_bit_turned_makes_no_result_until_it_is_sent_again(simulate):
    rng = random.Random(harness.seed())

    async def body(bench):
        for offset in range(24):
            beats = rng.randint(1, BEATS)
            own = [drawn(rng, beats) for _ in range(2)]
            first = rng.randrange(2)
            damaged, beat = (first, rng.randrange(beats)), rng.randrange(66)
            await bench.contribute(first, offset, own[first])
            if offset % 4:
                bench.turn(damaged[0], offset % (2 * WINDOW), damaged[1], beat)
            await bench.contribute(1 - first, offset, own[1 - first])
            found = await bench.results()
            if offset % 4:
                assert bench.told.pop() == (offset, AbortCause.PARITY)
                # A frame that has begun is ended as a bad one.
                assert all(len(left) == beats and left[-1][1:] == (1, 1) for left in found)
                assert not any(error for left in found for *_, error in left[:-1])
                for port in (1 - first, first):
                    await bench.contribute(port, offset, own[port])
                found = await bench.results()
            assert found == [added(*own)] * 2
            assert not bench.told

    simulate(body)


def test_a_kept_result_whose_bit_turned_is_marked_bad_when_it_is_sent_again(simulate):
    rng = random.Random(harness.seed())

    async def body(bench):
        for offset in range(12):
            beats = rng.randint(1, BEATS)
            own = [drawn(rng, beats) for _ in range(2)]
            for port in range(2):
                await bench.contribute(port, offset, own[port])
            assert await bench.results() == [added(*own)] * 2
            asks, spoilt = rng.randrange(2), (rng.randrange(beats), rng.randrange(66))
            for bad in (True, False):
                # The second time it is turned back.
                bench.turn(2, offset % (2 * WINDOW), *spoilt)
                await bench.contribute(asks, offset, own[asks])
                found = await bench.results()
                assert not found[1 - asks]
                if bad:
                    assert bench.told.pop() == (offset, AbortCause.PARITY)
                    assert len(found[asks]) == beats and found[asks][-1][1:] == (1, 1)
                else:
                    assert found[asks] == added(*own)
                assert not bench.told

    simulate(body)


def test_a_damaged_sum_is_not_sent_as_the_result_that_its_slot_held(simulate):
    rng = random.Random(harness.seed())

    async def body(bench):
        kept = {}
        for offset in range(2 * WINDOW):
            kept[offset] = [drawn(rng, BEATS) for _ in range(2)]
            for port in range(2):
                await bench.contribute(port, offset, kept[offset][port])
            await bench.results()
        for offset in range(2 * WINDOW, 3 * WINDOW):
            own = [drawn(rng, BEATS) for _ in range(2)]
            before, asks = offset - 2 * WINDOW, rng.randrange(2)
            await bench.contribute(0, offset, own[0])
            bench.turn(0, before, rng.randrange(BEATS), rng.randrange(66))
            await bench.contribute(1, offset, own[1])
            await bench.results()
            assert bench.told.pop() == (offset, AbortCause.PARITY)
            await bench.contribute(asks, before, kept[before][asks])
            assert await bench.results() == [[], []]
            for port in range(2):
                await bench.contribute(port, offset, own[port])
            assert await bench.results() == [added(*own)] * 2

    simulate(body)


@pytest.mark.parametrize("gap", range(4))
def test_a_copy_right_behind_a_packet_counts_for_nothing(simulate, gap):
    async def body(bench):
        for offset in range(3 * WINDOW):
            for word in (5, 6, 7):
                await bench.contribute(0, offset, [word], wait=gap)
            await bench.contribute(1, offset, [offset])
            assert await bench.results() == [[(5 + offset, 1, 0)]] * 2
            assert bench.became == {
                "contribution": offset + 1, "duplicate": 2 * offset + 2, "out_of_window": 0,
                "bounds": 0}

    simulate(body)


def test_a_result_waits_until_all_its_ports_have_room(simulate):
    async def body(bench):
        for offset, room in enumerate((0, 1, 2)):
            bench.ctx.set(bench.reducer.room, room)
            for port in range(2):
                await bench.contribute(port, offset, [offset])
            assert await bench.results() == [[], []]
        bench.ctx.set(bench.reducer.room, 3)
        assert await bench.results() == [[(2 * offset, 1, 0) for offset in range(3)]] * 2

    simulate(body)


def test_a_slot_that_was_aborted_waits_for_all_though_one_port_was_busy(simulate):
    rng = random.Random(harness.seed())
    # Cycles from the end of what keeps the one port busy to the packets of both that come again.
    skews = [(early, late) for early in range(-4, 5) for late in (2, 3, 6)]

    async def body(bench):
        for offset, skew in enumerate(skews):
            wrong, right = drawn(rng, 2), [drawn(rng, 1) for _ in range(2)]
            early = rng.randrange(2)
            late = 1 - early
            await bench.contribute(late, offset, right[late])
            await bench.contribute(early, offset, wrong)
            # Beat behind beat of a packet out of the window: the port's mark is not taken back.
            bench.drive(late, offset + 4 * WINDOW, [0], last=False)
            assert await bench.results() == [[], []]
            assert bench.told == []
            for cycle in range(-4, 7):
                if cycle == skew[0]:
                    bench.drive(early, offset, right[early])
                if cycle == 0:
                    bench.drive(late, offset + 4 * WINDOW, [0])
                if cycle == skew[1]:
                    bench.drive(late, offset, right[late])
                await bench.tick()
                bench.drive(early, offset)
                if cycle >= 0:
                    bench.drive(late, offset)
            assert await bench.results() == [added(*right)] * 2
            assert bench.told.pop() == (offset, AbortCause.LENGTHS) and not bench.told

    simulate(body)


def test_a_packet_half_of_which_came_before_a_restart_does_not_count(simulate):
    rng = random.Random(harness.seed())

    async def body(bench):
        for before in range(1, 4):
            own = [drawn(rng, 4) for _ in range(2)]
            for word in own[0][:before]:
                bench.drive(0, 0, [word], last=False)
                await bench.tick()
            bench.drive(0, 0)
            await bench.tick(10)
            for operation in (GroupOperation.STOP, GroupOperation.START):
                await bench.command(operation)
            bench.drive(0, 0, [own[0][-1]])
            await bench.tick()
            bench.drive(0, 0)
            await bench.contribute(1, 0, own[1][:1])
            assert await bench.results() == [[], []]
            await bench.contribute(0, 0, own[0][:1])
            assert await bench.results() == [added(*(each[:1] for each in own))] * 2

    simulate(body)


def test_a_job_that_had_begun_is_over_before_its_group_starts_again(simulate):
    rng = random.Random(harness.seed())

    async def body(bench):
        for cycles in range(0, 40, 2):
            own, new = ([drawn(rng, BEATS) for _ in range(2)] for _ in range(2))
            for port in range(2):
                await bench.contribute(port, 0, own[port])
            await bench.tick(cycles)
            for operation in (GroupOperation.STOP, GroupOperation.START):
                await bench.command(operation)
            await bench.results()
            for port in range(2):
                await bench.contribute(port, 0, new[port])
            assert await bench.results() == [added(*new)] * 2

    simulate(body)


def test_a_result_that_is_gone_is_not_sent_again(simulate):
    rng = random.Random(harness.seed())

    async def body(bench):
        kept, gone = {}, 0
        for offset in range(8 * WINDOW):
            kept[offset] = own = [drawn(rng, BEATS) for _ in range(2)]
            before, asks = offset - 2 * WINDOW, rng.randrange(2)
            # Asked for while there is no room, it waits beside the sum that takes its place.
            bench.ctx.set(bench.reducer.room, 0)
            if before >= 0:
                await bench.contribute(asks, before, kept[before][asks])
            for port in rng.sample(range(2), 2):
                await bench.contribute(port, offset, own[port])
            bench.ctx.set(bench.reducer.room, 3)
            found = await bench.results()
            assert found[1 - asks] == added(*own)
            good = [found[asks][n:n + BEATS] for n in range(0, len(found[asks]), BEATS)
                    if not found[asks][n + BEATS - 1][2]]
            if before >= 0 and len(good) > 1:
                assert good.pop(0) == added(*kept[before])
            else:
                gone += before >= 0
            assert good == [added(*own)] and not bench.told
        assert gone

    simulate(body)


def test_aborts_wait_for_the_keeper_and_are_not_lost(simulate):
    rng = random.Random(harness.seed())

    async def body(bench):
        kept = [drawn(rng, 1) for _ in range(2)]
        for port in range(2):
            await bench.contribute(port, 0, kept[port])
        assert await bench.results() == [added(*kept)] * 2
        # A result that cannot be sent again, and an abort that a busy port keeps the keeper at.
        bench.turn(2, 0, 0, 0)
        own = {offset: [drawn(rng, 2 - port) for port in range(2)] for offset in (1, 2)}
        for port in range(2):
            await bench.contribute(port, 1, own[1][port])
        await bench.contribute(1, 2, own[2][1])
        bench.drive(1, 4 * WINDOW, [0], last=False)
        await bench.tick(60)
        for _ in range(200):
            await bench.contribute(0, 0, kept[0])
        await bench.contribute(0, 2, own[2][0])
        await bench.tick(60)
        bench.drive(1, 4 * WINDOW, [0])
        await bench.tick()
        bench.drive(1, 4 * WINDOW)
        await bench.tick(1000)
        await bench.results()
        assert {(offset, AbortCause.LENGTHS) for offset in (1, 2)} <= set(bench.told)
        for offset in (1, 2):
            right = [drawn(rng, 1) for _ in range(2)]
            for port in range(2):
                await bench.contribute(port, offset, right[port])
            assert await bench.results() == [added(*right)] * 2

    simulate(body)
