# SPDX-License-Identifier: Apache-2.0
"""Words in block RAM that are read, changed and written back, one a cycle."""

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Contexts"]


class Contexts(wiring.Component):
    """A word for each of some numbers; each turn sees what all turns before it have written.

    A turn begins with its number in ``number``. Its word is there two cycles later, and what it
    becomes is written in that cycle. Turns may follow one another in every cycle.

    Parameters
    ----------
    shape : ShapeLike
        Of a word, zero in the beginning.
    depth : int
        Words.

    Members
    -------
    number : whose turn begins; beyond the depth it counts modulo the next power of two
    word : of the turn that began two cycles ago
    changed, change : the word becomes ``changed`` if ``change`` is set
    """

    #: Cycles from the number to the word.
    latency = 2

    def __init__(self, shape, depth):
        self._shape, self._depth = shape, max(2, depth)
        self._numbers = range(self._depth)
        super().__init__({
            "number": In(self._numbers), "word": Out(shape), "changed": In(shape),
            "change": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(
            shape=self._shape, depth=self._depth, init=[])
        write = words.write_port()
        read = words.read_port(transparent_for=(write,))
        next_number, number = (Signal(self._numbers, name=name, reset_less=True)
                               for name in ("next_number", "number"))
        m.d.sync += [next_number.eq(self.number), number.eq(next_number)]
        word = Signal.like(Value.cast(self.word), reset_less=True)
        # What the turn just before writes is not in memory yet.
        m.d.sync += word.eq(Mux(self.change & (number == next_number),
                                Value.cast(self.changed), Value.cast(read.data)))
        m.d.comb += [
            read.addr.eq(self.number),
            Value.cast(self.word).eq(word),
            write.addr.eq(number),
            write.data.eq(self.changed),
            write.en.eq(self.change),
        ]
        return m
