# SPDX-License-Identifier: Apache-2.0
"""Queue in block RAM between a pipeline that cannot wait and a port that may."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..logic import KEEP, Copies

__all__ = ["Queue"]


class Queue(wiring.Component):
    """First in, first out; what is written can be taken back until it is committed.

    Latency 1 cycle from ``i`` to ``o`` while the queue is empty, a transfer a cycle in and out.
    ``o.valid`` and ``o.payload`` come from registers; no path leads from ``o.ready`` to ``i``.

    The writer must look at ``room`` first: what it writes beyond the depth is lost. ``room`` lags
    by one cycle, so ``margin`` must include what can be written before it shows.

    An item written with ``commit`` makes itself and all before it visible; one written without
    stays hidden until then. ``rewind`` with or without an item takes back all that is hidden, that
    item included.

    Parameters
    ----------
    shape : ShapeLike
        Items.
    depth : int
        Items, a power of two.
    margin : int
        ``room`` is set while at least so many more items fit.

    Members
    -------
    i : lane of items
    commit, rewind : see above
    room : see above
    level : items in the memory, a cycle ago; those that wait behind it are two at most
    o : stream of items
    """

    def __init__(self, shape, *, depth, margin):
        if depth & (depth - 1) or depth < 2:
            raise ValueError(f"depth must be a power of two, at least 2, not {depth!r}")
        if not 0 < margin <= depth:
            raise ValueError(f"margin must be 1 to the depth of {depth}, not {margin!r}")
        self._shape, self._depth, self._margin = shape, depth, margin
        super().__init__({
            "i": In(stream.Signature(shape, always_ready=True)),
            "commit": In(1),
            "rewind": In(1),
            "room": Out(1),
            "level": Out(range(depth + 1)),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = store = memory.Memory(shape=self._shape, depth=self._depth, init=[])
        write, read = store.write_port(), store.read_port()

        # Positions count modulo twice the depth, so that full and empty differ.
        positions = range(2 * self._depth)
        bits = (2 * self._depth - 1).bit_length()
        written, visible, fetched = (Signal(positions, name=name)
                                     for name in ("written", "visible", "fetched"))

        # Two places behind the memory: its output latch, then the output register.
        latched, will_latch = Signal(), Signal()
        out_valid, will_be_valid = Signal(), Signal()
        out = Signal(self._shape, reset_less=True, attrs=KEEP)
        advance, fetch, direct = Signal(), Signal(), Signal()
        m.d.comb += [
            self.o.valid.eq(out_valid),
            self.o.payload.eq(out),
            advance.eq(~out_valid | self.o.ready),
            fetch.eq((fetched != visible) & (~latched | advance)),
            # Nothing older waits anywhere: the item need not go through the memory.
            direct.eq(self.i.valid & self.commit & ~self.rewind & advance
                      & ~latched & (fetched == written)),
        ]

        m.d.comb += [
            write.addr.eq(written),
            write.data.eq(self.i.payload),
            write.en.eq(self.i.valid),
            read.addr.eq(fetched),
            read.en.eq(fetch),
        ]
        with m.If(self.rewind):
            m.d.sync += written.eq(visible)
        with m.Elif(self.i.valid & ~direct):
            m.d.sync += written.eq(written + 1)
            with m.If(self.commit):
                m.d.sync += visible.eq(written + 1)

        with m.If(fetch):
            m.d.sync += fetched.eq(fetched + 1)
        m.d.comb += [
            will_latch.eq(Mux(~latched | advance, fetch, latched)),
            will_be_valid.eq(Mux(advance, latched | direct, out_valid)),
        ]
        m.d.sync += [latched.eq(will_latch), out_valid.eq(will_be_valid)]
        into, older, newer = map(Value.cast, (out, read.data, self.i.payload))
        copies = Copies(m, Cat(will_be_valid, will_latch), len(into), name="state", reset=0)
        for (holds, from_memory), part in copies.parts():
            with m.If(~holds | self.o.ready):
                m.d.sync += into[part].eq(Mux(from_memory, older[part], newer[part]))

        level = (written - fetched)[:bits]
        m.d.sync += [self.level.eq(level), self.room.eq(level <= self._depth - self._margin)]
        return m
