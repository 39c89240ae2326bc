# SPDX-License-Identifier: Apache-2.0
"""Flow hand: the entry that a command of the hashed flow table has at hand, and one taken up."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .context import FlowKey
from .flow_cam import FlowCommand
from .flow_finder import Stored, merged
from .flow_overflow import WORD, FlowEntry, words
from .place_hash import BANKS, PlaceHash

__all__ = ["FlowHand"]

#: What two flows of one key differ in where they overlap.
_OPTIONS = ("check_vlan", "vlan", "check_sport", "sport")


class FlowHand(wiring.Component):
    """Moves and compares entries word by word.

    Everything takes the same time, a step, which ends with a strobe of ``done``. In a step an entry
    is taken up from a source, or the one taken up comes to hand, or results only settle.

    Parameters
    ----------
    flows : int
        Flows of the table.

    Members
    -------
    command, accept, ready : while ``accept`` holds, ``ready`` comes, and the command's entry comes
        to hand in every cycle; it stays from the cycle on in which ``accept`` falls
    start : strobe: a step begins; what follows holds still until ``done``
    taking, source : an entry is taken up, from the source whose bit is set: a bank whose ``read``
        is right two cycles after ``start``, or the overflow, whose word n is right n cycles after
    banks, overflow : the sources
    copying : the entry taken up comes to hand
    done : strobe: the step ends
    entry, taken, taken_valid : at hand; taken up; whether there was one
    stored : a strobe a word of ``taken`` that has come
    places : where the entry at hand may stand, by bank
    same_key, same_number, same_options : ``entry`` and ``taken`` agree
    """

    def __init__(self, flows):
        self._flows = flows
        entry, place = FlowEntry(flows), range(flows // BANKS)
        self._words = -(-entry.size // WORD)
        super().__init__({
            "command": In(FlowCommand),
            "accept": In(1),
            "ready": Out(1),
            "start": In(1),
            "taking": In(1),
            "source": In(BANKS + 1),
            "banks": In(Stored(flows)).array(BANKS),
            "overflow": In(Stored(flows)),
            "copying": In(1),
            "done": Out(1),
            "entry": Out(entry),
            "taken": Out(entry),
            "taken_valid": Out(1),
            "stored": Out(self._words),
            "places": Out(place).array(BANKS),
            "same_key": Out(1),
            "same_number": Out(1),
            "same_options": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        # A word a cycle, then three cycles for what follows from it.
        step = Signal(self._words + 6)
        m.d.sync += step.eq(Cat(self.start, step))
        m.d.comb += [
            self.done.eq(step[-1]),
            self.stored.eq(step[3:-3] & self.taking.replicate(self._words)),
        ]

        # Opened one after the other, each word has a register of its own to keep it open.
        opened = Signal(self._words)
        m.d.sync += opened.eq(Mux(self.accept, Cat(1, opened), 0))
        m.d.comb += self.ready.eq(opened[-1])

        entry, taken = (Signal(FlowEntry(self._flows), name=name, reset_less=True)
                        for name in ("entry_at_hand", "entry_taken"))
        m.d.comb += [self.entry.eq(entry), self.taken.eq(taken)]
        offered = Signal(FlowEntry(self._flows))
        m.d.comb += [
            offered.key.eq(self.command.key),
            offered.number.eq(self.command.flow),
            offered.context.eq(self.command.context),
        ]

        sources = [*self.banks, self.overflow]
        chosen, equal = self.source, []
        columns = zip(*map(words, (entry, taken, offered, *(each.entry for each in sources))),
                      strict=True)
        for n, (at_hand, up, command, *found) in enumerate(columns):
            later = Signal.like(chosen, name=f"source_{n}")
            m.d.sync += later.eq(chosen)
            chosen = later
            copy, take = Signal(name=f"copy_{n}"), Signal(name=f"take_{n}")
            m.d.sync += [copy.eq(self.copying & step[n + 1]), take.eq(self.taking & step[n + 1])]
            with m.If(copy | opened[n]):
                m.d.sync += at_hand.eq(Mux(copy, up, command))
            with m.If(take):
                m.d.sync += up.eq(merged(found, chosen))
        for n, (left, right) in enumerate(zip(words(entry.key), words(taken.key), strict=True)):
            equal.append(Signal(name=f"equal_{n}"))
            m.d.sync += equal[-1].eq(left == right)
        m.d.sync += [
            self.taken_valid.eq(merged([source.valid for source in sources], self.source)),
            self.same_key.eq(Cat(equal).all()),
            self.same_number.eq(entry.number == taken.number),
            self.same_options.eq(Cat(getattr(entry.context, name) == getattr(taken.context, name)
                                     for name in _OPTIONS).all()),
        ]

        places = PlaceHash(FlowKey.as_shape().size, len(self.places[0]))
        digest = Cat(places.digest(list(Value.cast(entry.key))))
        held = Signal.like(digest, name="digest")
        m.d.sync += held.eq(digest)
        for out, bits in zip(self.places, places.places(list(held)), strict=True):
            m.d.comb += out.eq(Cat(bits))
        return m
