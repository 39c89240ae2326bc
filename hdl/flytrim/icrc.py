# SPDX-License-Identifier: Apache-2.0
"""ICRC checker: the invariant CRC of each RoCEv2 packet, at one beat a cycle."""

import functools
import operator

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from . import headers as h
from .context import LENGTH_BITS, Parsed
from .logic import exceeds
from .packet import thermometer

__all__ = ["SEED", "IcrcChecker", "advance", "linear", "masked_bits", "retreat"]

#: CRC-32 of IEEE 802.3, bit-reflected.
POLYNOMIAL = 0xEDB88320
#: The register after the eight bytes of ones that stand for the local route header.
SEED = 0xDEBB20E3
#: The register after a message and its own CRC, whatever the message.
RESIDUE = 0xDEBB20E3


def advance(state, count=1):
    """The register after ``count`` zero bytes."""
    for _ in range(8 * count):
        state = (state >> 1) ^ (POLYNOMIAL if state & 1 else 0)
    return state


def retreat(state, count=1):
    """The register that ``count`` zero bytes take to ``state``."""
    for _ in range(8 * count):
        state = (state << 1 ^ (POLYNOMIAL << 1 | 1 if state >> 31 else 0)) & 0xFFFF_FFFF
    return state


def linear(columns, bits):
    """The XOR of those 32-bit columns whose bit is set."""
    rows = [sum((column >> row & 1) << n for n, column in enumerate(columns)) for row in range(32)]
    return Cat((bits & Const(row, len(bits))).xor() for row in rows)


def masked_bits(ip):
    """What reads as ones in the ICRC: {byte behind the IP header's start: bits}."""
    fields = [h.IPV4.dscp, h.IPV4.ecn, h.IPV4.ttl, h.IPV4.checksum] if ip is h.IPV4 else \
             [h.IPV6.dscp, h.IPV6.ecn, h.IPV6.flow_label, h.IPV6.hop_limit]
    places = [(0, field) for field in fields]
    places += [(ip.size, h.UDP.checksum)]
    places += [(ip.size + h.UDP.size, field) for field in (h.BTH.fecn, h.BTH.becn, h.BTH.reserved)]
    masks = {}
    for base, field in places:
        for bit in range(field.bit, field.bit + field.width):
            byte = base + bit // 8
            masks[byte] = masks.get(byte, 0) | 0x80 >> bit % 8
    return masks


class IcrcChecker(wiring.Component):
    """Runs the CRC from the IP header to the ICRC itself and compares the residue.

    Latency 3 cycles, one beat a cycle, never stalls. Nothing is realigned. What stands before the
    IP header is zero, which leaves a register of zero alone; the seed is added to the header's
    first four bytes instead. What stands behind the ICRC in its beat is zero too; so many zero
    bytes turn the residue into another constant, and that one is compared with.

    Source: InfiniBand Architecture volume 1, section 7.8.1 and annex A17.3.3.

    Members
    -------
    i : lane of :class:`Parsed`
    good : 3 cycles behind the beat that holds the ICRC's last byte: the packet is as it was sent;
        holds until that of the next frame. Without meaning where no such beat came.
    """

    latency = 3

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Parsed(config), always_ready=True)),
            "good": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, parsed = self._config.lanes, self.i.payload

        # The beat that holds the datagram's last byte; those behind it are pad. The length counts
        # once the IP header is there: no datagram ends in it.
        running = Signal()
        before = Mux(parsed.beat.first, 1, running)
        ends, inside = self._find_end(m, before)
        with m.If(self.i.valid):
            m.d.sync += running.eq(before & ~ends)

        # First cycle: set the masked bits, add the seed, clear the lanes that do not count.
        masked = Signal(self._config.width, reset_less=True)
        for lane, (known, ones, seed) in enumerate(self._at_lanes(m)):
            byte = parsed.beat.packet.data.word_select(lane, 8)
            m.d.sync += masked.word_select(lane, 8).eq(
                Mux(known & inside[lane], (byte | ones) ^ seed, 0))
        first = self._delay(m, valid=self.i.valid & before, first=parsed.beat.first, ends=ends,
                            end_lane=parsed.frame_bytes[:(lanes - 1).bit_length()])

        # Second cycle: what the beat adds to a register of zero, each half of the lanes by itself,
        # since the sum of all is deep; and how one half differs from what the register must hold
        # in the end.
        columns = []
        for lane in range(lanes):
            columns += [advance(1 << bit, lanes - lane) for bit in range(8)]
        half = len(columns) // 2
        now, expected = Signal(32), Signal(32)
        added = [Signal(32, name=f"added_{n}", reset_less=True) for n in range(2)]
        missing = Signal(32, reset_less=True)
        m.d.comb += [
            now.eq(linear(columns[:half], masked[:half])),
            expected.eq(Array(Const(advance(RESIDUE, -end % lanes), 32)
                              for end in range(lanes))[first["end_lane"]]),
        ]
        m.d.sync += [added[0].eq(now), added[1].eq(linear(columns[half:], masked[half:])),
                     missing.eq(now ^ expected)]
        second = self._delay(m, **{name: first[name] for name in ("valid", "first", "ends")})

        # Third cycle: the register moves on; it ends well if it and the other half make up what is
        # missing.
        state, moved, same = Signal(32), Signal(32), Signal(4)
        shifted = linear([advance(1 << bit, lanes) for bit in range(32)], state)
        m.d.comb += moved.eq(Mux(second["first"], 0, shifted) ^ added[1])
        with m.If(second["valid"]):
            m.d.sync += state.eq(moved ^ added[0])
            with m.If(second["ends"]):
                m.d.sync += same.eq(Cat(moved.word_select(n, 8) == missing.word_select(n, 8)
                                        for n in range(4)))
        m.d.comb += self.good.eq(same.all())
        return m

    def _find_end(self, m, before):
        """Whether the beat holds the datagram's last byte; the lanes that do not stand behind it.

        The lanes have several copies of the end, so that none has to reach all their bits.
        """
        parsed, lanes = self.i.payload, self._config.lanes
        found, inside = Signal(len(parsed.frame_ends)), Signal(lanes)
        each = -(-lanes // len(parsed.frame_ends))
        bytes_ = Cat(parsed.bytes, Const(0, len(parsed.frame_bytes) - LENGTH_BITS))
        for n, end in enumerate(parsed.frame_ends):
            end_lane, cuts = end[:(lanes - 1).bit_length()], Signal(name=f"cuts_{n}")
            part = slice(each * n, min(each * (n + 1), lanes))
            m.d.comb += [
                found[n].eq(before & parsed.has_ip & ~exceeds(end, bytes_)),
                cuts.eq(found[n] & end_lane.any()),
                inside[part].eq((~cuts).replicate(len(inside[part]))
                                | thermometer(end_lane, lanes, part)),
            ]
        return found[0], inside

    def _at_lanes(self, m):
        """For each lane: whether its byte is part of the datagram; its masked bits; its seed.

        The place of a byte in the frame is (beat, lane), so what it means depends on the number of
        the beat and on where the IP header starts. That is known in time: the EtherType stands
        right before the IP header, and its two bytes in one beat.
        """
        parsed, lanes = self.i.payload, self._config.lanes
        # One-hot: what is in none of the first beats is in a later one.
        early = parsed.at_beat[:-1]
        before_ip = [[here for number, here in enumerate(early)
                      if number * lanes + lane < h.L3_OFFSETS[-1]] for lane in range(lanes)]
        known = [[~Cat(beats).any()] for beats in before_ip]
        ones = [[Const(0, 8)] for _ in range(lanes)]
        seed = [[Const(0, 8)] for _ in range(lanes)]
        places = [(number, ip, start) for number in range(len(early))
                  for ip in (h.IPV4, h.IPV6) for start in h.L3_OFFSETS]
        for (number, ip, start), here, again in zip(
                places, parsed.place, parsed.place_again, strict=True):
            masks = masked_bits(ip)
            for lane in range(lanes):
                offset = number * lanes + lane - start
                if offset in masks:
                    ones[lane].append(here.replicate(8) & masks[offset])
                if 0 <= offset and number * lanes + lane < h.L3_OFFSETS[-1]:
                    known[lane].append(again)
                if 0 <= offset < 4:
                    seed[lane].append(again.replicate(8) & (SEED >> 8 * offset & 0xFF))

        return [[functools.reduce(operator.or_, terms) for terms in lane]
                for lane in zip(known, ones, seed, strict=True)]

    def _delay(self, m, **signals):
        """The signals one cycle later, by name."""
        later = {name: Signal(len(value), name=f"{name}_later") for name, value in signals.items()}
        m.d.sync += [later[name].eq(value) for name, value in signals.items()]
        return later
