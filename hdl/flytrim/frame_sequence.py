# SPDX-License-Identifier: Apache-2.0
"""Frame sequence: which beat of which frame the encapsulator makes in each cycle."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from . import headers as h
from .header_stack import BASE_WORDS, EXTENSIONS, HeaderStack
from .logic import exceeds, select

__all__ = ["WORD", "FrameSequence", "Sizes"]

#: All but a frame's first two bytes is counted in words of four: headers, payload with pad, ICRC.
WORD = 4
LENGTH_BITS, WORD_BITS, STACK_BITS = 14, 12, 5


class Sizes(data.Struct):
    """What a record comes to, in words.

    ``stack`` and ``end`` are where headers and pad end, behind a frame's first two bytes; ``udp``
    and ``ip`` the lengths of the UDP and the IPv4 datagram. ``chains`` has a bit for each of
    :data:`flytrim.header_stack.EXTENSIONS` that the opcode has.
    """

    chains: len(EXTENSIONS)
    stack: STACK_BITS
    end: WORD_BITS
    udp: WORD_BITS
    ip: WORD_BITS


class FrameSequence(wiring.Component):
    """Takes a record when it is through with the one before, and counts the beats of its frame.

    A record that is taken is the current one from the next cycle on. Its frame's first beat is made
    as soon as it may, the others in the cycles behind it.

    Members
    -------
    valid, opcode, tagged, ipv6, length : of the record that is offered
    payload : a beat of payload is offered
    room : a frame may begin
    sizes : of the record that is offered
    load : it is taken, if it is valid
    next_idle : there is no current record in the next cycle
    step : a beat of the current frame is made
    first, last : it is, or will be, the frame's first, its last
    ends_next : the one behind it will be the last
    take : it takes a beat of payload
    number : its number as far as there can be headers, one-hot
    next_last, next_number : the same of the next cycle
    """

    def __init__(self, width):
        self._lanes = width // 8
        numbers = -(-HeaderStack.size // self._lanes)
        super().__init__({
            "valid": In(1), "opcode": In(8), "tagged": In(1), "ipv6": In(1),
            "length": In(LENGTH_BITS), "payload": In(1), "room": In(1),
            "sizes": Out(Sizes), "load": Out(1), "next_idle": Out(1),
            "step": Out(1), "first": Out(1), "last": Out(1), "ends_next": Out(1), "take": Out(1),
            "number": Out(numbers), "next_last": Out(1), "next_number": Out(numbers),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, words = self._lanes, self._lanes // WORD
        index_bits = (words - 1).bit_length()
        beats, single = self._sizes(m)
        beats_of_payload = (self.length + (lanes - 1)) >> (lanes - 1).bit_length()

        # Of the current frame: beats behind this one, beats before the first of payload, beats of
        # payload from this one on.
        left = Signal(len(beats), reset_less=True)
        ahead = Signal(max(0, STACK_BITS - index_bits), reset_less=True)
        more = Signal(len(beats_of_payload), reset_less=True)
        idle, started, empty, go = Signal(init=1), Signal(), Signal(), Signal()
        m.d.comb += [
            go.eq(started | self.room & (self.payload | empty)),
            self.load.eq(idle | self.last & go),
            self.step.eq(go & ~idle),
            self.first.eq(~started),
            self.take.eq(~ahead.any() & more.any()),
            self.ends_next.eq(left == 1),
            self.next_idle.eq(self.load & ~self.valid),
            self.next_last.eq(Mux(self.load, single, Mux(go, self.ends_next, self.last))),
            self.next_number.eq(Mux(self.load, 1, Mux(go, self.number << 1, self.number))),
        ]
        m.d.sync += [
            idle.eq(self.next_idle),
            self.last.eq(self.next_last),
            self.number.eq(self.next_number),
            started.eq(self.step & ~self.last),
        ]
        with m.If(self.load):
            m.d.sync += [empty.eq(~self.length.any()), left.eq(beats), more.eq(beats_of_payload),
                         ahead.eq(self.sizes.stack >> index_bits)]
        with m.Elif(go):
            m.d.sync += [left.eq(left - 1), more.eq(more - self.take)]
            with m.If(ahead.any()):
                m.d.sync += ahead.eq(ahead - 1)
        return m

    def _sizes(self, m):
        """Beats behind the first of the record that is offered, and whether there are none.

        What its headers come to is looked up: no adder waits for another.
        """
        words = self._lanes // WORD
        extension, kind = Signal(3), Signal(5)
        counts = [sum(header.size for header in chain) // WORD for chain in EXTENSIONS]
        ipv6_words = (h.IPV6.size - h.IPV4.size) // WORD
        m.d.comb += [
            self.sizes.chains.eq(Cat(Cat(self.opcode == code for code in codes).any()
                                     for codes in EXTENSIONS.values())),
            extension.eq(select((use, Const(count, 3)) for use, count in zip(
                self.sizes.chains, counts, strict=True))),
            kind.eq(Cat(extension, self.tagged, self.ipv6)),
        ]
        kinds = [(extension, BASE_WORDS + extension + tagged + ipv6_words * ipv6)
                 for ipv6 in (0, 1) for tagged in (0, 1) for extension in range(8)]
        partial = self.length[:2].any()

        def look_up(values, bits=STACK_BITS):
            return Array(Const(value, bits) for value in values)[kind]

        def in_words(before):
            """Words of the payload with its pad and as many before it, given by kind."""
            return self.length[2:] + Array(Const(count + rest, STACK_BITS + 1) for rest in (0, 1)
                                           for count in before)[Cat(kind, partial)]

        udp = (h.UDP.size + h.BTH.size + h.ICRC_BYTES) // WORD
        ip = udp + h.IPV4.size // WORD
        m.d.comb += [
            self.sizes.stack.eq(look_up([stack for _, stack in kinds])),
            self.sizes.end.eq(in_words([stack for _, stack in kinds])),
            self.sizes.udp.eq(in_words([extension + udp for extension, _ in kinds])),
            self.sizes.ip.eq(in_words([extension + ip for extension, _ in kinds])),
        ]
        single = Cat(look_up([int(stack == count) for _, stack in kinds], 1)
                     & ~exceeds(self.length, Const(WORD * (words - 2 - count), LENGTH_BITS))
                     for count in range(BASE_WORDS, words - 1)).any()
        return in_words([stack + 1 for _, stack in kinds]) >> (words - 1).bit_length(), single
