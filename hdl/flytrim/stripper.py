# SPDX-License-Identifier: Apache-2.0
"""Header stripper: a frame without its first bytes, realigned to byte lane 0."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .context import Parsed
from .logic import Copies, load_soon

__all__ = ["Stripped", "Stripper"]

#: Every header stack of a RoCEv2 packet ends two bytes past a multiple of four.
OFFSET, STEP = 2, 4


class Stripped(data.StructLayout):
    """What is left of a frame behind its headers, as it becomes known.

    An item has data (``count`` above 0), or says that the frame has ended, or both. The end comes
    for every frame, also for one that ended in its headers.

    Members
    -------
    data : payload and tail; bytes at and beyond ``count`` are undefined
    count : valid bytes, from lane 0; less than a beat only where ``final``
    final : no data of this frame follows
    end : the frame's last beat has come
    """

    def __init__(self, width):
        super().__init__({
            "data": width,
            "count": range(width // 8 + 1),
            "final": 1,
            "end": 1,
        })


class Stripper(wiring.Component):
    """Removes ``header_bytes`` bytes from each frame, at one beat a cycle without a bubble.

    A beat of output takes its bytes from two beats of input. It is formed when the second of them
    comes, or in the cycle behind the frame's last beat, where it needs no other. So the next frame,
    whose first output is due a cycle behind its first beat at the earliest, is never in the way.

    The shift is a multiple of four bytes plus two. It is done in two steps with a register between
    them; the second is combinational into ``o``. Latency 2 cycles from the beat that holds the
    first byte behind the headers, if it is the last or the next one follows at once. ``end`` comes
    2 cycles behind the last beat.

    Members
    -------
    i : lane of :class:`Parsed`
    i_soon : ``i.valid`` of the next cycle
    o : lane of :class:`Stripped`
    o_soon : in the next cycle ``o`` has an item with data
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Parsed(config), always_ready=True)),
            "i_soon": In(1),
            "o": Out(stream.Signature(Stripped(config.width), always_ready=True)),
            "o_soon": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._config.lanes
        new, packet = self.i.payload, self.i.payload.beat.packet

        # The earlier of the two beats, with what was known when it came.
        held_valid, held_last, held_more, started = Signal(), Signal(), Signal(), Signal()
        held_data = Signal(self._config.width, reset_less=True)
        held_count = Signal.like(packet.count, reset_less=True)
        shift, next_shift = Signal(range(lanes), reset_less=True), Signal(range(lanes))
        formed = Signal()

        m.d.comb += next_shift.eq(Mux(self.i.valid, new.header_bytes, shift))
        m.d.sync += shift.eq(next_shift)
        load_soon(m, held_data, packet.data, self.i_soon, name="load")
        with m.If(held_last):
            m.d.sync += [held_valid.eq(0), held_last.eq(0)]
        with m.If(self.i.valid):
            m.d.sync += [
                held_valid.eq(1),
                held_last.eq(packet.last),
                held_count.eq(packet.count),
                held_more.eq(packet.count > next_shift),
                started.eq(new.seen > new.header_bytes),
            ]

        # Bytes of the pair behind the shift: those of the held beat, then those of the new one.
        count = Signal(range(lanes + 1))
        more = packet.count > shift
        m.d.comb += [
            formed.eq(held_valid & started & Mux(held_last, held_more, self.i.valid)),
            self.o_soon.eq(formed),
            count.eq(Mux(held_last, held_count - shift,
                         Mux(more, lanes, lanes - shift + packet.count))),
        ]

        fine_steps = min(4, lanes // STEP)
        fine_bits = (fine_steps - 1).bit_length()
        coarse_unit = STEP * fine_steps
        coarse_size = lanes + OFFSET + STEP * (fine_steps - 1)

        pair = Cat(held_data, packet.data)
        coarse = Signal(8 * coarse_size, reset_less=True)
        steps = next_shift[STEP.bit_length() - 1:]
        for index, part in Copies(m, steps[fine_bits:], len(coarse), name="coarse_step").parts():
            m.d.sync += coarse[part].eq(_select_bytes(pair, index, coarse_unit, coarse_size)[part])

        out = Signal.like(self.o.payload, reset_less=True)
        m.d.sync += [
            self.o.valid.eq(formed | held_last),
            out.count.eq(Mux(formed, count, 0)),
            out.final.eq(held_last | (packet.last & ~more)),
            out.end.eq(held_last),
        ]
        m.d.comb += self.o.payload.eq(out)
        steps = shift[STEP.bit_length() - 1:]
        for index, part in Copies(m, steps[:fine_bits], len(out.data), name="fine_step").parts():
            m.d.comb += self.o.payload.data[part].eq(
                _select_bytes(coarse >> 8 * OFFSET, index, STEP, lanes)[part])
        return m


def _select_bytes(value, index, unit, size):
    """``size`` bytes of ``value`` from byte ``index * unit`` on."""
    return Array((value >> 8 * unit * n)[:8 * size] for n in range(1 << len(index)))[index]
