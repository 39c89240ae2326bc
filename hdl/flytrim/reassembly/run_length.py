# SPDX-License-Identifier: Apache-2.0
"""Run length: how many packets from the first missing one on have come after all."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..logic import delayed
from ..packet import thermometer

__all__ = ["RunLength"]

GROUP = 16


class RunLength(wiring.Component):
    """Counts the packets in a row that marks show, from a number on.

    A mark is what the bit above the mark's place in a packet's number was when it came: the next
    packet of that place has the other one. Latency 5 cycles, one a cycle.

    Parameters
    ----------
    marks : int
        Places, a power of two from 32 on.

    Members
    -------
    i : lane of ``marks``, and the ``number`` from which on is counted, modulo twice their number
    o : lane of the length of the run
    present : with ``o``: bit n is set if the packet n behind the number has come
    """

    latency = 5

    def __init__(self, marks):
        self._marks = marks
        super().__init__({
            "i": In(stream.Signature(StructLayout(
                {"marks": marks, "number": ceil_log2(2 * marks)}), always_ready=True)),
            "o": Out(stream.Signature(range(marks + 1), always_ready=True)),
            "present": Out(marks),
        })

    def elaborate(self, platform):
        m = Module()
        given, count = self.i.payload, self._marks
        groups = count // GROUP
        place, phase = given.number[:-1], given.number[-1]

        # Places before the number's own belong to the next round.
        present = Signal(count)
        m.d.sync += present.eq(
            given.marks ^ ~(phase.replicate(count) ^ thermometer(place, count)))
        place_then = delayed(m, place, 1, name="place")
        coarse, fine = Signal(count), Signal(count)
        m.d.sync += [
            coarse.eq(Array(present.rotate_right(GROUP * n) for n in range(groups))[
                place_then[ceil_log2(GROUP):]]),
            fine.eq(Array(coarse.rotate_right(n) for n in range(GROUP))[
                delayed(m, place_then[:ceil_log2(GROUP)], 1, name="low")]),
        ]

        full, lengths = Signal(groups), [Signal(range(GROUP), name=f"length_{n}")
                                         for n in range(groups)]
        for n, length in enumerate(lengths):
            part = fine[GROUP * n:GROUP * (n + 1)]
            m.d.sync += [full[n].eq(part.all()), length.eq(_ones(part))]
        run = Const(count)
        for n, length in reversed(list(enumerate(lengths))):
            run = Mux(full[n], run, Cat(length, Const(n, ceil_log2(count) + 1 - len(length))))
        m.d.sync += [self.o.payload.eq(run), self.present.eq(delayed(m, fine, 1, name="fine"))]
        m.d.comb += self.o.valid.eq(delayed(m, self.i.valid, self.latency, name="valid",
                                            reset=True))
        return m


def _ones(part):
    """How many bits are set before the first that is not, if one is not."""
    found = Const(0)
    for n in reversed(range(len(part))):
        found = Mux(part[n], found, n)
    return found
