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

    What an event adds can be read 5 cycles later. Each row is marked with the epoch of the last
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
    i : lane of :class:`Counting`, from registers
    written : lane of row and epoch, as the memory has them from the next cycle on
    index : row to read; what follows is of the one a cycle before
    epoch : the epoch that now counts in that row
    row_epoch : the epoch that the row is marked with
    o : its counters
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
        # A counter in two halves, each with a mark of its own: what chooses drives few bits.
        part = data.StructLayout({"value": self._half, "full": 1, "epoch": 1})
        row = data.ArrayLayout(part, 2 * len(self._amounts))
        m.submodules.store = store = memory.Memory(shape=row, depth=self._rows, init=[])
        write, read, show = store.write_port(), store.read_port(), store.read_port()

        # The event whose row is asked for, whose row has come, whose sums are written.
        event, valid = self.i.payload, self.i.valid
        added, added_valid = Signal.like(event, name="added"), Signal()
        done, done_valid = Signal(range(self._rows)), Signal()
        sums, before = Signal(row, reset_less=True), Signal(row, reset_less=True)
        m.d.sync += [
            added.eq(event), added_valid.eq(valid),
            done.eq(added.row), done_valid.eq(added_valid),
            before.eq(sums),
        ]
        # What is still on its way to the memory is taken from there.
        follows = added_valid & (added.row == event.row)
        follows_later = done_valid & (done == event.row)
        m.d.comb += [
            read.addr.eq(event.row), read.en.eq(1),
            write.addr.eq(done), write.data.eq(sums), write.en.eq(done_valid),
            self.written.valid.eq(done_valid),
            self.written.payload.row.eq(done),
            self.written.payload.epoch.eq(sums[0].epoch),
            show.addr.eq(self.index), show.en.eq(1),
        ]
        parts = []
        for n in range(2 * len(self._amounts)):
            newest, newer = (Signal(name=f"{name}_{n}", attrs=KEEP) for name in ("newest", "newer"))
            m.d.sync += [newest.eq(follows), newer.eq(follows_later)]
            old = Signal(part, name=f"old_{n}")
            m.d.comb += old.eq(Mux(newest, sums[n], Mux(newer, before[n], read.data[n])))
            parts.append(old)
        for n, name in enumerate(self._amounts):
            halves = parts[2 * n:2 * n + 2]
            kept = [half.epoch == added.epoch for half in halves]
            value = Cat(half.value & keeps.replicate(self._half)
                        for half, keeps in zip(halves, kept, strict=True))
            total = value + added.amounts[name]
            over = total[2 * self._half] | (halves[1].full & kept[1])
            for k in range(2):
                m.d.sync += [
                    sums[2 * n + k].value.eq(total[k * self._half:]),
                    sums[2 * n + k].full.eq(over),
                    sums[2 * n + k].epoch.eq(added.epoch),
                ]
            shown = show.data
            m.d.comb += self.o[name].eq(Cat(
                (shown[2 * n + k].value | shown[2 * n + k].full.replicate(self._half))
                & (shown[2 * n + k].epoch == self.epoch).replicate(self._half)
                for k in range(2)))
        m.d.comb += self.row_epoch.eq(show.data[0].epoch)
        return m
