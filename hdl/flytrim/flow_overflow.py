# SPDX-License-Identifier: Apache-2.0
"""Overflow of the flow table: a few slots compared at once, for entries without a place."""

from amaranth import Cat, Const, Module, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from .context import FlowContext, FlowKey

__all__ = ["WORD", "FlowEntry", "FlowOverflow", "words"]

#: An entry moves word by word, so that no control signal drives more than about this many bits.
WORD = 63


class FlowEntry(data.StructLayout):
    """A registered flow, as it stands in the table."""

    def __init__(self, flows):
        super().__init__({"key": FlowKey, "number": range(flows), "context": FlowContext})


def words(entry):
    """The words of an entry, the last of them shorter."""
    value = Value.cast(entry)
    return [value[start:start + WORD] for start in range(0, len(value), WORD)]


class FlowOverflow(wiring.Component):
    """Slots that a lookup sees all at once. One lookup a cycle, latency 2.

    An entry is written word by word into the slot ``spare``, which no lookup sees until
    ``publish``; ``release`` hides another slot in the same cycle. A slot's contents never change
    while a lookup may see it.

    Parameters
    ----------
    flows : int
        Flows of the table.
    slots : int
        At least 2.

    Members
    -------
    key : a lookup
    hit, answer : two cycles later, whether a slot has the key, and its number and context; zero
        where none has
    entry : what is written
    store : a strobe a word
    publish : strobe: the slot ``spare`` counts from the next cycle on
    release, released : strobe: the slot ``released`` counts no more from the next cycle on
    spare : the lowest slot that is free
    empty, roomy : no slot is taken; two at least are free
    row : a slot to read
    row_valid : it is taken; one cycle later
    read : word n of its entry, n cycles later

    ``spare``, ``empty`` and ``roomy`` are right three cycles after a strobe.
    """

    def __init__(self, flows, slots):
        self._flows, self._slots = flows, slots
        entry = FlowEntry(flows)
        numbers = range(slots)
        super().__init__({
            "key": In(FlowKey),
            "hit": Out(1),
            "answer": Out(data.StructLayout({"number": range(flows), "context": FlowContext})),
            "entry": In(entry),
            "store": In(-(-entry.size // WORD)),
            "publish": In(1),
            "release": In(1),
            "released": In(numbers),
            "spare": Out(numbers),
            "empty": Out(1),
            "roomy": Out(1),
            "row": In(numbers),
            "row_valid": Out(1),
            "read": Out(entry),
        })

    def elaborate(self, platform):
        m = Module()
        valids, free, lowest = (Signal(self._slots, name=name)
                                for name in ("valids", "free", "lowest"))
        for n in range(self._slots):
            with m.If(self.publish & lowest[n]):
                m.d.sync += valids[n].eq(1)
            with m.Elif(self.release & (self.released == n)):
                m.d.sync += valids[n].eq(0)
        m.d.sync += [
            free.eq(~valids),
            lowest.eq(free & -free),
            self.spare.eq(_number(free & -free)),
            self.empty.eq(free.all()),
            self.roomy.eq((free & (free - 1)).any()),
            self.row_valid.eq(valids.bit_select(self.row, 1)),
        ]

        keys = [Signal(FlowKey, name=f"key_{n}", reset_less=True) for n in range(self._slots)]
        for stored, source, part in zip(zip(*map(words, keys), strict=True),
                                        words(self.entry.key), self.store, strict=False):
            for n, word in enumerate(stored):
                with m.If(part & lowest[n]):
                    m.d.sync += word.eq(source)

        hits = Signal(self._slots)
        m.d.sync += hits.eq(Cat(valid & (key.as_value() == self.key.as_value())
                                for valid, key in zip(valids, keys, strict=True)))
        self._elaborate_answers(m, hits)
        self._elaborate_reads(m)
        return m

    def _elaborate_answers(self, m, hits):
        # Slot n is row n + 1. Row 0 stays zero: it answers when no slot does.
        m.submodules.answers = answers = memory.Memory(
            shape=self.answer.shape(), depth=self._slots + 1, init=[])
        write, read = answers.write_port(), answers.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(self.spare + 1),
            write.data.number.eq(self.entry.number),
            write.data.context.eq(self.entry.context),
            write.en.eq(self.store[-1]),
            read.addr.eq(_number(Cat(Const(0, 1), hits))),
        ]
        m.d.sync += [self.hit.eq(hits.any()), self.answer.eq(read.data)]

    def _elaborate_reads(self, m):
        row = self.row
        for n, (source, out) in enumerate(zip(words(self.entry), words(self.read), strict=True)):
            m.submodules[f"copy_{n}"] = copy = memory.Memory(
                shape=len(source), depth=self._slots, init=[])
            write, read = copy.write_port(), copy.read_port(domain="comb")
            m.d.comb += [
                write.addr.eq(self.spare),
                write.data.eq(source),
                write.en.eq(self.store[n]),
                read.addr.eq(row),
                out.eq(read.data),
            ]
            later = Signal.like(row, name=f"row_{n}")
            m.d.sync += later.eq(row)
            row = later


def _number(onehot):
    """The number of the set bit; 0 where none is."""
    return Cat(Cat(each for n, each in enumerate(onehot) if n >> bit & 1).any()
               for bit in range(max(1, (len(onehot) - 1).bit_length())))
