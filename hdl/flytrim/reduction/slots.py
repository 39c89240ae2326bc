# SPDX-License-Identifier: Apache-2.0
"""Slots of one port: what its children have contributed, each packet in its place."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..admission import meta_layout
from ..group import GROUP_BITS, OFFSET_BITS, SLOT_BITS
from ..packet import Packet
from ..verdict import Reason
from .child import (
    LENGTH_BITS,
    LIFE_BITS,
    PHASE_BITS,
    Arrival,
    ChildPlace,
    ChildRecord,
    Order,
    Turn,
)

__all__ = ["PARITY", "Slots", "parity_of"]

#: ECN of a packet that met congestion (RFC 3168).
CONGESTION = 3
#: Bits that share a bit of parity.
PARITY = 32


class Slots(wiring.Component):
    """Writes each contribution into its slot, and marks the slot once the packet was good.

    A slot waits for the offset two windows behind the one it was settled for, whose result has been
    made. The first contribution of it counts, if the offset a window before is settled, too: all
    children have contributed that one, so they have what the slot held before. Whatever else comes
    is a duplicate, or out of the window.

    Never stalls. Beats are written while the packet comes in, but only where the slot waits for
    them. The mark is set 3 cycles behind the last beat; an order takes a cycle without a packet.

    Parameters
    ----------
    config : SwitchConfig
    blocks : int
        Readers of records.

    Members
    -------
    payload, meta : from the trimmer; the record's flow and PSN are right from the first beat on
    placed, group, place : strobe: ``place`` becomes that of ``group``
    running : a bit a group: its contributions count
    half, half_phase : a slot, and the phase it is settled for, combinational
    own, own_offset : another one, and the offset it is settled for, combinational
    orders : stream of :class:`Order`
    arrivals : lane of :class:`Arrival`, combinational: the mark is there in the next cycle
    again : lane of :class:`Arrival`: a finished result is asked for again, or what went up
    contribution, duplicate, out_of_window, bounds : strobes: what became of a packet; one of no
        group that runs here is out of the window
    slot, record : a slot for each reader, and what its mark came with, combinational
    address, beat, sound : a beat's place, and in the next cycle the beat, and whether parity holds
    """

    def __init__(self, config, blocks):
        self._config = config
        #: What goes along from register to register.
        self._common = {"has_beat": 1, "first": 1, "end": 1, "good": 1, "ce": 1, "partial": 1,
                        "answered": 1, "length": LENGTH_BITS, "data": config.width}
        slots, beats = config.slots, config.slots * config.slot_beats
        super().__init__({
            "payload": In(stream.Signature(Packet(config.width), always_ready=True)),
            "meta": In(stream.Signature(meta_layout(config.port), always_ready=True)),
            "placed": In(1),
            "group": In(GROUP_BITS),
            "place": In(ChildPlace),
            "running": In(config.groups),
            "half": Out(SLOT_BITS),
            "half_phase": In(PHASE_BITS),
            "own": Out(SLOT_BITS),
            "own_offset": In(OFFSET_BITS),
            "orders": In(stream.Signature(Order)),
            "arrivals": Out(stream.Signature(Arrival, always_ready=True)),
            "again": Out(stream.Signature(Arrival, always_ready=True)),
            "contribution": Out(1),
            "duplicate": Out(1),
            "out_of_window": Out(1),
            "bounds": Out(1),
            "slot": In(data.ArrayLayout(range(slots), blocks)),
            "record": Out(data.ArrayLayout(ChildRecord, blocks)),
            "address": In(range(beats)),
            "beat": Out(config.width),
            "sound": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        word = data.StructLayout({"data": config.width, "parity": config.width // PARITY})
        m.submodules.payloads = payloads = memory.Memory(
            shape=word, depth=config.slots * config.slot_beats, init=[])

        offset, offset_valid = self._find_offset(m)
        slot, slot_valid = self._find_slot(m, offset, offset_valid)
        commit, valid, accepted = self._mark(m, slot, slot_valid)

        # Beats of a packet count from its first one; those beyond the slot go nowhere.
        bits = config.slot_beats.bit_length() - 1
        index = Signal(bits + 1)
        write, read = payloads.write_port(), payloads.read_port()
        with m.If(valid & commit.has_beat & ~index[-1]):
            m.d.sync += index.eq(index + 1)
        with m.If(valid & commit.end):
            m.d.sync += index.eq(0)
        m.d.comb += [
            write.addr.eq(Cat(index[:bits], commit.turn.slot)),
            write.data.data.eq(commit.data),
            write.data.parity.eq(parity_of(commit.data)),
            write.en.eq(valid & commit.has_beat & accepted & ~index[-1]),
            read.addr.eq(self.address),
            self.beat.eq(read.data.data),
            self.sound.eq(parity_of(read.data.data) == read.data.parity),
        ]
        return m

    def _find_offset(self, m):
        """First register: the packet with its offset and its group's slots."""
        record = self.meta.payload.record
        offset, offset_valid = Signal(data.StructLayout({
            **self._common, "group": GROUP_BITS, "life": LIFE_BITS, "member": 1,
            "offset": OFFSET_BITS, "base": SLOT_BITS, "last": SLOT_BITS}), name="offset",
            reset_less=True), Signal()
        m.submodules.places = places = memory.Memory(
            shape=ChildPlace, depth=max(2, self._config.groups), init=[])
        write, read = places.write_port(), places.read_port(domain="comb")
        begins, valid = Signal(init=1), Signal()
        m.d.comb += [
            valid.eq(self.payload.valid | self.meta.valid),
            write.addr.eq(self.group), write.data.eq(self.place), write.en.eq(self.placed),
            read.addr.eq(record.flow),
        ]
        with m.If(valid):
            m.d.sync += begins.eq(self.meta.valid)
        m.d.sync += [
            offset_valid.eq(valid),
            offset.has_beat.eq(self.payload.valid),
            offset.first.eq(begins),
            offset.end.eq(self.meta.valid),
            offset.good.eq(record.reason == Reason.NONE),
            offset.ce.eq(record.ecn == CONGESTION),
            offset.partial.eq(record.immediate.any() & read.data.relay),
            offset.answered.eq(read.data.answered),
            offset.length.eq(record.length),
            offset.data.eq(self.payload.payload.data),
            offset.group.eq(record.flow),
            offset.offset.eq(record.psn - read.data.start_psn),
            offset.life.eq(read.data.life),
            offset.member.eq(read.data.member),
            offset.base.eq(read.data.base),
            offset.last.eq(read.data.last),
        ]
        return offset, offset_valid

    def _find_slot(self, m, offset, offset_valid):
        """Second register: the packet with its slot, or an order where there is none."""
        slot, slot_valid = Signal(data.StructLayout({
            **self._common, "turn": Turn, "previous": OFFSET_BITS, "half": SLOT_BITS,
            "proof": PHASE_BITS, "member": 1, "clear": 1, "repeat": 1}), name="slot",
            reset_less=True), Signal(2)
        n, last, order = offset.offset, offset.last, self.orders.payload
        # Both are powers of two, one bit each.
        window, two_windows = last ^ (last >> 1), last ^ Cat(Const(1, 1), last)
        place = offset.base | (n & last)
        phase = Cat((n & two_windows).any(), (n & (two_windows << 1)).any())
        m.d.comb += self.orders.ready.eq(~offset_valid)
        m.d.sync += [
            slot_valid.eq(Cat(offset_valid, ~offset_valid & self.orders.valid)),
            *(slot[name].eq(offset[name]) for name in self._common),
            slot.turn.group.eq(offset.group),
            slot.turn.slot.eq(place),
            slot.turn.offset.eq(n),
            slot.turn.phase.eq(phase),
            slot.turn.life.eq(offset.life),
            slot.previous.eq(n - last - 1),
            # A window before it: as late in the slots, or in the round before.
            slot.half.eq(place ^ window),
            slot.proof.eq(phase - ~(n & window).any()),
            slot.member.eq(offset.member),
            slot.clear.eq(0),
            slot.repeat.eq(0),
        ]
        with m.If(~offset_valid):
            m.d.sync += [
                slot.turn.eq(order.turn),
                slot.previous.eq(order.previous),
                slot.member.eq(1),
                slot.clear.eq(order.clear),
                slot.repeat.eq(order.repeat),
                slot.length.eq(self._config.slot_bytes),
            ]
        return slot, slot_valid

    def _mark(self, m, slot, slot_valid):
        """Third register: what the slot's mark says of a packet; and what that does to the mark.

        Gives the register, whether it holds a packet, and whether its beats are written.
        """
        config = self._config
        m.submodules.marks = marks = memory.Memory(
            shape=PHASE_BITS, depth=config.slots, init=[])
        m.submodules.records = records = memory.Memory(
            shape=ChildRecord, depth=config.slots, init=[])
        write, read, note = marks.write_port(), marks.read_port(domain="comb"), records.write_port()
        commit, commit_valid = Signal(data.StructLayout({
            **self._common, "turn": Turn, "waits": 1, "marked": 1, "proved": 1, "settled": 1,
            "older": 1, "member": 1, "clear": 1, "repeat": 1}), name="commit",
            reset_less=True), Signal(2)
        valid, order = commit_valid
        marks_it = Signal()
        m.d.comb += [
            self.half.eq(slot.half),
            self.own.eq(slot.turn.slot),
            read.addr.eq(slot.turn.slot),
        ]
        # What is just before this one may be about to set the mark.
        mark = Mux(marks_it & (slot.turn.slot == commit.turn.slot), write.data, read.data)
        m.d.sync += [
            commit_valid.eq(slot_valid),
            *(commit[name].eq(slot[name]) for name in (
                *self._common, "turn", "member", "clear", "repeat")),
            commit.waits.eq(self.own_offset == slot.previous),
            commit.marked.eq(mark == slot.turn.phase),
            commit.proved.eq(self.half_phase == slot.proof),
            commit.settled.eq(self.own_offset == slot.turn.offset),
            commit.older.eq((slot.turn.offset - self.own_offset)[OFFSET_BITS - 1]),
        ]

        # The beats of a packet are written if it is wanted when the first one comes. It counts if
        # it still is at its end, and its group was not stopped meanwhile.
        runs = self.running.bit_select(commit.turn.group, 1) & commit.member
        kept, kept_group = Signal(), Signal(GROUP_BITS)
        accepted, wanted = Signal(), Signal()
        m.d.comb += [
            wanted.eq(commit.waits & ~commit.marked & runs),
            accepted.eq(Mux(commit.first, wanted & commit.proved, kept & runs)),
        ]
        with m.If(valid):
            m.d.sync += [kept.eq(accepted), kept_group.eq(commit.turn.group)]
        with m.Elif(~self.running.bit_select(kept_group, 1)):
            m.d.sync += kept.eq(0)

        ends = valid & commit.end & commit.good
        fits = commit.length <= config.slot_bytes
        counts, clears, repeats = Signal(), Signal(), Signal()
        m.d.comb += [
            counts.eq(Mux(valid, ends & accepted & fits, order & ~commit.clear & ~commit.repeat)
                      & wanted),
            clears.eq(order & commit.clear & commit.waits),
            repeats.eq(order & commit.repeat & commit.waits & commit.marked & runs),
            marks_it.eq(counts | clears),
            write.addr.eq(commit.turn.slot),
            write.data.eq(commit.turn.phase - commit.clear),
            write.en.eq(marks_it),
            note.addr.eq(commit.turn.slot),
            note.data.length.eq(commit.length),
            note.data.ce.eq(commit.ce & valid),
            note.data.absent.eq(order),
            note.data.partial.eq(commit.partial & valid),
            note.en.eq(counts),
            self.arrivals.valid.eq(marks_it),
            self.arrivals.payload.turn.eq(commit.turn),
            self.arrivals.payload.turn.phase.eq(write.data),
            self.arrivals.payload.counts.eq(counts),
            self.arrivals.payload.repeats.eq(repeats),
            self.arrivals.payload.length.eq(commit.length),
        ]
        for n in range(len(self.slot)):
            port = records.read_port(domain="comb")
            m.d.comb += [port.addr.eq(self.slot[n]), self.record[n].eq(port.data)]

        duplicate = commit.settled | commit.older | commit.waits & commit.marked
        m.d.sync += [
            self.again.valid.eq((ends & runs & fits & commit.settled & commit.answered) | repeats),
            self.again.payload.eq(self.arrivals.payload),
            self.contribution.eq(valid & counts),
            self.bounds.eq(ends & runs & ~fits),
            self.duplicate.eq(ends & runs & fits & duplicate),
            self.out_of_window.eq(ends & ~counts & (~runs | fits & ~duplicate)),
        ]
        return commit, valid, accepted


def parity_of(bits):
    """A bit for each 32 of them."""
    return Cat(bits[n:n + PARITY].xor() for n in range(0, len(bits), PARITY))
