# SPDX-License-Identifier: Apache-2.0
"""Flow CAM: key to flow context in constant time, changed under traffic in one step."""

import enum

from amaranth import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .context import FlowContext, FlowKey, FlowRecord, Lookup
from .logic import KEEP, Copies, load_soon, same_parts, select

__all__ = ["FlowCam", "FlowCommand", "FlowOperation", "FlowStatus"]


class FlowOperation(enum.IntEnum):
    INSERT = 1
    REPLACE = 2
    DELETE = 3
    READ = 4
    RESTART = 5


class FlowStatus(enum.IntEnum):
    """Outcome of a command; anything but ``DONE`` changed nothing."""

    DONE = 0
    BAD_NUMBER = 1
    OCCUPIED = 2
    EMPTY = 3
    DUPLICATE = 4
    OVERLAP = 5
    UNKNOWN = 6
    #: These two of :class:`flytrim.flow_hash.FlowHash` alone.
    FULL = 7
    PORTS = 8


class FlowCommand(data.Struct):
    operation: 3
    flow: 16
    key: FlowKey
    context: FlowContext


class FlowCam(wiring.Component):
    """All entries compared at once. Latency 2 cycles, one lookup a cycle.

    The result of a lookup holds until the next one's.

    A command takes a few cycles more than there are entries: it reads the table through to find a
    key that is there already, then changes the entry in one step. Key and valid bit change in one
    cycle, the context in the next: just as a lookup compares in one cycle and reads the context in
    the next. So every lookup sees an entry wholly before or wholly after its change.

    Parameters
    ----------
    flows : int
        Entries; flow number n is entry n.

    Members
    -------
    i : lane of :class:`FlowKey`, the lookups
    key_again : the key in ``i`` from registers of its own: half of the entries compare with it,
        since one register could not reach them all
    o : lane of :class:`Lookup`, their results in order
    commands : stream of :class:`FlowCommand`
    status : :class:`FlowStatus` of the last command, valid while ``commands.ready``
    number : of the flow of the command that runs, else of the one offered
    restarts : strobe: the flow of this number, which has been right for two cycles or more, starts
        anew; the first lookup that can find it comes later
    reads, found : strobe: in the cycle after it ``found`` is the entry asked for
    """

    latency = 2

    def __init__(self, flows):
        self._flows = flows
        super().__init__({
            "i": In(stream.Signature(FlowKey, always_ready=True)),
            "key_again": In(FlowKey),
            "o": Out(stream.Signature(Lookup, always_ready=True)),
            "commands": In(stream.Signature(FlowCommand)),
            "status": Out(unsigned(4)),
            "number": Out(unsigned(16)),
            "restarts": Out(1),
            "reads": Out(1),
            "found": Out(FlowRecord),
        })

    def elaborate(self, platform):
        m = Module()
        flows = range(self._flows)
        valids = Signal(self._flows)
        keys = [Signal(FlowKey, name=f"key_{n}", reset_less=True) for n in flows]
        contexts = [Signal(FlowContext, name=f"context_{n}", reset_less=True) for n in flows]

        self._elaborate_lookup(m, valids, keys, contexts)
        self._elaborate_commands(m, valids, keys, contexts)
        return m

    def _elaborate_lookup(self, m, valids, keys, contexts):
        result = self.o.payload
        target = Cat(result.hit, result.flow, result.context)
        answers = [Cat(Const(1, 1), Const(n, 16), context) for n, context in enumerate(contexts)]
        compared = Signal()
        m.d.sync += [compared.eq(self.i.valid), self.o.valid.eq(compared)]
        # In three parts, so that none is deep; one is the port, which must be told apart.
        ports, rests = [], []
        for n, entry in enumerate(keys):
            key = self.i.payload if n < self._flows // 2 else self.key_again
            port = valids[n] & (entry.dport == key.dport)
            rest = Signal(2, name=f"rest_{n}", reset_less=True)
            m.d.sync += rest.eq(Cat(
                (entry.src == key.src) & (entry.ipv6 == key.ipv6),
                (entry.dst == key.dst) & (entry.qpn == key.qpn)))
            ports.append(Copies(m, port, len(target), name=f"port_{n}"))
            rests.append(rest)
        with m.If(compared):
            m.d.sync += result.dport_known.eq(Cat(port[0] for port in ports).any())
        found = Signal(len(target))
        for n, (_, part) in enumerate(ports[0].parts()):
            m.d.comb += found[part].eq(select(
                (port[n] & rest.all(), answer[part])
                for port, rest, answer in zip(ports, rests, answers, strict=True)))
        load_soon(m, target, found, self.i.valid, name="result_load")

    def _elaborate_commands(self, m, valids, keys, contexts):
        # What a key could collide with, entry by entry, to be read through one after the other.
        # Of one row there would be no address.
        rows = range(max(2, self._flows))
        m.submodules.copy = copy = memory.Memory(
            shape=FlowRecord, depth=len(rows), init=[], attrs={"ram_style": "block"})
        read, write = copy.read_port(), copy.write_port()

        # Follows the port until a command has come from there.
        held = Signal(FlowCommand, reset_less=True)
        ready = Signal(init=1)
        will_be_ready = Signal()
        m.d.comb += self.commands.ready.eq(ready)
        m.d.sync += ready.eq(will_be_ready)
        load_soon(m, held.as_value(), self.commands.payload.as_value(), will_be_ready,
                  name="held_load", reset=1)

        entry, occupied = Signal(rows), Signal()
        # For the copy alone: by the time it is written, its number has been there for long.
        row = Signal.like(entry, reset_less=True, attrs=KEEP)
        m.d.sync += row.eq(entry)
        number, read_number = Signal(range(self._flows + 2)), Signal(rows)
        reading = Signal()
        m.d.comb += [
            entry.eq(held.flow),
            occupied.eq(Array(valids)[entry]),
            read.addr.eq(number),
            write.addr.eq(row),
            write.data.key.eq(held.key),
            write.data.context.eq(held.context),
            self.number.eq(held.flow),
            self.found.eq(read.data),
        ]

        def options(context):
            return Cat(context.check_vlan, context.vlan, context.check_sport, context.sport)

        # Replacing an entry by a flow of the same key is no collision with itself.
        itself = (held.operation == FlowOperation.REPLACE) & (read_number == entry)
        compared_one = Signal()
        m.d.sync += compared_one.eq(reading & Array(valids)[read_number] & ~itself)
        # The memory is slow: what it gives is compared in parts first.
        same = {}
        for name, one, other in (
                ("key", read.data.key.as_value(), held.key.as_value()),
                ("options", options(read.data.context), options(held.context))):
            parts = same_parts(one, other)
            same[name] = Signal(len(parts), name=f"same_{name}", reset_less=True)
            m.d.sync += same[name].eq(parts)
        collides, overlaps = Signal(), Signal()
        m.d.comb += [collides.eq(compared_one & same["key"].all()),
                     overlaps.eq(~same["options"].all())]

        written, reads_one, restarts_one = Signal(), Signal(), Signal()
        m.d.comb += [
            reads_one.eq(held.operation == FlowOperation.READ),
            restarts_one.eq(held.operation == FlowOperation.RESTART),
        ]
        with m.FSM():
            with m.State("Ready"):
                m.d.sync += [number.eq(0), reading.eq(0)]
                m.d.comb += will_be_ready.eq(~self.commands.valid)
                with m.If(self.commands.valid):
                    m.d.sync += self.status.eq(FlowStatus.DONE)
                    m.next = "Check"
            with m.State("Check"):
                m.d.comb += will_be_ready.eq(1)
                m.next = "Ready"
                with m.If((held.operation == 0) | (held.operation > FlowOperation.RESTART)):
                    m.d.sync += self.status.eq(FlowStatus.UNKNOWN)
                with m.Elif(held.flow >= self._flows):
                    m.d.sync += self.status.eq(FlowStatus.BAD_NUMBER)
                with m.Elif((held.operation == FlowOperation.INSERT) & occupied):
                    m.d.sync += self.status.eq(FlowStatus.OCCUPIED)
                with m.Elif((held.operation != FlowOperation.INSERT) & ~occupied):
                    m.d.sync += self.status.eq(FlowStatus.EMPTY)
                with m.Else():
                    m.d.comb += will_be_ready.eq(0)
                    m.d.sync += number.eq(Mux(reads_one, entry, 0))
                    m.next = "Search"
                    with m.If(reads_one):
                        m.next = "Read"
                    with m.Elif((held.operation == FlowOperation.DELETE) | restarts_one):
                        m.next = "Commit"
            with m.State("Search"):
                m.d.sync += [number.eq(number + 1), read_number.eq(number), reading.eq(1)]
                with m.If(collides):
                    m.d.sync += self.status.eq(Mux(overlaps, FlowStatus.OVERLAP,
                                                   FlowStatus.DUPLICATE))
                    m.d.comb += will_be_ready.eq(1)
                    m.next = "Ready"
                with m.Elif(number == self._flows + 1):
                    m.next = "Commit"
            with m.State("Read"):
                m.d.comb += [self.reads.eq(1), will_be_ready.eq(1)]
                m.next = "Ready"
            with m.State("Commit"):
                m.d.comb += [
                    written.eq(~restarts_one),
                    write.en.eq(~restarts_one),
                ]
                m.next = "Settle"
            with m.State("Settle"):
                m.d.comb += [
                    will_be_ready.eq(1),
                    self.restarts.eq(restarts_one | (held.operation == FlowOperation.INSERT)),
                ]
                m.next = "Ready"

        # The entry changes a cycle later, from a register of its own that reaches all entries.
        fresh, changing = Signal(FlowCommand, reset_less=True), Signal(self._flows)
        m.d.sync += fresh.eq(held)
        for n, (key, context) in enumerate(zip(keys, contexts, strict=True)):
            changes = written & (fresh.flow[:len(entry)] == n)
            m.d.sync += changing[n].eq(changes)
            with m.If(changing[n]):
                m.d.sync += valids[n].eq(fresh.operation != FlowOperation.DELETE)
            load_soon(m, key.as_value(), fresh.key.as_value(), changes, name=f"key_{n}_load")
            load_soon(m, context.as_value(), fresh.context.as_value(), changing[n],
                      name=f"context_{n}_load")
