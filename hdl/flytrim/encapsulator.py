# SPDX-License-Identifier: Apache-2.0
"""Encapsulator: headers before a payload, pad and ICRC behind it."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from . import headers as h
from .checksum import compress
from .frame_sequence import WORD, FrameSequence, Sizes
from .group import Template
from .header_stack import BASE_WORDS, HeaderStack
from .icrc_generator import IcrcGenerator
from .logic import Copies, delayed, select
from .packet import Packet, thermometer

__all__ = ["Encapsulation", "Encapsulator"]

#: Bytes of the shortest frame without FCS.
SHORTEST = 60
#: Where the first word of a frame starts: headers, payloads and ICRCs end two bytes behind one.
OFFSET = 2


class Encapsulation(data.Struct):
    """What is to stand before one payload.

    ``header.psn`` and ``header.va`` do not count, ``psn`` and ``address`` do. ``length`` is that of
    the payload in bytes, at most 8192. With ``ce`` the ECN field is 3, else it is ``header.ecn``.
    With ``void`` the frame is as that of a payload with ``error``. Of an acknowledgement
    ``immediate`` is the AETH: MSN in its low 24 bits, syndrome above.
    """

    header: Template
    psn: 24
    length: 14
    ce: 1
    void: 1
    immediate: 32
    address: 64


class Encapsulator(wiring.Component):
    """Makes a frame of each record and its payload.

    Ethernet, one VLAN tag where ``tagged``, IPv4 (DF set, identification 0) or IPv6, UDP (checksum
    0), BTH (MigReq set, AckReq not), the extension headers of the opcode, payload, pad, ICRC, and
    zeros up to 60 bytes. Opcodes are the SEND_ONLY and WRITE_ONLY, with and without immediate, of
    RC and UC, those of UD, and RC's ACKNOWLEDGE; any other leaves as it is, with no extension
    header behind the BTH.

    A frame begins when there are its record, the first beat of its payload, if it has one, and
    ``room``; from there on it leaves at a beat a cycle, and the next one right behind it. Its first
    beat leaves 5 cycles behind the record, or 4 behind what else it had to wait for. Nothing
    stalls: a beat that is not there when it is due makes a wrong frame.

    A payload with ``error`` makes a frame with ``error`` and all bits of its ICRC inverted.

    Parameters
    ----------
    width : int
        Bits a beat.

    Members
    -------
    i_header : one record a packet
    i : the payloads, in the order of the records, each of the length that its record says; a
        packet's beats come without a gap; a payload of no bytes has no beat
    room : the queue behind has room for a longest frame beside what is in flight
    o : lane of the frames
    """

    latency = 5

    def __init__(self, width):
        self._width = width
        super().__init__({
            "i_header": In(stream.Signature(Encapsulation)),
            "i": In(stream.Signature(Packet(width))),
            "room": In(1),
            "o": Out(stream.Signature(Packet(width), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._width // 8
        words = lanes // WORD
        index_bits = (words - 1).bit_length()
        new, beat = self.i_header.payload, self.i.payload

        m.submodules.sequence = now = FrameSequence(self._width)
        m.d.comb += [
            now.valid.eq(self.i_header.valid),
            now.payload.eq(self.i.valid),
            now.room.eq(self.room),
            now.length.eq(new.length),
            *(getattr(now, name).eq(new.header[name]) for name in ("opcode", "tagged", "ipv6")),
            self.i_header.ready.eq(now.load),
            self.i.ready.eq(now.step & now.take),
        ]

        # The current record.
        coming = Signal(data.StructLayout({"record": Encapsulation, "sizes": Sizes}))
        m.d.comb += [coming.record.eq(new), coming.sizes.eq(now.sizes)]
        current = Signal.like(coming, reset_less=True)
        bits = current.as_value()
        # Idle, or the frame's last beat is made: that it is made, all know at once.
        loads = Copies(m, Cat(now.next_idle, now.next_last), len(bits), name="load", reset=1)
        for (none, ends), part in loads.parts():
            with m.If(none | ends & now.step):
                m.d.sync += bits[part].eq(coming.as_value()[part])
        record, sizes = current.record, current.sizes
        shift, end = sizes.stack[:index_bits], sizes.end[:index_bits]

        def chosen(make, bits, name):
            """Copies of a part of the current record that selects so many bits."""
            return Copies(m, Mux(now.load, make(coming), make(current)), bits, name=name)

        # First cycle: the payload is turned to where it stands in the frame, the headers selected.
        turned = self._turned(m, beat.data, chosen)
        held = Signal(self._width, reset_less=True)
        m.d.sync += held.eq(turned)
        headers = HeaderStack(m, record, sizes.udp, sizes.ip, chosen(
            lambda of: of.sizes.chains, HeaderStack.extension_bits, "chains"))
        kinds = chosen(lambda of: Cat(of.record.header.ipv6, of.record.header.tagged),
                       2 * 8 * HeaderStack.size, "kind")
        numbers = Copies(m, now.next_number, 2 * self._width, name="number")

        def header_lane(lane, stacks):
            return select(
                (numbers.of(2 * 8 * lane)[number],
                 Array(each[n] for each in stacks)[kinds.of(2 * 8 * n)])
                for number, n in enumerate(range(lane, HeaderStack.size, lanes)))

        # Where the beat of payload that is taken stands, and the one before it.
        before, new_slots = Signal(words + 1), Signal(words + 1)
        old_slots = Signal(words + 1, reset_less=True)
        m.d.comb += [
            before.eq(Cat(Const(1, 1), thermometer(shift, words))),
            new_slots.eq(~before & now.take.replicate(words + 1)),
        ]
        # Behind a frame's last beat nothing of it is held: its bytes beyond the payload are zero.
        m.d.sync += old_slots.eq(before & (now.step & now.take).replicate(words + 1))
        kept, masked = Signal(self._width, reset_less=True), Signal(self._width)
        wires, masks = ([make(tagged, ipv6) for tagged in (0, 1) for ipv6 in (0, 1)]
                        for make in (headers.wire, headers.masked))
        special = {n % lanes for n in HeaderStack.differs()}
        for lane in range(lanes):
            slot, byte = (lane + OFFSET) // WORD, slice(8 * lane, 8 * lane + 8)
            payload = select([(new_slots[slot], turned[byte]), (old_slots[slot], held[byte])])
            m.d.sync += kept[byte].eq(header_lane(lane, wires) | payload)
            if lane in special:
                differing = Signal(8, name=f"masked_{lane}", reset_less=True)
                m.d.sync += differing.eq(header_lane(lane, masks) | payload)
                m.d.comb += masked[byte].eq(differing)
            else:
                m.d.comb += masked[byte].eq(kept[byte])

        bad, was_bad = Signal(), Signal()
        m.d.comb += bad.eq(record.void | was_bad | now.take & beat.last & beat.error)
        m.d.sync += was_bad.eq(bad & now.step & ~now.last)

        # What goes along, each with the beat.
        straddles = end.all()
        flags = Signal(data.StructLayout({
            "first": 1, "last": 1, "pad_ends": 1, "over": 1, "bad": 1, "padded": 1,
            "end": index_bits}))
        m.d.comb += [
            flags.first.eq(now.first),
            flags.last.eq(now.last),
            flags.pad_ends.eq(Mux(straddles, now.ends_next, now.last)),
            flags.over.eq(now.last & straddles),
            flags.bad.eq(bad),
            flags.padded.eq(sizes.end == BASE_WORDS),
            flags.end.eq(end),
        ]
        valid = delayed(m, now.step, 3, name="valid", reset=True)
        second = delayed(m, flags, 1, name="flags")
        third = delayed(m, second, 1, name="flags_second")
        fourth = delayed(m, third, 1, name="flags_third")

        # Second cycle on: the ICRC is computed, and the IPv4 checksum.
        m.submodules.icrc = icrc = IcrcGenerator(self._width)
        m.d.comb += [icrc.data.eq(masked), icrc.first.eq(second.first),
                     icrc.over.eq(second.over), icrc.word.eq(second.end),
                     icrc.wrong.eq(second.bad & second.pad_ends)]
        checksum, here = self._checksum(m, headers.ipv4, record.header, now.number)

        later = delayed(m, kept, 1, name="kept")
        summed = Signal(self._width, reset_less=True)
        m.d.sync += summed.eq(later)
        for tagged, flag in enumerate(here):
            place = h.L3_OFFSETS[tagged] + h.IPV4.checksum.byte
            with m.If(flag):
                m.d.sync += summed.word_select(place % lanes // 2, 16).eq(checksum)

        # Fourth cycle: the ICRC is put in its place.
        slots = Signal(words + 1, reset_less=True)
        m.d.sync += slots.eq(Cat(
            third.over, (third.pad_ends & (third.end == word) for word in range(words))))
        out = Signal.like(self.o.payload, reset_less=True)
        for lane in range(lanes):
            slot, byte = divmod(lane + OFFSET, WORD)
            part = slice(8 * lane, 8 * lane + 8)
            m.d.sync += out.data[part].eq(
                summed[part] | slots[slot].replicate(8) & icrc.icrc.word_select(byte, 8))
        count = Cat(Const(OFFSET, 2), (fourth.end + 1)[:index_bits])
        m.d.sync += [
            self.o.valid.eq(valid),
            out.last.eq(fourth.last),
            out.error.eq(fourth.last & fourth.bad),
            out.count.eq(Mux(fourth.last, Mux(fourth.padded, (SHORTEST - 1) % lanes + 1, count),
                             lanes)),
        ]
        m.d.comb += self.o.payload.eq(out)
        return m

    def _turned(self, m, value, chosen):
        """``value`` with its lane 0 moved to where the stack ends, around the end of the beat."""
        lanes = self._width // 8
        value, low = _rotated(value, OFFSET), 0
        steps = (lanes // WORD - 1).bit_length()
        while low < steps:
            high = min(low + 2, steps)
            following = Signal(self._width, name=f"turned_{low}")
            copies = chosen(lambda of, part=slice(low, high): of.sizes.stack[part], self._width,
                            f"turn_{low}")
            for index, part in copies.parts():
                m.d.comb += following[part].eq(Array(
                    _rotated(value, WORD * n << low) for n in range(1 << high - low))[index][part])
            value, low = following, high
        return value

    def _checksum(self, m, ipv4, header, number):
        """The IPv4 checksum two cycles later as it stands in a beat, and whether that beat is the
        one that it belongs to, without and with a tag."""
        lanes = self._width // 8
        numbers = [Cat(ipv4[n + 1], ipv4[n]) for n in range(0, h.IPV4.size, 2)
                   if n not in (h.IPV4.identification.byte, h.IPV4.checksum.byte)]
        two = [Signal(16, name=f"sum_{n}", reset_less=True) for n in range(2)]
        m.d.sync += [each.eq(word) for each, word in zip(two, compress(numbers, 2), strict=True)]
        whole, checksum = Signal(17), Signal(16, reset_less=True)
        m.d.comb += whole.eq(two[0] + two[1])
        m.d.sync += checksum.eq(~(whole[:16] + whole[16])[:16])
        here = Cat(
            ~header.ipv6 & (header.tagged == tagged)
            & number[(h.L3_OFFSETS[tagged] + h.IPV4.checksum.byte) // lanes] for tagged in (0, 1))
        return Cat(checksum[8:], checksum[:8]), delayed(m, here, 2, name="sum_here")


def _rotated(value, count):
    """``value`` with each byte moved up by so many, around the end."""
    return value.rotate_left(8 * count)
