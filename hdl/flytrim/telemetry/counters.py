# SPDX-License-Identifier: Apache-2.0
"""Counters: rows of them in a memory, each counted up once a cycle if need be."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..logic import KEEP

__all__ = ["Counters", "Counting"]


class Counting(data.StructLayout):
    """An event: it adds ``amounts`` to the counters of ``row``, or starts them in a new epoch."""

    def __init__(self, rows, amounts):
        super().__init__({
            "row": range(rows), "epoch": 1, "amounts": data.StructLayout(amounts)})


class Counters(wiring.Component):
    """Counters in a memory, which stop at their largest value. An event a cycle, to any rows.

    What an event adds can be read 6 cycles later. Each row is marked with the epoch of the last
    event that counted there. An event of the other epoch finds zeros in it, and so does a reader:
    whoever owns the counters clears a row by turning its epoch, without a write to the memory.

    Parameters
    ----------
    rows : int
    amounts : dict
        Bits that an event adds, by counter.
    width : int
        Bits of a counter, an even number.

    Members
    -------
    i : lane of :class:`Counting`
    written : lane of row and epoch, as the memory has them from the next cycle on
    index : row to read
    epoch : the epoch that counts in the row that was ``index`` a cycle before
    row_epoch, o : of the row two cycles before, the epoch it is marked with, and its counters
    """

    def __init__(self, rows, amounts, *, width=64):
        self._rows, self._amounts, self._half = rows, amounts, width // 2
        mark = data.StructLayout({"row": range(rows), "epoch": 1})
        super().__init__({
            "i": In(stream.Signature(Counting(rows, amounts), always_ready=True)),
            "written": Out(stream.Signature(mark, always_ready=True)),
            "index": In(range(rows)),
            "epoch": In(1),
            "row_epoch": Out(1),
            "o": Out(data.StructLayout({name: width for name in amounts})),
        })

    def elaborate(self, platform):
        m = Module()
        # The event whose row is asked for, whose row has come, whose sums are written.
        asking, adding = (Signal.like(self.i.payload, name=name) for name in ("asking", "adding"))
        asking_valid, adding_valid = Signal(), Signal()
        done, done_valid, done_epoch = Signal(range(self._rows)), Signal(), Signal(attrs=KEEP)
        m.d.sync += [
            asking.eq(self.i.payload), asking_valid.eq(self.i.valid),
            adding.eq(asking), adding_valid.eq(asking_valid),
            done.eq(adding.row), done_valid.eq(adding_valid), done_epoch.eq(adding.epoch),
        ]

        # A counter in two halves, each with a memory, a mark, and what drives it of its own, or a
        # register would have to reach all bits of a row.
        part = data.StructLayout({"value": self._half, "full": 1, "epoch": 1})
        sums, olds, shown = [], [], []
        for n in range(2 * len(self._amounts)):
            m.submodules[f"store_{n}"] = store = memory.Memory(
                shape=part, depth=self._rows, init=[])
            write, read, show = store.write_port(), store.read_port(), store.read_port()

            def copy(value, name, n=n, **options):
                register = Signal.like(value, name=f"{name}_{n}", attrs=KEEP, **options)
                m.d.sync += register.eq(value)
                return register

            total, before, old = (Signal(part, name=f"{name}_{n}", reset_less=True)
                                  for name in ("sum", "before", "old"))
            m.d.sync += before.eq(total)
            m.d.comb += [
                read.addr.eq(copy(self.i.payload.row, "asked")),
                show.addr.eq(copy(self.index, "index")),
                write.addr.eq(copy(adding.row, "written_row")),
                write.en.eq(copy(adding_valid, "writes")),
                write.data.eq(total),
            ]
            # What is still on its way to the memory is taken from there.
            newest = copy(adding_valid & (adding.row == asking.row), "newest")
            newer = copy(done_valid & (done == asking.row), "newer")
            m.d.comb += old.eq(Mux(newest, total, Mux(newer, before, read.data)))
            sums.append(total)
            olds.append(old)
            counts = show.data.epoch == copy(self.epoch, "epoch")
            shown.append((show.data.value | show.data.full.replicate(self._half))
                         & counts.replicate(self._half))
            if not n:
                m.d.comb += self.row_epoch.eq(show.data.epoch)

        for n, name in enumerate(self._amounts):
            halves = slice(2 * n, 2 * n + 2)
            kept = [old.epoch == adding.epoch for old in olds[halves]]
            value = Cat(old.value & keeps.replicate(self._half)
                        for old, keeps in zip(olds[halves], kept, strict=True))
            total = value + adding.amounts[name]
            over = total[2 * self._half] | (olds[2 * n].full & kept[0])
            for k, new in enumerate(sums[halves]):
                m.d.sync += [
                    new.value.eq(total[k * self._half:]), new.full.eq(over),
                    new.epoch.eq(adding.epoch),
                ]
            m.d.comb += self.o[name].eq(Cat(shown[halves]))
        m.d.comb += [
            self.written.valid.eq(done_valid),
            self.written.payload.row.eq(done),
            self.written.payload.epoch.eq(done_epoch),
        ]
        return m
