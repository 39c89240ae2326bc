# SPDX-License-Identifier: Apache-2.0
"""Receiver: which containers are good."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..crc_run import CrcRun
from ..headers import ETHERNET
from ..logic import delayed
from ..packet import Packet, reverse_bytes, take
from . import container as c
from .context import Announced, Template, WriteTemplate
from .sequences import Sequences

__all__ = ["Receiver", "Stored"]

_AROUND = (c.TAG.size + c.TRAILER.size) // c.WORD


class Stored(data.StructLayout):
    """A beat of a container: its words, and whether it is the last."""

    def __init__(self, config):
        super().__init__({"data": config.width, "last": 1})


class Receiver(wiring.Component):
    """Writes each container to a queue, and takes it back at its end unless it is good.

    One beat a cycle, never stalls. A container enters when its first beat finds ``room``, else the
    whole of it is an overflow. Latency 4 cycles.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    write : lane of :class:`WriteTemplate`
    i : lane of beats, of Ethernet frames where containers travel in these
    room : there is room for a longest container beside what is in flight
    o, commit, rewind : to the queue of beats
    announced : lane of :class:`Announced`, one for each container that is committed
    ended, fault : strobe at a container's end, and what it was; frames that carry none have no end
    lost : strobe: with it, ``missing`` containers before it have not come
    """

    latency = 4

    def __init__(self, config):
        self._config = config
        super().__init__({
            "write": In(stream.Signature(WriteTemplate, always_ready=True)),
            "i": In(stream.Signature(Packet(config.width), always_ready=True)),
            "room": In(1),
            "o": Out(stream.Signature(Stored(config), always_ready=True)),
            "commit": Out(1),
            "rewind": Out(1),
            "announced": Out(stream.Signature(Announced, always_ready=True)),
            "ended": Out(1),
            "fault": Out(c.Fault),
            "lost": Out(1),
            "missing": Out(15),
        })

    def elaborate(self, platform):
        m = Module()
        config, words = self._config, self._config.words
        word_bits = (words - 1).bit_length()
        at = c.CARRIAGE.size // c.WORD * config.ethernet

        # First cycle: the beat, and which one it is. One too many stands for all of them.
        number = Signal(range(config.max_beats + 1))
        one = Signal(data.StructLayout({
            "valid": 1, "packet": Packet(config.width), "number": number.shape()}))
        packet = one.packet
        m.d.sync += [one.valid.eq(self.i.valid), one.packet.eq(self.i.payload),
                     one.number.eq(number)]
        with m.If(self.i.valid):
            m.d.sync += number.eq(Mux(self.i.payload.last, 0, Mux(
                number == config.max_beats, number, number + 1)))

        def word(index):
            """A word of the container, and whether the beat has it."""
            row, slot = divmod(at + index, words)
            return packet.data.word_select(slot, 32), one.valid & (one.number == row)

        # Second cycle: what tag and trailer say.
        (first_word, has_tag), (second_word, _), (route, has_route) = map(word, range(3))
        tag = Cat(first_word, second_word)
        routed = Signal()
        kept_tag = Signal(8 * c.TAG.size, reset_less=True)
        kept_routed = kept_tag[c.Flag.ROUTE.bit_length() - 1]
        m.d.comb += routed.eq(Mux(has_tag, tag[c.Flag.ROUTE.bit_length() - 1], kept_routed))
        with m.If(has_tag):
            m.d.sync += kept_tag.eq(tag)
        ours = Signal(init=1)
        if config.ethernet:
            row, slot = divmod(ETHERNET.ethertype.byte // c.WORD, words)
            kind = reverse_bytes(packet.data.word_select(slot, 32))
            with m.If(one.valid & (one.number == row)):
                m.d.sync += ours.eq(kind == (c.ETHERTYPE << 16 | c.SUBTYPE))
            with m.Elif(one.valid & (one.number == 0)):
                m.d.sync += ours.eq(0)
        fill = Signal(range(words + 1))
        previous = Signal(32, reset_less=True)
        m.d.comb += fill.eq(packet.count[2:])
        with m.If(one.valid):
            m.d.sync += previous.eq(packet.data[-32:])
        two = Signal(data.StructLayout({
            "valid": 1, "first": 1, "last": 1, "long": 1, "bad": 1, "fill": fill.shape(),
            "total": len(number) + word_bits + 1, "counts": 32}))
        m.d.sync += [
            two.valid.eq(one.valid),
            two.first.eq(one.number == 0),
            two.last.eq(packet.last),
            two.long.eq(one.number == config.max_beats),
            two.bad.eq(packet.error | packet.count[:2].any()),
            two.fill.eq(fill),
            two.total.eq(Cat(Const(0, word_bits), one.number) + fill),
            # The word before the last, which may be in the beat before.
            two.counts.eq(Array([previous, previous, *(
                packet.data.word_select(n, 32) for n in range(words - 1))])[fill]),
        ]
        m.submodules.templates = templates = memory.Memory(
            shape=Template, depth=config.flows, init=[])
        template, known = self._look_up(m, templates, take(tag, c.TAG.flow), has_tag)

        # The CRC, of a container without what carries it.
        m.submodules.crc = crc = CrcRun(config.width, c.CRC32C)
        masked = Signal(config.width)
        m.d.comb += masked.eq(packet.data)
        for index in range(c.CARRIAGE.size // c.WORD * config.ethernet):
            part, here = word(index - at)
            with m.If(here):
                m.d.comb += masked.word_select(index % words, 32).eq(0)
        with m.If(has_tag):
            m.d.comb += masked.word_select(at % words, 32).eq(~first_word)
        with m.If(has_route & routed):
            m.d.comb += masked.word_select((at + 2) % words, 32).eq(route[:24])
        m.d.comb += [crc.data.eq(masked), crc.first.eq(one.number == 0),
                     crc.hold.eq(~one.valid)]

        # Third cycle: a check each.
        counts = {name: take(two.counts, field) for name, field in (
            ("records", c.TRAILER.records), ("bytes", c.TRAILER.bytes))}
        size = (template.message_bytes + (c.WORD - 1)) >> 2
        tag_of = {name: take(kept_tag, field) for name, field in c.TAG.fields.items()}
        three = Signal(data.StructLayout({
            "valid": 1, "first": 1, "last": 1, "ours": 1, "long": 1, "damaged": 1,
            "unknown": 1, "malformed": 1, "product": 16 + len(size), "sequence": 16,
            "container": Announced}))
        container = three.container
        m.d.sync += [
            three.valid.eq(two.valid), three.first.eq(two.first), three.last.eq(two.last),
            three.ours.eq(ours), three.long.eq(two.long),
            three.damaged.eq(two.long | two.bad | (two.total < at + _AROUND)),
            three.unknown.eq((tag_of["version"] != c.VERSION) | ~known
                             | (tag_of["flags"] >= 1 << len(c.Flag))),
            three.malformed.eq(
                ~counts["records"].any() | ~counts["bytes"].any() | counts["bytes"][:2].any()
                | (counts["bytes"][2:] + at + _AROUND + kept_routed > two.total)),
            three.product.eq(counts["records"] * size),
            three.sequence.eq(tag_of["sequence"]),
            container.flow.eq(tag_of["flow"]), container.psn.eq(tag_of["psn"]),
            container.full.eq(kept_tag[0]), container.routed.eq(kept_routed),
            container.records.eq(counts["records"]), container.words.eq(counts["bytes"][2:]),
            container.template.eq(template),
        ]
        fill_three = delayed(m, two.fill, 1, name="fill")

        # Fourth cycle: the CRC, and whether bare records fit.
        four = Signal.like(three)
        sound = Signal()
        residue = Array(Const(c.CRC32C.advance(c.CRC32C.residue, config.lanes - 4 * n), 32)
                        for n in range(words + 1))[fill_three]
        m.d.sync += [
            four.eq(three),
            four.malformed.eq(three.malformed
                              | ~container.full & (three.product != container.words)),
            sound.eq(crc.state == residue),
        ]
        stored = delayed(m, packet.data, 3, name="packet")
        self._decide(m, four, sound, stored)
        return m

    def _look_up(self, m, templates, flow, enable):
        """The template of the flow in a tag, and whether there is one, a cycle later."""
        write, read = templates.write_port(), templates.read_port()
        new, flows = self.write.payload, self._config.flows
        enabled, known = Signal(flows), Signal()
        m.d.comb += [
            write.en.eq(self.write.valid & (new.flow < flows)),
            write.addr.eq(new.flow),
            write.data.eq(new.template),
            read.addr.eq(flow),
            read.en.eq(enable),
        ]
        with m.If(write.en):
            m.d.sync += enabled.bit_select(new.flow, 1).eq(new.enable)
        with m.If(enable):
            m.d.sync += known.eq((flow < flows) & enabled.bit_select(flow[:6], 1))
        return read.data, known

    def _decide(self, m, four, sound, stored):
        m.submodules.sequences = sequences = Sequences(self._config.flows)
        admitted, admit, enters, good = Signal(), Signal(), Signal(), Signal()
        ahead = (four.sequence - sequences.number)[:16]
        ends = four.valid & four.last
        m.d.comb += [
            sequences.restart.eq(self.write.valid),
            sequences.restart_flow.eq(self.write.payload.flow),
            sequences.flow.eq(four.container.flow),
            sequences.following.eq(four.sequence + 1),
            # One that there was no room for has not been lost under way.
            sequences.write.eq(self.ended & (good | (self.fault == c.Fault.OVERFLOW))),
            admit.eq(Mux(four.first, self.room, admitted)),
            enters.eq(four.valid & admit),
            self.ended.eq(ends & four.ours),
            good.eq(self.ended & (self.fault == c.Fault.NONE)),
            self.o.valid.eq(enters & ~four.long),
            self.o.payload.data.eq(stored),
            self.o.payload.last.eq(four.last),
            self.commit.eq(good),
            self.rewind.eq(ends & ~good),
            self.announced.valid.eq(good),
            self.announced.payload.eq(four.container),
            self.lost.eq(sequences.write & ahead.any()),
            self.missing.eq(ahead),
        ]
        with m.If(four.valid & four.first):
            m.d.sync += admitted.eq(self.room)
        with m.If(four.damaged | ~sound):
            m.d.comb += self.fault.eq(c.Fault.DAMAGED)
        with m.Elif(four.unknown):
            m.d.comb += self.fault.eq(c.Fault.UNKNOWN)
        with m.Elif(four.malformed):
            m.d.comb += self.fault.eq(c.Fault.MALFORMED)
        with m.Elif(ahead[15]):
            m.d.comb += self.fault.eq(c.Fault.STALE)
        with m.Elif(~admit):
            m.d.comb += self.fault.eq(c.Fault.OVERFLOW)
