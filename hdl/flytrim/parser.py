# SPDX-License-Identifier: Apache-2.0
"""Parser: what the headers of each frame say."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from . import headers as h
from .checksum import compress
from .context import Parsed, Received
from .packet import reverse_bytes, take
from .verdict import Reason

__all__ = ["Parser"]

#: Bytes of extension headers that a packet with payload can have.
PAYLOAD_EXTENSION_BYTES = max(op.extension_bytes for op in h.OPCODES.values() if op.payload)


def one_of(value, constants):
    """Whether ``value`` equals one of the constants."""
    return Cat(value == constant for constant in constants).any()


def select(choices):
    """AND-OR of (condition, value) pairs; zero where no condition holds."""
    result = 0
    for condition, value in choices:
        result = result | (condition.replicate(len(value)) & value)
    return result


class Parser(wiring.Component):
    """Reads Ethernet, VLAN, IPv4, IPv6, UDP, BTH and extension headers beside the stream of beats.

    Latency 3 cycles, one beat a cycle, never stalls; the input is registered first. The header
    bytes are kept in a window as they come, wherever the beats cut them, and read from it at each
    of the six places where an IP header can end, so that a frame of one beat needs no longer than
    any other.

    Members
    -------
    i : lane of :class:`Received`
    o : lane of :class:`Parsed`, a beat for a beat
    """

    latency = 3

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Received(config), always_ready=True)),
            "o": Out(stream.Signature(Parsed(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        collected = self._collect(m)
        aligned = self._align(m, *collected)
        self._decode(m, *aligned)
        return m

    def _collect(self, m):
        """First cycle: bytes into the window; tags and EtherType seen as they pass."""
        lanes = self._config.lanes
        beat, valid = self.i.payload, self.i.valid
        data = beat.packet.data

        following = Signal(range(self._config.max_beats + 1))
        index = Mux(beat.first, 0, following)
        m.d.sync += following.eq(Mux(valid, index + 1, following))

        def here(offset):
            return index == offset // lanes

        def lane(offset, count=1):
            return data[8 * (offset % lanes):8 * (offset % lanes + count)]

        window = Signal(8 * h.MAX_HEADER_BYTES, reset_less=True)
        for start in range(0, h.MAX_HEADER_BYTES, lanes):
            count = min(lanes, h.MAX_HEADER_BYTES - start)
            with m.If(valid & here(start)):
                m.d.sync += window[8 * start:8 * (start + count)].eq(lane(start, count))

        def fact(name, offset, constants):
            """Whether the two bytes at ``offset`` are one of the constants, from now on."""
            kept, now = Signal(name=f"{name}_kept"), Signal(name=name)
            ethertype = reverse_bytes(lane(offset, 2))
            m.d.comb += now.eq(Mux(here(offset), one_of(ethertype, constants), kept))
            with m.If(valid):
                m.d.sync += kept.eq(now)
            return now

        places = [offset - 2 for offset in h.L3_OFFSETS]
        tag = [fact(f"tag_{n}", place, h.TPIDS) for n, place in enumerate(places[:2])]
        ipv4 = [fact(f"ipv4_{n}", place, [h.TYPE_IPV4]) for n, place in enumerate(places)]
        ipv6 = [fact(f"ipv6_{n}", place, [h.TYPE_IPV6]) for n, place in enumerate(places)]
        tags = [~tag[0], tag[0] & ~tag[1], tag[0] & tag[1]]

        tagged, at4, at6 = Signal(3), Signal(3), Signal(3)
        with m.If(valid):
            for n in range(3):
                m.d.sync += [
                    tagged[n].eq(tags[n]),
                    at4[n].eq(tags[n] & ipv4[n]),
                    at6[n].eq(tags[n] & ipv6[n]),
                ]

        out = Signal(Received(self._config), reset_less=True)
        out_valid, number = Signal(), Signal.like(following)
        at_beat = Signal(len(self.o.payload.at_beat))
        last_place = len(at_beat) - 1
        m.d.sync += [
            out_valid.eq(valid),
            out.eq(beat),
            number.eq(index),
            at_beat.eq(Cat(*(index == n for n in range(last_place)), index >= last_place)),
        ]
        return out_valid, out, number, at_beat, window, tagged, at4, at6

    def _align(self, m, valid, beat, number, at_beat, window, tagged, at4, at6):
        """Second cycle: each header to where it can be read, whatever stands before it."""
        def at(offset, size):
            """``size`` bytes of the window; zero beyond its end."""
            return window[8 * offset:8 * (offset + size)]

        ip4 = Signal(8 * h.IPV4.size, reset_less=True)
        ip6 = Signal(8 * h.IPV6.size, reset_less=True)
        l4_size = h.UDP.size + h.BTH.size + PAYLOAD_EXTENSION_BYTES
        l4 = Signal(8 * l4_size, reset_less=True)
        tci = Signal(8 * h.VLAN.size, reset_less=True)
        m.d.sync += [
            ip4.eq(select((at4[n], at(l3, h.IPV4.size)) for n, l3 in enumerate(h.L3_OFFSETS))),
            ip6.eq(select((at6[n], at(l3, h.IPV6.size)) for n, l3 in enumerate(h.L3_OFFSETS))),
            l4.eq(select([(at4[n], at(l3 + h.IPV4.size, l4_size))
                          for n, l3 in enumerate(h.L3_OFFSETS)]
                         + [(at6[n], at(l3 + h.IPV6.size, l4_size))
                            for n, l3 in enumerate(h.L3_OFFSETS)])),
            tci.eq(at(h.ETHERNET.size, h.VLAN.size)),
        ]

        def delay(signal):
            later = Signal.like(signal, reset_less=True)
            m.d.sync += later.eq(signal)
            return later

        out_valid, total = Signal(), Signal(len(self.o.payload.bytes))
        m.d.sync += [
            out_valid.eq(valid),
            total.eq(number * self._config.lanes + beat.packet.count),
        ]
        beat, at_beat, tagged, at4, at6 = map(delay, (beat, at_beat, tagged, at4, at6))
        return out_valid, beat, total, at_beat, tagged, at4, at6, ip4, ip6, l4, tci

    def _decode(self, m, valid, beat, total, at_beat, tagged, at4, at6, ip4, ip6, l4, tci):
        """Third cycle: fields, lengths, and the reasons that need no table."""
        out = Signal.like(self.o.payload, reset_less=True)
        m.d.comb += self.o.payload.eq(out)
        seen = Mux(total[7:].any(), 127, total[:7])
        m.d.sync += [self.o.valid.eq(valid), out.beat.eq(beat), out.seen.eq(seen),
                     out.bytes.eq(total), out.at_beat.eq(at_beat),
                     out.ipv4_at.eq(at4), out.ipv6_at.eq(at6)]

        def reached(size4, size6):
            """Whether the frame has come to the end of the header at the given place."""
            return Cat(*(at4[n] & (seen >= l3 + size4) for n, l3 in enumerate(h.L3_OFFSETS)),
                       *(at6[n] & (seen >= l3 + size6) for n, l3 in enumerate(h.L3_OFFSETS))).any()

        l4_end = h.UDP.size + h.BTH.size
        m.d.sync += [
            out.has_link.eq(Cat(tagged[n] & (seen >= l3)
                                for n, l3 in enumerate(h.L3_OFFSETS)).any()),
            out.has_ip.eq(reached(h.IPV4.size, h.IPV6.size)),
            out.has_udp.eq(reached(h.IPV4.size + h.UDP.size, h.IPV6.size + h.UDP.size)),
            out.has_bth.eq(reached(h.IPV4.size + l4_end, h.IPV6.size + l4_end)),
        ]

        self._decode_ip(m, out, at4, at6, ip4, ip6)
        self._decode_transport(m, out, at4, at6, ip4, ip6, l4)
        m.d.sync += [
            out.tagged.eq(~tagged[0]),
            out.vlan.eq(take(tci, h.VLAN.vid)),
            out.sport.eq(take(l4, h.UDP.sport)),
        ]

    def _decode_ip(self, m, out, at4, at6, ip4, ip6):
        def v4(field):
            return take(ip4, field)

        def v6(field):
            return take(ip6, field)

        next_header = v6(h.IPV6.next_header)
        is4, is6 = at4.any(), at6.any()
        reason = Signal(Reason)
        with m.If(~(is4 | is6)):
            m.d.comb += reason.eq(Reason.NOT_IP)
        with m.Elif(Mux(is4, v4(h.IPV4.more_fragments) | v4(h.IPV4.fragment_offset).any(),
                        next_header == h.IP_FRAGMENT)):
            m.d.comb += reason.eq(Reason.FRAGMENT)
        with m.Elif(Mux(is4, v4(h.IPV4.ihl) > h.IPV4.size // 4,
                        one_of(next_header, h.EXTENSION_PROTOCOLS))):
            m.d.comb += reason.eq(Reason.IP_EXTENSION)
        with m.Elif(Mux(is4, (v4(h.IPV4.version) != 4) | (v4(h.IPV4.ihl) < h.IPV4.size // 4),
                        v6(h.IPV6.version) != 6)):
            m.d.comb += reason.eq(Reason.IP_HEADER)
        with m.Elif(Mux(is4, v4(h.IPV4.protocol), next_header) != h.IP_UDP):
            m.d.comb += reason.eq(Reason.NOT_UDP)

        words = [reverse_bytes(ip4[bit:bit + 16]) for bit in range(0, len(ip4), 16)]
        m.d.sync += [
            out.header_reason.eq(reason),
            out.checksum.eq(Cat(compress(words, 4))),
            out.key.ipv6.eq(is6),
            out.key.src.eq(v4(h.IPV4.src) | v6(h.IPV6.src)),
            out.key.dst.eq(v4(h.IPV4.dst) | v6(h.IPV6.dst)),
            out.record.ecn.eq(v4(h.IPV4.ecn) | v6(h.IPV6.ecn)),
            out.frame_bytes.eq(select(
                [(at4[n], (v4(h.IPV4.total_length) + l3)[:17])
                 for n, l3 in enumerate(h.L3_OFFSETS)]
                + [(at6[n], (v6(h.IPV6.payload_length) + l3 + h.IPV6.size)[:17])
                   for n, l3 in enumerate(h.L3_OFFSETS)])),
        ]

    def _decode_transport(self, m, out, at4, at6, ip4, ip6, l4):
        def bth(field):
            return take(l4, field, base=h.UDP.size)

        opcode, pad_count = bth(h.BTH.opcode), bth(h.BTH.pad_count)
        udp_length = take(l4, h.UDP.length)

        # What each opcode has behind the BTH: how many bytes, and which header where.
        extension_bytes = Signal(range(29))
        payload, only = Signal(), Signal()
        places = {(header, offset): Signal(name=f"{header.name}_at_{offset}")
                  for header, offset in _extension_places()}
        with m.Switch(opcode):
            for op in h.OPCODES.values():
                with m.Case(op.code):
                    m.d.comb += [
                        extension_bytes.eq(op.extension_bytes),
                        payload.eq(op.payload),
                        only.eq(op.place is h.Place.ONLY),
                    ]
                    for place in _places_of(op):
                        m.d.comb += places[place].eq(1)

        def extension(field):
            header = next(header for header, _ in places if field in header.fields.values())
            base = h.UDP.size + h.BTH.size
            return select((here, take(l4, field, base=base + offset))
                          for (other, offset), here in places.items() if other is header)

        stack = Signal(range(h.MAX_HEADER_BYTES + 1))
        m.d.comb += stack.eq(select(
            [(at4[n], Const(l3 + h.IPV4.size, 7)) for n, l3 in enumerate(h.L3_OFFSETS)]
            + [(at6[n], Const(l3 + h.IPV6.size, 7)) for n, l3 in enumerate(h.L3_OFFSETS)]))

        fixed = h.UDP.size + h.BTH.size + h.ICRC_BYTES
        rest = udp_length - (extension_bytes + pad_count + fixed)
        ip_payload_agrees = Mux(at4.any(),
                                take(ip4, h.IPV4.total_length) == udp_length + h.IPV4.size,
                                take(ip6, h.IPV6.payload_length) == udp_length)
        m.d.sync += [
            out.header_bytes.eq(stack + h.UDP.size + h.BTH.size + extension_bytes),
            out.length.eq(rest[:16]),
            out.sound.eq(ip_payload_agrees & (rest >= 0)),
            out.payload.eq(payload & (bth(h.BTH.tver) == 0)),
            out.only.eq(only),
            out.key.dport.eq(take(l4, h.UDP.dport)),
            out.key.qpn.eq(bth(h.BTH.dest_qp)),
            out.record.opcode.eq(opcode),
            out.record.psn.eq(bth(h.BTH.psn)),
            out.record.pad_count.eq(pad_count),
            out.record.solicited.eq(bth(h.BTH.solicited)),
            out.record.ack_request.eq(bth(h.BTH.ack_request)),
            out.record.immediate.eq(extension(h.IMMDT.immediate) | extension(h.IETH.rkey)),
            out.record.address.eq(extension(h.RETH.address)),
            out.record.rkey.eq(extension(h.RETH.rkey)),
            out.record.dma_length.eq(extension(h.RETH.dma_length)),
        ]


def _places_of(op):
    """(header, offset behind the BTH) of each extension header that a record has a field for."""
    offset = 0
    for header in op.extensions:
        if op.payload and header in (h.RETH, h.IMMDT, h.IETH):
            yield header, offset
        offset += header.size


def _extension_places():
    return sorted({place for op in h.OPCODES.values() for place in _places_of(op)},
                  key=lambda place: (place[0].name, place[1]))

