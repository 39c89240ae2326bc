# SPDX-License-Identifier: Apache-2.0
"""The contract of a flow table, and a bench that holds any table against it.

Keys are the bits of a ``FlowKey`` throughout.
"""

import random
from collections import Counter
from dataclasses import dataclass

import cocotb
from agents import Edges, LaneMonitor, LaneSource, now
from pacing import FULL_RATE

from flytrim.context import FlowContext, FlowKey, FlowRecord, Lookup
from flytrim.flow_cam import FlowCommand, FlowOperation, FlowStatus

__all__ = ["FlowTableBench", "Table", "command_bits", "fill", "neighbours", "random_bits",
           "random_commands", "random_key"]

OPTIONS = ("check_vlan", "vlan", "check_sport", "sport")


def random_bits(shape, rng):
    return rng.getrandbits(shape.as_shape().size)


def random_key(rng, **fields):
    """A key of random fields but those given."""
    key = FlowKey.from_bits(random_bits(FlowKey, rng))
    return FlowKey.const({name: fields.get(name, key[name])
                          for name, _ in FlowKey.as_shape()}).as_bits()


def neighbours(rng, count):
    """A small pool of keys, so that they meet again; each has another, one bit apart."""
    keys = [random_bits(FlowKey, rng) for _ in range(count)]
    starts = [field.offset for _, field in FlowKey.as_shape()]
    return keys + [key ^ 1 << rng.choice(starts) for key in keys]


def command_bits(operation, number, key, context):
    return FlowCommand.const({
        "operation": operation, "flow": number, "key": FlowKey.from_bits(key),
        "context": FlowContext.from_bits(context)}).as_bits()


class Table:
    """The contract, as a dict: number to (key, context).

    A table may be limited to so many distinct ports.
    """

    def __init__(self, flows, ports=None):
        self.flows, self.ports = flows, ports
        self.clear()

    def copy(self):
        """Another of the same contents."""
        other = Table(self.flows, self.ports)
        other.entries, other._numbers = dict(self.entries), dict(self._numbers)
        other._dports = Counter(self._dports)
        return other

    def clear(self):
        self.entries, self._numbers, self._dports = {}, {}, Counter()

    def status(self, operation, number, key, context):
        """What a command comes to; that there is no room left is not known here."""
        if operation not in set(FlowOperation):
            return FlowStatus.UNKNOWN
        if number >= self.flows:
            return FlowStatus.BAD_NUMBER
        if (operation == FlowOperation.INSERT) == (number in self.entries):
            return (FlowStatus.OCCUPIED if operation == FlowOperation.INSERT else FlowStatus.EMPTY)
        if operation not in (FlowOperation.INSERT, FlowOperation.REPLACE):
            return FlowStatus.DONE
        other = self._numbers.get(key)
        if other is not None and not (operation == FlowOperation.REPLACE and other == number):
            there, given = (FlowContext.from_bits(bits)
                            for bits in (self.entries[other][1], context))
            same = all(there[name] == given[name] for name in OPTIONS)
            return FlowStatus.DUPLICATE if same else FlowStatus.OVERLAP
        dports = Counter(self._dports)
        if operation == FlowOperation.REPLACE:
            dports[self._dport(self.entries[number][0])] -= 1
        dports[self._dport(key)] += 1
        if self.ports is not None and len(+dports) > self.ports:
            return FlowStatus.PORTS
        return FlowStatus.DONE

    def apply(self, operation, number, key, context):
        """Do what a command does that is ``DONE``."""
        if operation in (FlowOperation.READ, FlowOperation.RESTART):
            return
        if operation != FlowOperation.INSERT:
            old, _ = self.entries.pop(number)
            del self._numbers[old]
            self._dports[self._dport(old)] -= 1
        if operation != FlowOperation.DELETE:
            self.entries[number] = key, context
            self._numbers[key] = number
            self._dports[self._dport(key)] += 1

    def lookup(self, key):
        """Bits of the answer."""
        fields = {"dport_known": self._dports[self._dport(key)] > 0}
        if (number := self._numbers.get(key)) is not None:
            context = FlowContext.from_bits(self.entries[number][1])
            fields |= {"hit": 1, "flow": number, "context": context}
        return Lookup.const(fields).as_bits()

    @staticmethod
    def _dport(key):
        return FlowKey.from_bits(key).dport


@dataclass
class _Change:
    """A command that ran: whether a lookup has shown the table behind it."""

    refused: bool = False
    seen: bool = False


class FlowTableBench:
    """Runs commands and lookups on the table whose ports are named ``<prefix>__...``.

    Lookups ask for keys of ``pool``. While a command runs they may show the table as it was before
    it, until one shows it as it is after it. The flows that start anew are told, and the entries
    that are read: those of commands, each once, and no others.

    Parameters
    ----------
    table : function
        Makes an empty :class:`Table`.
    latency : int
        Cycles from a lookup to its answer.
    patience : int
        Cycles that a command may take.
    pacing : Pacing
        Of the lookups.
    """

    def __init__(self, dut, prefix, table, *, latency, patience, pacing=FULL_RATE):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.edges, self._latency, self._patience = Edges(dut), latency, patience
        self.table, self._before = table(), table()
        self.pool = neighbours(self.rng, 6)
        self._keys = LaneSource(self.edges, f"{prefix}__i", FlowKey, self.rng, pacing=pacing)
        self._commands = LaneSource(self.edges, f"{prefix}__commands", FlowCommand, self.rng)
        self._ready, self._status, self._valid, self._payload = (
            getattr(dut, f"{prefix}__{name}")
            for name in ("commands__ready", "status", "o__valid", "o__payload"))
        self._number, self._restarts, self._reads, self._found = (
            getattr(dut, f"{prefix}__{name}") for name in ("number", "restarts", "reads", "found"))
        self._asked, self._answers, self._checked, self._shown = [], [], 0, None
        # Numbers of the last cycles, whether a read ended in the last one, and what was told.
        self._numbers, self._read, self._told = [], False, []
        self._monitor = LaneMonitor(self.edges, f"{prefix}__o", Lookup, self.rng, pacing=FULL_RATE,
                                    callback=self._answers.append)
        self.edges.every(self._watch)

    def _watch(self):
        """The result of a lookup holds until the next one's; what is told beside goes to a list."""
        self._watch_commands()
        if self.edges.in_reset:
            self._shown = None
        elif self._valid.value:
            self._shown = int(self._payload.value)
        elif self._shown is not None:
            assert int(self._payload.value) == self._shown, f"@ cycle {now()}: a result has changed"

    def _watch_commands(self):
        if self.edges.in_reset:
            self._numbers, self._read, self._told = [], False, []
            return
        self._numbers = [*self._numbers[-2:], int(self._number.value)]
        if self._read:
            self._told.append((FlowOperation.READ, int(self._found.value)))
        self._read = bool(self._reads.value)
        if self._restarts.value:
            assert len(set(self._numbers)) == 1, f"@ cycle {now()}: {self._numbers} as one restarts"
            self._told.append((FlowOperation.RESTART, self._numbers[-1]))

    async def start(self):
        await self.edges.start()
        await self._until_ready()

    async def _until_ready(self):
        start = now()
        await self.edges.wait()
        while not self._ready.value:
            await self.ask()
            assert now() - start < self.table.flows + 20, "no command is taken"

    async def reset(self):
        """Reset in the middle of lookups: those under way have no answer, the table is empty."""
        await self._keys.idle()
        await self.edges.wait(self.rng.randrange(1, self._latency))
        self.dut.rst.value = 1
        await self.edges.wait(self.rng.randrange(2, 5))
        self.dut.rst.value = 0
        for each in (self._asked, self._keys.cycles):
            del each[len(self._answers):]
        self.table.clear()
        self._before.clear()
        await self._until_ready()

    async def ask(self, key=None, change=None):
        """One cycle with a lookup in it, of any key of the pool unless one is given."""
        if not self._keys.waiting:
            key = self.rng.choice(self.pool) if key is None else key
            after = self.table.lookup(key)
            before = self._before.lookup(key) if change else after
            self._asked.append((key, change, before, after))
            self._keys.send(key)
        await self.edges.wait()

    async def ask_all(self, keys):
        """A lookup of each key, back to back, and :meth:`check`."""
        for key in keys:
            while self._keys.waiting:
                await self.edges.wait()
            await self.ask(key)
        await self.check()

    async def run(self, operation, number, key=0, context=0, *, asking=True, full=False):
        """A command under full-rate lookups; gives its status.

        With ``full``, the table may refuse it for want of room, and nothing has changed then.
        """
        command = operation, number, key, context
        expected, change = self.table.status(*command), _Change()
        while self._keys.waiting:
            await self.edges.wait()
        if expected == FlowStatus.DONE:
            self.table.apply(*command)
        # The last of these may wait until the command runs.
        for _ in range(self.rng.randrange(4) if asking else 0):
            await self.ask(change=change)
        await self._send(command, change if asking else None)
        status = FlowStatus(int(self._status.value))
        await self._check_told(status, *command)
        if full and expected == FlowStatus.DONE and status == FlowStatus.FULL:
            change.refused = True
            self.table = self._before.copy()
        else:
            assert status == expected, f"{operation!r} on {number}: {status!r}, not {expected!r}"
            if status == FlowStatus.DONE:
                self._before.apply(*command)
        return status

    async def _check_told(self, status, operation, number, *_):
        """What was told beside the lookups is what the command that ended was about."""
        expected = []
        if status == FlowStatus.DONE and operation in (FlowOperation.INSERT, FlowOperation.RESTART):
            expected = [(FlowOperation.RESTART, number)]
        elif status == FlowStatus.DONE and operation == FlowOperation.READ:
            key, context = self.table.entries[number]
            expected = [(FlowOperation.READ, FlowRecord.const({
                "key": FlowKey.from_bits(key),
                "context": FlowContext.from_bits(context)}).as_bits())]
        await self.edges.wait(2)
        assert self._told == expected, f"{operation!r} on {number}: {status!r}, told {self._told}"
        self._told = []

    async def begin(self, operation, number, key, context, cycles):
        """A command that is not waited for: returns so many cycles after it was taken."""
        self._commands.send(command_bits(operation, number, key, context))
        taken = len(self._commands.cycles)
        while len(self._commands.cycles) == taken:
            await self.edges.wait()
        await self.edges.wait(cycles)

    async def _send(self, command, change):
        start, taken, begun = now(), len(self._commands.cycles), False
        self._commands.send(command_bits(*command))
        while not (begun and self._ready.value):
            # In the cycle in which the command is taken, ``ready`` is still set.
            begun = len(self._commands.cycles) > taken
            await (self.ask(change=change) if change else self.edges.wait())
            assert now() - start < self._patience, "the command does not end"

    async def check(self):
        """Every lookup so far was answered in time, by the table as it was or as it became."""
        await self._keys.idle()
        await self.edges.wait(self._latency + 2)
        assert len(self._answers) == len(self._asked)
        for number in range(self._checked, len(self._asked)):
            (key, change, before, after), (cycle, answer) = (self._asked[number],
                                                             self._answers[number])
            where = f"lookup {number} @ cycle {cycle} of key {key:#x}"
            taken = self._keys.cycles[number]
            assert cycle - taken == self._latency, f"{where}: latency {cycle - taken}"
            assert answer.as_bits() in (before, after), f"{where}: {answer!r} is of no table"
            if before != after:
                assert answer.as_bits() == before or not change.refused, (
                    f"{where}: {answer!r} is of a command that was refused")
                assert answer.as_bits() == after or not change.seen, (
                    f"{where}: {answer!r} is of the table already left")
                change.seen |= answer.as_bits() == after
        self._checked = len(self._asked)


async def random_commands(bench, numbers, statuses, count=400):
    """Random commands on a few numbers, until each of the statuses came."""
    seen = set()
    for _ in range(count):
        operation = bench.rng.choice((0, 1, 1, 1, 2, 2, 3, 4, 5, 6))
        context = random_bits(FlowContext, bench.rng)
        if bench.rng.random() < 0.5:
            plain = FlowContext.from_bits(context)
            context = FlowContext.const({
                name: 0 if name in OPTIONS else plain[name]
                for name, _ in FlowContext.as_shape()}).as_bits()
        seen.add(await bench.run(operation, bench.rng.choice(numbers), bench.rng.choice(bench.pool),
                                 context))
    assert seen == set(statuses)
    await bench.check()


async def fill(bench, keys, **options):
    """Insert keys under their numbers, look all up."""
    for number, key in enumerate(keys):
        context = random_bits(FlowContext, bench.rng)
        assert await bench.run(FlowOperation.INSERT, number, key, context,
                               **options) == FlowStatus.DONE
    await bench.ask_all(keys)
