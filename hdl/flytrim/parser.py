# SPDX-License-Identifier: Apache-2.0
"""Parser: what the headers of each frame say."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from . import headers as h
from .checksum import compress
from .context import LENGTH_BITS, SEEN_BITS, FlowKey, Parsed, Received
from .logic import BITS, KEEP, Copies, select
from .packet import reverse_bytes, take
from .verdict import Reason

__all__ = ["Parser"]

#: Bytes of extension headers that a packet with payload can have.
PAYLOAD_EXTENSION_BYTES = max(op.extension_bytes for op in h.OPCODES.values() if op.payload)
#: Bits of a record that come from extension headers: an immediate and a RETH.
RECORD_BITS = 8 * (h.IMMDT.size + h.RETH.size)


def words_beside(op):
    """Words of four bytes in a UDP datagram beside the payload and its pad."""
    return (h.UDP.size + h.BTH.size + op.extension_bytes + h.ICRC_BYTES) // 4


#: What these can be.
WORDS_BESIDE = sorted({words_beside(op) for op in h.OPCODES.values()})


def one_of(value, constants):
    """Whether ``value`` equals one of the constants."""
    return Cat(value == constant for constant in constants).any()


class _Located(data.StructLayout):
    """A beat, and where in its frame it and the IP header are; ``at`` is one-hot, or zero.

    ``ipv4_at`` and ``ipv6_at`` are as in :class:`Parsed`; ``tags`` is one-hot like them.
    """

    def __init__(self, config):
        super().__init__({
            "beat": Received(config), "number": range(config.max_beats + 1),
            "at": len(range(0, 1 << SEEN_BITS, config.lanes)),
            "tags": 3, "ipv4_at": 3, "ipv6_at": 3,
        })


class _Aligned(data.StructLayout):
    """A beat, and the headers of its frame, each from bit 0 on; zero where there is none."""

    def __init__(self, config):
        super().__init__({
            "located": _Located(config), "seen": SEEN_BITS, "bytes": LENGTH_BITS,
            "ip4": 8 * h.IPV4.size, "ip6": 8 * h.IPV6.size, "tci": 8 * h.VLAN.size,
            "l4": 8 * (h.UDP.size + h.BTH.size + PAYLOAD_EXTENSION_BYTES),
        })


#: What an opcode means: one-hot which of :data:`WORDS_BESIDE`; whether it has a payload, and is an
#: ONLY.
_MEANING = data.StructLayout({"beside": len(WORDS_BESIDE), "payload": 1, "only": 1})


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
    o_soon : ``o.valid`` of the next cycle
    """

    latency = 3

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Received(config), always_ready=True)),
            "o": Out(stream.Signature(Parsed(config), always_ready=True)),
            "o_soon": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        self._decode(m, *self._align(m, *self._collect(m)))
        return m

    def _collect(self, m):
        """First cycle: bytes into the window; tags and EtherType seen as they pass."""
        lanes = self._config.lanes
        beat, valid, last = self.i.payload, self.i.valid, self.i.payload.packet.last
        word = beat.packet.data

        # The number of the present beat, and one-hot, while it is among the first.
        number = Signal(range(self._config.max_beats + 1))
        with m.If(valid):
            m.d.sync += number.eq(Mux(last, 0, number + 1))
        starts = range(0, 1 << SEEN_BITS, lanes)
        at, following = Signal(len(starts), init=1), Signal(len(starts))
        m.d.comb += following.eq(Mux(valid, Mux(last, 1, at << 1), at))
        m.d.sync += at.eq(following)

        window = Signal(8 * h.MAX_HEADER_BYTES, reset_less=True)
        for n, start in enumerate(starts):
            room = window[8 * start:8 * (start + lanes)]
            copies = Copies(m, following[n], len(room), name=f"at_{start}", reset=int(n == 0))
            for here, part in copies.parts():
                with m.If(valid & here):
                    m.d.sync += room[part].eq(word[part])

        def fact(name, offset, constants):
            """Whether the two bytes at ``offset`` are one of the constants, from now on."""
            kept, now = Signal(name=f"{name}_kept"), Signal(name=name)
            lane = offset % lanes
            ethertype = reverse_bytes(word[8 * lane:8 * (lane + 2)])
            m.d.comb += now.eq(Mux(at[offset // lanes], one_of(ethertype, constants), kept))
            with m.If(valid):
                m.d.sync += kept.eq(now)
            return now

        places = [offset - 2 for offset in h.L3_OFFSETS]
        tag = [fact(f"tag_{n}", place, h.TPIDS) for n, place in enumerate(places[:2])]
        ipv4 = [fact(f"ipv4_{n}", place, [h.TYPE_IPV4]) for n, place in enumerate(places)]
        ipv6 = [fact(f"ipv6_{n}", place, [h.TYPE_IPV6]) for n, place in enumerate(places)]

        now = Signal(_Located(self._config))
        out_valid, out = Signal(), Signal.like(now, reset_less=True)
        m.d.comb += [
            now.beat.eq(beat), now.number.eq(number), now.at.eq(at),
            now.tags.eq(Cat(~tag[0], tag[0] & ~tag[1], tag[0] & tag[1])),
            now.ipv4_at.eq(now.tags & Cat(ipv4)), now.ipv6_at.eq(now.tags & Cat(ipv6)),
        ]
        m.d.sync += [out_valid.eq(valid), out.eq(now)]
        return out_valid, out, now, window

    def _align(self, m, valid, located, soon, window):
        """Second cycle: each header to where it can be read, whatever stands before it.

        ``soon`` is what ``located`` will be in the next cycle.
        """
        now = Signal(_Aligned(self._config))

        def aligned(name, *places):
            """From the place on in the window whose condition holds; zero beyond its end."""
            header = getattr(now, name)
            conditions = Cat(condition for condition, _ in places)
            for chosen, part in Copies(m, conditions, len(header), name=f"{name}_at").parts():
                m.d.comb += header[part].eq(select(
                    (here, window[8 * offset:8 * offset + len(header)][part])
                    for here, (_, offset) in zip(chosen, places, strict=True)))

        v4 = [(soon.ipv4_at[n], offset) for n, offset in enumerate(h.L3_OFFSETS)]
        v6 = [(soon.ipv6_at[n], offset) for n, offset in enumerate(h.L3_OFFSETS)]
        aligned("ip4", *v4)
        aligned("ip6", *v6)
        aligned("l4", *((here, offset + h.IPV4.size) for here, offset in v4),
                *((here, offset + h.IPV6.size) for here, offset in v6))

        # The sum has a bit more than its place, which then holds its largest value.
        lanes, count = self._config.lanes, located.beat.packet.count
        seen = Signal(SEEN_BITS + 1)
        m.d.comb += [
            seen.eq(select((here, Const(n * lanes, SEEN_BITS))
                           for n, here in enumerate(located.at)) + count),
            now.seen.eq(Mux(located.at.any() & ~seen[-1], seen, (1 << SEEN_BITS) - 1)),
            now.bytes.eq(located.number * lanes + count),
            now.located.eq(located),
            now.tci.eq(window[8 * h.ETHERNET.size:8 * (h.ETHERNET.size + h.VLAN.size)]),
        ]
        out_valid, out = Signal(), Signal.like(now, reset_less=True)
        m.d.sync += [out_valid.eq(valid), out.eq(now)]
        opcode = take(now.l4, h.BTH.opcode, base=h.UDP.size)
        opcodes = Copies(m, opcode, RECORD_BITS, name="opcode")
        meaning = Signal(_MEANING, reset_less=True)
        m.d.sync += meaning.eq(_MEANING.const({"beside": 1}))
        with m.Switch(opcode):
            for op in h.OPCODES.values():
                with m.Case(op.code):
                    m.d.sync += meaning.eq(_MEANING.const({
                        "beside": 1 << WORDS_BESIDE.index(words_beside(op)),
                        "payload": op.payload, "only": op.place is h.Place.ONLY}))
        return out_valid, out, opcodes, meaning

    def _decode(self, m, valid, aligned, opcodes, meaning):
        """Third cycle: fields, lengths, and the reasons that need no table."""
        out = Signal.like(self.o.payload, reset_less=True)
        located, seen = aligned.located, aligned.seen
        at4, at6 = located.ipv4_at, located.ipv6_at
        early = len(out.at_beat) - 1
        out_valid = Signal(attrs=KEEP)
        m.d.comb += [self.o.valid.eq(out_valid), self.o.payload.eq(out), self.o_soon.eq(valid)]
        m.d.sync += [
            out_valid.eq(valid), out.beat.eq(located.beat), out.seen.eq(seen),
            out.bytes.eq(aligned.bytes), out.ipv4_at.eq(at4), out.ipv6_at.eq(at6),
            out.at_beat.eq(Cat(located.at[:early], ~located.at[:early].any())),
        ]

        def reached(size4, size6):
            """Whether the frame has come to the end of the header at the given place."""
            return Cat(*(at4[n] & (seen >= l3 + size4) for n, l3 in enumerate(h.L3_OFFSETS)),
                       *(at6[n] & (seen >= l3 + size6) for n, l3 in enumerate(h.L3_OFFSETS))).any()

        l4_end = h.UDP.size + h.BTH.size
        m.d.sync += [
            out.has_link.eq(Cat(located.tags[n] & (seen >= l3)
                                for n, l3 in enumerate(h.L3_OFFSETS)).any()),
            out.has_ip.eq(reached(h.IPV4.size, h.IPV6.size)),
            out.has_udp.eq(reached(h.IPV4.size + h.UDP.size, h.IPV6.size + h.UDP.size)),
            out.has_bth.eq(reached(h.IPV4.size + l4_end, h.IPV6.size + l4_end)),
        ]

        key, frame_bytes = Signal(FlowKey), Signal.like(out.frame_bytes)
        self._decode_ip(m, out, key, frame_bytes, at4, at6, aligned.ip4, aligned.ip6)
        self._decode_transport(m, out, key, at4, at6, aligned, meaning)
        place = Cat(here.replicate(len(starts)) & starts
                    for here in located.at[:early] for starts in (at4, at6))
        for name, value in (("key", key), ("place", place)):
            first, again = Copies(m, value, 2 * BITS, name=name)
            m.d.comb += [self.o.payload[name].eq(first),
                         self.o.payload[f"{name}_again"].eq(again)]
        ends = Copies(m, frame_bytes, self._config.width, name="frame_end")
        m.d.comb += [one.eq(end) for one, end in zip(self.o.payload.frame_ends, ends, strict=True)]
        m.d.sync += out.frame_bytes.eq(frame_bytes)
        self._decode_extensions(m, out, aligned.l4, opcodes)
        m.d.sync += [
            out.tagged.eq(~located.tags[0]),
            out.vlan.eq(take(aligned.tci, h.VLAN.vid)),
            out.sport.eq(take(aligned.l4, h.UDP.sport)),
        ]

    def _decode_ip(self, m, out, key, frame_bytes, at4, at6, ip4, ip6):
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
        m.d.comb += [
            key.ipv6.eq(is6),
            key.src.eq(v4(h.IPV4.src) | v6(h.IPV6.src)),
            key.dst.eq(v4(h.IPV4.dst) | v6(h.IPV6.dst)),
            frame_bytes.eq(select(
                [(at4[n], (v4(h.IPV4.total_length) + l3)[:17])
                 for n, l3 in enumerate(h.L3_OFFSETS)]
                + [(at6[n], (v6(h.IPV6.payload_length) + l3 + h.IPV6.size)[:17])
                   for n, l3 in enumerate(h.L3_OFFSETS)])),
        ]
        m.d.sync += [
            out.header_reason.eq(reason),
            out.checksum.eq(Cat(compress(words, 4))),
            out.record.ecn.eq(v4(h.IPV4.ecn) | v6(h.IPV6.ecn)),
        ]

    def _decode_transport(self, m, out, key, at4, at6, aligned, meaning):
        def bth(field):
            return take(aligned.l4, field, base=h.UDP.size)

        pad_count, udp_length = bth(h.BTH.pad_count), take(aligned.l4, h.UDP.length)
        # All is a multiple of four, but for the two bytes that Ethernet has more, and the pad.
        stack = select([(at4[n], Const((l3 + h.IPV4.size - h.ICRC_BYTES) // 4, 5))
                        for n, l3 in enumerate(h.L3_OFFSETS)]
                       + [(at6[n], Const((l3 + h.IPV6.size - h.ICRC_BYTES) // 4, 5))
                          for n, l3 in enumerate(h.L3_OFFSETS)])
        choices = list(zip(meaning.beside, WORDS_BESIDE, strict=True))
        beside = select((here, Const(words, 4)) for here, words in choices)
        fits = udp_length[6:].any() | select(
            (here, udp_length[:6] >= Cat(pad_count, Const(words, 4))) for here, words in choices)
        ip_payload_agrees = Mux(
            at4.any(), take(aligned.ip4, h.IPV4.total_length) == udp_length + h.IPV4.size,
            take(aligned.ip6, h.IPV6.payload_length) == udp_length)
        m.d.comb += [
            key.dport.eq(take(aligned.l4, h.UDP.dport)),
            key.qpn.eq(bth(h.BTH.dest_qp)),
        ]
        m.d.sync += [
            out.header_bytes.eq(Cat(Const(2, 2), (stack + beside)[:5])),
            out.length.eq(udp_length - Cat(pad_count, beside)),
            out.sound.eq(ip_payload_agrees & fits),
            out.payload.eq(meaning.payload & (bth(h.BTH.tver) == 0)),
            out.only.eq(meaning.only),
            out.record.opcode.eq(bth(h.BTH.opcode)),
            out.record.psn.eq(bth(h.BTH.psn)),
            out.record.pad_count.eq(pad_count),
            out.record.solicited.eq(bth(h.BTH.solicited)),
            out.record.ack_request.eq(bth(h.BTH.ack_request)),
        ]

    def _decode_extensions(self, m, out, l4, opcodes):
        """What the record takes from extension headers, by where the opcode says they are."""
        record = out.record
        target = Cat(record.immediate, record.address, record.rkey, record.dma_length)
        assert len(target) == RECORD_BITS
        for number, (opcode, part) in enumerate(opcodes.parts()):
            places = {(header, offset): Signal(name=f"{header.name}_at_{offset}_{number}")
                      for header, offset in _extension_places()}
            with m.Switch(opcode):
                for op in h.OPCODES.values():
                    with m.Case(op.code):
                        m.d.comb += [places[place].eq(1) for place in _places_of(op)]

            def extension(field, places=places):
                return select(
                    (here, take(l4, field, base=h.UDP.size + h.BTH.size + offset))
                    for (header, offset), here in places.items()
                    if field in header.fields.values())

            m.d.sync += target[part].eq(Cat(
                extension(h.IMMDT.immediate) | extension(h.IETH.rkey),
                extension(h.RETH.address), extension(h.RETH.rkey),
                extension(h.RETH.dma_length))[part])


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

