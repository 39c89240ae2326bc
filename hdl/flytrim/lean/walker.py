# SPDX-License-Identifier: Apache-2.0
"""Walker: where each record of a container begins and ends."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..packet import reverse_bytes
from . import container as c
from .chains import chains_of, prefix_words
from .context import LENGTH_BITS, WORDS_BITS, Extract, Useful

__all__ = ["Walker"]


class _Said(data.Struct):
    """What a word says of its record if it begins a full one: words of headers, bytes of payload,
    words of all; whether it can be one.
    """

    known: 1
    prefix: 3
    length: LENGTH_BITS
    words: 11


def _said(m, word, n):
    """The :class:`_Said` of word number ``n``, as a value."""
    length, chains = reverse_bytes(word[16:]), chains_of(m, word[:8], name=f"chains_{n}")
    prefix = Signal(3, name=f"prefix_{n}")
    m.d.comb += prefix.eq(prefix_words(chains))
    known = chains.any() & (length <= c.MAX_PAYLOAD)
    return Cat(known, prefix, length[:LENGTH_BITS], (prefix + ((length + 3) >> 2))[:11])


class Walker(wiring.Component):
    """Takes a record of at most a beat each cycle, a longer one at a beat a cycle.

    A record may lie in two beats, so the one behind is there, too. What a word would say if it
    began a record is worked out for all of them when a beat comes: the step from a record to the
    next has one selection and one sum. The cycle in which a container ends may be followed by one
    that takes nothing, where its last record lay in two beats.

    A record that does not end in its container, or of an opcode without payload, ends it.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    i : stream of :class:`Useful`
    room : there is room for what is in flight, and a record
    o : lane of :class:`Extract`; combinational
    malformed : strobe: what is left of a container was thrown away
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Useful(config))),
            "room": In(1),
            "o": Out(stream.Signature(Extract(config), always_ready=True)),
            "malformed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, words = self._config, self._config.words
        new, item = self.i.payload, self.o.payload

        # The beat in which the next word stands.
        valid, skipping = Signal(), Signal()
        beat = Signal(Useful(config), reset_less=True)
        said = Array(Signal(_Said, name=f"said_{n}", reset_less=True) for n in range(words))
        start, left, psn = Signal(range(words)), Signal(WORDS_BITS), Signal(24)

        # The record, or what is left of it.
        started, kept = Signal(), Signal(_Said)
        before = Signal(3)
        template, container = beat.container.template, beat.container
        bare = Signal(_Said)
        now = Signal(_Said)
        m.d.comb += [
            bare.known.eq(1),
            bare.length.eq(template.message_bytes),
            bare.words.eq((template.message_bytes + 3) >> 2),
            now.as_value().eq(Mux(started, kept, Mux(container.full, said[start].as_value(),
                                                     bare))),
        ]

        # What is taken of it: all, or its headers, or a beat.
        taken, whole, good, crosses, go = (Signal(range(words + 1), name="taken"), Signal(),
                                           Signal(), Signal(), Signal())
        step = Signal(range(2 * words))
        m.d.comb += [
            good.eq(started | now.known & (now.words <= left)),
            whole.eq(now.words <= words),
            taken.eq(Mux(whole, now.words,
                         Mux(now.prefix.any() & (now.prefix < words), now.prefix, words))),
            step.eq(start + taken),
            crosses.eq(step > words),
            go.eq(valid & good & self.room & (~crosses | self.i.valid)),
            self.o.valid.eq(go),
            item.pair.eq(Cat(beat.data, new.data)),
            item.start.eq(start),
            item.prefix.eq(Mux(now.prefix > taken, taken, now.prefix)),
            item.before.eq(Mux(started, before, 0)),
            item.count.eq(Mux(whole, now.length, Mux(now.prefix.any(), 0, config.lanes))),
            item.ends.eq(whole),
            item.container.eq(container),
            item.psn.eq(psn),
            self.malformed.eq(valid & ~good),
        ]
        with m.If(go):
            m.d.sync += [
                started.eq(~whole),
                before.eq(item.before + item.prefix),
                kept.prefix.eq(now.prefix - item.prefix),
                kept.length.eq(now.length - item.count),
                kept.words.eq(now.words - taken),
                left.eq(left - taken),
                psn.eq(psn + whole),
            ]

        # The next beat.
        over, loads = Signal(), Signal()
        m.d.comb += [
            over.eq(left == taken),
            loads.eq(self.i.valid & ~skipping & (
                ~valid | go & Mux(over, ~crosses, step >= words))),
            self.i.ready.eq(skipping | loads | go & over & crosses),
        ]
        with m.If(skipping & self.i.valid):
            m.d.sync += skipping.eq(~new.last)
        with m.If(self.malformed):
            m.d.sync += [valid.eq(0), skipping.eq(~beat.last)]
        with m.If(go):
            m.d.sync += [start.eq(step), valid.eq(~over & (step < words))]
        with m.If(loads):
            m.d.sync += [valid.eq(1), beat.eq(new)]
            m.d.sync += [each.as_value().eq(_said(m, new.data.word_select(n, 32), n))
                         for n, each in enumerate(said)]
            with m.If(new.first):
                m.d.sync += [start.eq(new.start), left.eq(new.container.words),
                             psn.eq(new.container.psn), started.eq(0)]
        return m
