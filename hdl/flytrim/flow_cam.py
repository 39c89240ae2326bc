# SPDX-License-Identifier: Apache-2.0
"""Flow CAM: key to flow context in constant time, changed under traffic in one step."""

import enum

from amaranth import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .context import FlowContext, FlowKey, Lookup

__all__ = ["FlowCam", "FlowCommand", "FlowOperation", "FlowStatus"]


class FlowOperation(enum.IntEnum):
    INSERT = 1
    REPLACE = 2
    DELETE = 3


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
    operation: 2
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
    o : lane of :class:`Lookup`, their results in order
    commands : stream of :class:`FlowCommand`
    status : :class:`FlowStatus` of the last command, valid while ``commands.ready``
    """

    latency = 2

    def __init__(self, flows):
        self._flows = flows
        super().__init__({
            "i": In(stream.Signature(FlowKey, always_ready=True)),
            "o": Out(stream.Signature(Lookup, always_ready=True)),
            "commands": In(stream.Signature(FlowCommand)),
            "status": Out(unsigned(4)),
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
        key = self.i.payload
        hits, dport_known, compared = Signal(self._flows), Signal(self._flows), Signal()
        m.d.sync += compared.eq(self.i.valid)
        for n, entry in enumerate(keys):
            m.d.sync += [
                hits[n].eq(valids[n] & (entry.as_value() == key.as_value())),
                dport_known[n].eq(valids[n] & (entry.dport == key.dport)),
            ]

        result = self.o.payload
        context = 0
        for n, entry in enumerate(contexts):
            context = context | (entry.as_value() & hits[n].replicate(len(entry.as_value())))
        m.d.sync += self.o.valid.eq(compared)
        with m.If(compared):
            m.d.sync += [
                result.dport_known.eq(dport_known.any()),
                result.hit.eq(hits.any()),
                result.flow.eq(Cat(
                    Cat(hits[n] for n in range(self._flows) if n >> bit & 1).any()
                    for bit in range(max(1, (self._flows - 1).bit_length())))),
                result.context.as_value().eq(context),
            ]

    def _elaborate_commands(self, m, valids, keys, contexts):
        # What a key could collide with, entry by entry, to be read through one after the other.
        layout = data.StructLayout({"key": FlowKey, "context": FlowContext})
        m.submodules.copy = copy = memory.Memory(shape=layout, depth=self._flows, init=[])
        read, write = copy.read_port(), copy.write_port()

        command = self.commands.payload
        held = Signal(FlowCommand, reset_less=True)
        entry, occupied = Signal(range(self._flows)), Signal()
        number, read_number = Signal(range(self._flows + 2)), Signal(range(self._flows))
        reading = Signal()
        m.d.comb += [
            entry.eq(held.flow),
            occupied.eq(Array(valids)[entry]),
            read.addr.eq(number),
            write.addr.eq(entry),
            write.data.key.eq(held.key),
            write.data.context.eq(held.context),
        ]

        same_key = read.data.key.as_value() == held.key.as_value()
        same_options = Cat(
            getattr(read.data.context, name) == getattr(held.context, name)
            for name in ("check_vlan", "vlan", "check_sport", "sport")).all()
        # Replacing an entry by a flow of the same key is no collision with itself.
        itself = (held.operation == FlowOperation.REPLACE) & (read_number == entry)
        collides, overlaps = Signal(), Signal()
        m.d.sync += [
            collides.eq(reading & Array(valids)[read_number] & same_key & ~itself),
            overlaps.eq(~same_options),
        ]

        written = Signal()
        with m.FSM():
            with m.State("Ready"):
                m.d.comb += self.commands.ready.eq(1)
                with m.If(self.commands.valid):
                    m.d.sync += [held.eq(command), number.eq(0), reading.eq(0)]
                    m.d.sync += self.status.eq(FlowStatus.DONE)
                    m.next = "Check"
            with m.State("Check"):
                m.next = "Ready"
                with m.If(held.operation == 0):
                    m.d.sync += self.status.eq(FlowStatus.UNKNOWN)
                with m.Elif(held.flow >= self._flows):
                    m.d.sync += self.status.eq(FlowStatus.BAD_NUMBER)
                with m.Elif((held.operation == FlowOperation.INSERT) & occupied):
                    m.d.sync += self.status.eq(FlowStatus.OCCUPIED)
                with m.Elif((held.operation != FlowOperation.INSERT) & ~occupied):
                    m.d.sync += self.status.eq(FlowStatus.EMPTY)
                with m.Elif(held.operation == FlowOperation.DELETE):
                    m.d.sync += valids.bit_select(entry, 1).eq(0)
                with m.Else():
                    m.next = "Search"
            with m.State("Search"):
                m.d.sync += [number.eq(number + 1), read_number.eq(number), reading.eq(1)]
                with m.If(collides):
                    m.d.sync += self.status.eq(Mux(overlaps, FlowStatus.OVERLAP,
                                                   FlowStatus.DUPLICATE))
                    m.next = "Ready"
                with m.Elif(number == self._flows + 1):
                    m.next = "Commit"
            with m.State("Commit"):
                m.d.comb += [written.eq(1), write.en.eq(1)]
                m.next = "Ready"

        context_written = Signal()
        m.d.sync += context_written.eq(written)
        with m.If(written):
            m.d.sync += valids.bit_select(entry, 1).eq(1)
        for n, (key, context) in enumerate(zip(keys, contexts, strict=True)):
            with m.If(written & (entry == n)):
                m.d.sync += key.eq(held.key)
            with m.If(context_written & (entry == n)):
                m.d.sync += context.eq(held.context)
