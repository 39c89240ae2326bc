# SPDX-License-Identifier: Apache-2.0
"""Flow finder: the lookups of the hashed flow table, one a cycle through its banks."""

import functools
import operator

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .context import FlowContext, FlowKey, Lookup
from .flow_overflow import FlowEntry
from .place_hash import BANKS, PlaceHash

__all__ = ["FlowFinder", "Stored", "merged"]


class Stored(data.StructLayout):
    """A place of a bank."""

    def __init__(self, flows):
        super().__init__({"valid": 1, "entry": FlowEntry(flows)})


class FlowFinder(wiring.Component):
    """Reads a key's place in each bank and compares. Latency 5, a lookup a cycle.

    A lookup that comes in cycle 0 sees the table as it is in cycle 1: then the banks are given
    ``places`` to read, the overflow ``key``, the ports its port, and ``live`` is looked at. No more
    than one entry is found, so answers are only merged.

    Parameters
    ----------
    flows : int
        Flows of the table.

    Members
    -------
    i : lane of :class:`FlowKey`, the lookups
    o : lane of :class:`Lookup`, their results in order; each holds until the next one
    key, places : of a lookup, in cycle 1
    live : whether the banks' places count, in cycle 1
    found : what stands at the places, in cycle 2
    known : whether a flow has the port, in cycle 2
    slot_hit, slot_answer : of the overflow, in cycle 3; zero where it has no such key
    """

    latency = 5

    def __init__(self, flows):
        self._flows = flows
        self._answer = data.StructLayout({"number": range(flows), "context": FlowContext})
        super().__init__({
            "i": In(stream.Signature(FlowKey, always_ready=True)),
            "o": Out(stream.Signature(Lookup, always_ready=True)),
            "key": Out(FlowKey),
            "places": Out(range(flows // BANKS)).array(BANKS),
            "live": In(1),
            "found": In(Stored(flows)).array(BANKS),
            "known": In(1),
            "slot_hit": In(1),
            "slot_answer": In(self._answer),
        })

    def elaborate(self, platform):
        m = Module()
        # The number behind a name is the cycle in which the signal stands.
        places = PlaceHash(FlowKey.as_shape().size, len(self.places[0]))
        digest = Cat(places.digest(list(Value.cast(self.i.payload))))
        digest_1 = Signal.like(digest, name="digest_1", reset_less=True)
        keys = [self.i.payload]
        for cycle in (1, 2, 3):
            keys.append(Signal(FlowKey, name=f"key_{cycle}", reset_less=True))
            m.d.sync += keys[cycle].eq(keys[cycle - 1])
        m.d.sync += digest_1.eq(digest)
        m.d.comb += self.key.eq(keys[1])
        for out, bits in zip(self.places, places.places(list(digest_1)), strict=True):
            m.d.comb += out.eq(Cat(bits))

        live_2, live_3, known_3, known_4 = (
            Signal(name=name) for name in ("live_2", "live_3", "known_3", "known_4"))
        found_3 = [Signal(Stored(self._flows), name=f"found_3_{n}", reset_less=True)
                   for n in range(BANKS)]
        m.d.sync += [
            live_2.eq(self.live), live_3.eq(live_2),
            known_3.eq(self.known), known_4.eq(known_3),
            *(register.eq(found) for register, found in zip(found_3, self.found, strict=True)),
        ]

        # A register is to drive 64 loads at most, so there are two of each that chooses. They are
        # made to differ where it makes no difference, or a tool would make one of them again.
        asked, idle = Signal(self.latency - 1), Signal(self.latency - 1, init=-1)
        m.d.sync += [asked.eq(Cat(self.i.valid, asked)), idle.eq(Cat(~self.i.valid, idle))]
        hits, other_hits, slot_hit_4 = Signal(BANKS), Signal(BANKS), Signal()
        answers_4 = [Signal(self._answer, name=f"answer_4_{n}", reset_less=True)
                     for n in range(BANKS + 1)]
        for n, found in enumerate(found_3):
            hit = live_3 & found.valid & (found.entry.key.as_value() == keys[3].as_value())
            m.d.sync += [
                hits[n].eq(hit), other_hits[n].eq(hit & asked[2]),
                answers_4[n].number.eq(found.entry.number),
                answers_4[n].context.eq(found.entry.context),
            ]
        m.d.sync += [answers_4[BANKS].eq(self.slot_answer), slot_hit_4.eq(self.slot_hit)]

        result = self.o.payload
        m.d.sync += self.o.valid.eq(asked[3])
        with m.If(~idle[3]):
            m.d.sync += [
                result.dport_known.eq(known_4),
                result.hit.eq(other_hits.any() | slot_hit_4),
                result.flow.eq(merged([each.number for each in answers_4], other_hits)),
            ]
        for name, _ in FlowContext.as_shape():
            wide = name == "message_bytes"
            with m.If(~idle[3] if wide else asked[3]):
                m.d.sync += getattr(result.context, name).eq(
                    merged([getattr(each.context, name) for each in answers_4],
                           other_hits if wide else hits))
        return m


def merged(values, chosen):
    """Those of the values whose bit is set; values beyond the bits count, too."""
    values = [Value.cast(value) for value in values]
    gated = [value & bit.replicate(len(value))
             for value, bit in zip(values, chosen, strict=False)]
    return functools.reduce(operator.or_, [*gated, *values[len(gated):]])
