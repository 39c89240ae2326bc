# SPDX-License-Identifier: Apache-2.0
"""Parser: every beat once, unchanged, in order; and what its frame's headers say, read anew."""

from amaranth import Cat, Mux, Signal
from proof import Fault, Opened, Proof, Spec, small_config

from flytrim.parser import Parser
from flytrim.verdict import Reason

#: Longest frame in bytes that is assumed.
LONGEST = 9216
#: Bytes of a frame that the specification reads: up to the longest chain of headers.
HEADERS = 110
LATENCY = 3
#: Where an IP header starts, by the number of tags before it.
STARTS = (14, 18, 22)

# What the opcodes announce (InfiniBand Architecture volume 1, table 38), by size in bytes.
IMMEDIATE = (0x03, 0x05, 0x09, 0x0B, 0x23, 0x25, 0x29, 0x2B, 0x65)
INVALIDATE = (0x16, 0x17)
REMOTE_WRITE = (0x06, 0x0A, 0x0B, 0x26, 0x2A, 0x2B)
DATAGRAM = (0x64, 0x65)
EXTENSIONS = (
    (4, (*IMMEDIATE, *INVALIDATE, 0x0D, 0x0F, 0x10, 0x11, 0x12)),
    (8, (*DATAGRAM, 0x12)),
    (16, (*REMOTE_WRITE, 0x0C)),
    (28, (0x13, 0x14)),
)
PAYLOAD = (*range(0x0C), *range(0x0D, 0x11), *INVALIDATE, *range(0x20, 0x2C), *DATAGRAM)
ONLY = (0x04, 0x05, 0x0A, 0x0B, 0x10, 0x17, 0x24, 0x25, 0x2A, 0x2B, 0x64, 0x65)


def number(raw, offset, size):
    """The big-endian number of ``size`` bytes at ``offset`` of wire bytes."""
    return Cat(raw.word_select(offset + n, 8) for n in reversed(range(size)))


def among(value, constants):
    return Cat(value == constant for constant in constants).any()


class ParserSpec(Spec):
    """A lane of legal frames, with gaps and of any content.

    Some frames, arbitrary ones, are watched: they all start with the bytes ``text``, arbitrary but
    the same for all time, as far as they are long. So whatever holds for the watched holds for
    each frame, and what its headers say is a function of one constant. A field is compared from
    the beat on that holds its last byte.
    """

    def __init__(self, width):
        self.config = small_config(width=width, side_width=2)

    def specify(self, m):
        parser = Parser(self.config)
        m.submodules.parser = self.inner = Opened(parser)
        self.i, self.o, self.soon = parser.i, parser.o, parser.o_soon
        self.text = self.constant(8 * HEADERS, "text")
        self._drive(m)
        self._conservation(m)
        self._headers(m)
        self._invariants(m)

    def _drive(self, m):
        lanes, i = self.config.lanes, self.i
        beat, packet = i.payload, i.payload.packet
        self.free(i.valid, i.payload)
        self.inside, self.watched, chosen = Signal(), Signal(), Signal()
        self.before = Signal(range(LONGEST + 1))
        self.free(chosen)
        self.whole = self.before + packet.count
        watched = Mux(self.inside, self.watched, chosen)
        with m.If(i.valid):
            m.d.sync += [self.inside.eq(~packet.last), self.watched.eq(watched),
                         self.before.eq(Mux(packet.last, 0, self.whole))]
        self.assume(~i.valid | (beat.first == ~self.inside))
        self.assume(~i.valid | ((packet.count > 0) & (packet.count <= lanes)))
        self.assume(~i.valid | packet.last | (packet.count == lanes))
        self.assume(~i.valid | (self.whole <= LONGEST))
        for place in range(HEADERS):
            here = i.valid & watched & (self.before == place // lanes * lanes)
            byte = packet.data.word_select(place % lanes, 8)
            self.assume(~here | (packet.count <= place % lanes)
                        | (byte == self.text.word_select(place, 8)))
        self.shown = self.past(i.valid & watched, LATENCY)

    def _conservation(self, m):
        """The lane that comes out is the lane that went in, and keeps to the rules by itself."""
        o, beat, packet = self.o, self.o.payload.beat, self.o.payload.beat.packet
        lanes = self.config.lanes
        self.check("beat_for_beat", o.valid == self.past(self.i.valid, LATENCY))
        self.check("announced", o.valid == self.past(self.soon))
        self.check("beat_unchanged", ~o.valid | (
            beat.as_value() == self.past(self.i.payload.as_value(), LATENCY)))

        open_, sent = Signal(), Signal(range(LONGEST + 1))
        total = Mux(open_, sent, 0) + packet.count
        with m.If(o.valid):
            m.d.sync += [open_.eq(~packet.last), sent.eq(total)]
        self.check("first_when_new", ~o.valid | (beat.first == ~open_))
        self.check("no_null_beat", ~o.valid | ((packet.count > 0) & (packet.count <= lanes)))
        self.check("full_before_last", ~o.valid | packet.last | (packet.count == lanes))
        self.check("bytes_counted", ~o.valid | (self.o.payload.bytes == total))
        self.check("seen_counted", ~o.valid | (
            self.o.payload.seen == Mux(total > 127, 127, total)))
        last_place = len(self.o.payload.at_beat) - 1
        self.check("beats_counted", ~o.valid | Cat(
            self.o.payload.at_beat[n] == (Mux(open_, sent, 0) == n * lanes)
            for n in range(last_place)).all())
        places = Cat(here & start for here in self.o.payload.at_beat[:-1]
                     for start in (*self.o.payload.ipv4_at, *self.o.payload.ipv6_at))
        self.check("places_twice", (self.o.payload.place == places)
                   & (self.o.payload.place_again == places))
        self.check("beats_one_hot", ~o.valid | (
            self.o.payload.at_beat[-1] == ~self.o.payload.at_beat[:-1].any()))
        self.invariant("open_is_inside", open_ == self.past(self.inside, LATENCY))
        self.invariant("sent_is_before", ~open_ | (sent == self.past(self.before, LATENCY)))

        self.cover("one_beat_frames", o.valid & packet.last & beat.first
                   & self.past(o.valid & packet.last & beat.first))
        self.cover("gap_in_frame", o.valid & ~beat.first & ~self.past(o.valid))

    def _headers(self, m):
        text, o, seen = self.text, self.o.payload, self.o.payload.seen
        types = [number(text, start - 2, 2) for start in STARTS]
        tagged = [among(ethertype, (0x8100, 0x88A8, 0x9100)) for ethertype in types]
        start, ethertype, tags = Signal(7), Signal(16), Signal(2)
        m.d.comb += tags.eq(Mux(tagged[0], Mux(tagged[1], 2, 1), 0))
        with m.Switch(tags):
            for n in range(3):
                with m.Case(n):
                    m.d.comb += [start.eq(STARTS[n]), ethertype.eq(types[n])]
        v4, v6 = Signal(), Signal()
        m.d.comb += [v4.eq(ethertype == 0x0800), v6.eq(ethertype == 0x86DD)]
        ip = Signal(8 * HEADERS)
        udp = Signal(8 * HEADERS)
        m.d.comb += [ip.eq(text >> 8 * start), udp.eq(Mux(v6, ip >> 8 * 40, ip >> 8 * 20))]
        bth, behind = udp[8 * 8:], udp[8 * 20:]
        udp_start, ext_start = Signal(7), Signal(7)
        m.d.comb += [udp_start.eq(start + Mux(v6, 40, 20)), ext_start.eq(udp_start + 20)]

        def right(name, end, condition):
            """``condition`` holds for a watched frame that has come to byte ``end``."""
            self.check(name, ~self.shown | (seen < end) | condition)

        for n, place in enumerate(STARTS):
            right(f"ipv4_at_{place}", place, o.ipv4_at[n] == ((tags == n) & v4))
            right(f"ipv6_at_{place}", place, o.ipv6_at[n] == ((tags == n) & v6))
        has = self._has(o, seen, v4 | v6, start, udp_start)
        for name, (said, true) in has.items():
            self.check(f"has_{name}", ~self.shown | (said == true))
        right("tagged", 14, o.tagged == tagged[0])
        right("vlan", 16, o.vlan == number(text, 14, 2)[:12])

        right("reason_not_ip", start, (o.header_reason == Reason.NOT_IP) == ~(v4 | v6))
        right("reason", Mux(v4 | v6, udp_start, start),
              o.header_reason == self._reason(m, ip, v4, v6))
        is_ip = v4 | v6
        right("key_addresses", udp_start, ~is_ip | (
            (o.key.ipv6 == v6)
            & (o.key.src == Mux(v6, number(ip, 8, 16), number(ip, 12, 4)))
            & (o.key.dst == Mux(v6, number(ip, 24, 16), number(ip, 16, 4)))))
        right("ecn", udp_start, ~is_ip | (
            o.record.ecn == Mux(v6, number(ip, 0, 2)[4:6], ip[8:10])))
        right("frame_bytes", udp_start, ~is_ip | (
            o.frame_bytes == start + Mux(v6, number(ip, 4, 2) + 40, number(ip, 2, 2))))
        right("ports", udp_start + 4, ~is_ip | (
            (o.sport == number(udp, 0, 2)) & (o.key.dport == number(udp, 2, 2))))
        self.check("key_twice", (o.key_again == o.key))
        self.check("one_end", Cat(end == o.frame_bytes for end in o.frame_ends).all())
        right("qpn", ext_start, ~is_ip | (o.key.qpn == number(bth, 5, 3)))

        opcode, extension = bth[:8], Signal(5)
        m.d.comb += extension.eq(sum(Mux(among(opcode, opcodes), size, 0)
                                     for size, opcodes in EXTENSIONS))
        end = Signal(7)
        m.d.comb += end.eq(ext_start + extension)
        pad, udp_length = bth[12:14], number(udp, 4, 2)
        right("opcode", ext_start, ~is_ip | (
            (o.record.opcode == opcode) & (o.record.solicited == bth[15])
            & (o.record.pad_count == pad) & (o.record.psn == number(bth, 9, 3))
            & (o.record.ack_request == bth[8 * 8 + 7])
            & (o.payload == (among(opcode, PAYLOAD) & (bth[8:12] == 0)))))
        right("only", ext_start, ~is_ip | ~o.payload | (o.only == among(opcode, ONLY)))
        # The stripper compares while the headers still come.
        self.check("header_bytes_in_time", ~self.shown | ~is_ip | Mux(
            seen < end, o.header_bytes > seen, o.header_bytes == end))
        whole = Signal(8)
        m.d.comb += whole.eq(8 + 12 + 4 + extension + pad)
        right("length", ext_start, ~is_ip | (o.length == (udp_length - whole)[:16]))
        right("sound", ext_start, ~is_ip | (o.sound == (
            (udp_length >= whole)
            & (udp_length + Mux(v6, 0, 20) == Mux(v6, number(ip, 4, 2), number(ip, 2, 2))))))
        immediate = Mux(among(opcode, (0x0B, 0x2B)), number(behind, 16, 4),
                        Mux(opcode == 0x65, number(behind, 8, 4), number(behind, 0, 4)))
        writes = among(opcode, REMOTE_WRITE)
        right("extensions", end, ~is_ip | ~among(opcode, PAYLOAD) | (
            (o.record.immediate == Mux(among(opcode, (*IMMEDIATE, *INVALIDATE)), immediate, 0))
            & (o.record.address == Mux(writes, number(behind, 0, 8), 0))
            & (o.record.rkey == Mux(writes, number(behind, 8, 4), 0))
            & (o.record.dma_length == Mux(writes, number(behind, 12, 4), 0))))

        complete = self.shown & o.has_bth & (seen >= end) & o.sound & o.payload
        self.cover("roce_untagged", complete & (tags == 0) & v4)
        self.cover("write_behind_two_tags", complete & (tags == 2) & v6 & writes)

    @staticmethod
    def _has(o, seen, is_ip, start, udp_start):
        """What the parser says is complete, and whether it is, by name."""
        return {
            "link": (o.has_link, seen >= start),
            "ip": (o.has_ip, is_ip & (seen >= udp_start)),
            "udp": (o.has_udp, is_ip & (seen >= udp_start + 8)),
            "bth": (o.has_bth, is_ip & (seen >= udp_start + 20)),
        }

    @staticmethod
    def _reason(m, ip, v4, v6):
        """The first reason that applies, in the order in which the design tests them."""
        version, ihl = ip[4:8], ip[:4]
        protocol = Mux(v6, number(ip, 6, 1), number(ip, 9, 1))
        reason = Signal(8, name="expected_reason")
        with m.If(~v4 & ~v6):
            m.d.comb += reason.eq(Reason.NOT_IP)
        with m.Elif(Mux(v6, protocol == 44, number(ip, 6, 2)[:14] != 0)):
            m.d.comb += reason.eq(Reason.FRAGMENT)
        with m.Elif(Mux(v6, among(protocol, (0, 43, 50, 51, 60, 135, 139, 140, 253, 254)),
                        ihl > 5)):
            m.d.comb += reason.eq(Reason.IP_EXTENSION)
        with m.Elif(Mux(v6, version != 6, (version != 4) | (ihl < 5))):
            m.d.comb += reason.eq(Reason.IP_HEADER)
        with m.Elif(protocol != 17):
            m.d.comb += reason.eq(Reason.NOT_UDP)
        return reason

    def _invariants(self, m):
        """What the parser keeps of a watched frame is what the frame has brought so far."""
        inner, lanes, text = self.inner, self.config.lanes, self.text
        watched = self.inside & self.watched
        self.invariant("between_is_zero", self.inside | (self.before == 0))
        self.invariant("whole_beats", self.before[:(lanes - 1).bit_length()] == 0)
        self.invariant("number_is", inner["_collect.number"] * lanes == self.before)
        self.invariant("at_is", Cat(
            here == (self.before == n * lanes)
            for n, here in enumerate(inner["_collect.at"])).all())
        for place in range(HEADERS):
            self.invariant(f"kept_{place}", ~watched | (
                self.before <= place // lanes * lanes) | (
                inner["window"].word_select(place, 8) == text.word_select(place, 8)))
        for n, start in enumerate(STARTS):
            self.invariant(f"one_type_{n}", ~(inner[f"ipv4_{n}_kept"] & inner[f"ipv6_{n}_kept"]))
            ethertype = number(text, start - 2, 2)
            facts = {"ipv4": ethertype == 0x0800, "ipv6": ethertype == 0x86DD}
            if n < 2:
                facts["tag"] = among(ethertype, (0x8100, 0x88A8, 0x9100))
            for name, fact in facts.items():
                self.invariant(f"{name}_{n}_is", ~watched | (self.before < start)
                               | (inner[f"{name}_{n}_kept"] == fact))


FILE = "parser.py"
FAULTS = (
    Fault(name="loses beats of a damaged frame", file=FILE,
          old="out_valid.eq(valid), out.eq(now)]\n        return out_valid, out, now, window",
          new="out_valid.eq(valid & ~beat.packet.error), out.eq(now)]\n"
              "        return out_valid, out, now, window",
          caught=("beat_for_beat",)),
    Fault(name="beats a cycle ahead of their valid", file=FILE,
          old="out.beat.eq(located.beat)", new="out.beat.eq(self.i.payload)",
          caught=("beat_unchanged",)),
    Fault(name="gaps count as beats", file=FILE,
          old="with m.If(valid):\n            m.d.sync += number",
          new="with m.If(1):\n            m.d.sync += number", caught=("bytes_counted",)),
    Fault(name="place in the window moves in gaps", file=FILE,
          old="Mux(valid, Mux(last, 1, at << 1), at)", new="Mux(last, 1, at << 1)",
          caught=("seen_counted", "beats_counted")),
    Fault(name="tag forgotten after its beat", file=FILE,
          old="one_of(ethertype, constants), kept)", new="one_of(ethertype, constants), 0)",
          caught=("has_link", "has_ip", "ipv4_at_*", "ipv6_at_*", "tagged")),
    Fault(name="IPv4 header of five words taken for one with options", file=FILE,
          old="v4(h.IPV4.ihl) > h.IPV4.size // 4", new="v4(h.IPV4.ihl) >= h.IPV4.size // 4",
          caught=("reason",)),
    Fault(name="IPv6 lengths from the end of the IPv4 header", file=FILE,
          old="(v6(h.IPV6.payload_length) + l3 + h.IPV6.size)[:17]",
          new="(v6(h.IPV6.payload_length) + l3 + h.IPV4.size)[:17]",
          caught=("frame_bytes",)),
    Fault(name="only short payloads are sound", file=FILE,
          old="udp_length[6:].any() | ", new="", caught=("sound",)),
    Fault(name="copies of the opcode differ", file=FILE,
          old="with m.Switch(opcode):\n                for",
          new="with m.Switch(opcode + number):\n                for",
          caught=("extensions",)),
)

PROOFS = [Proof(name=f"parser_{width}", says="beat for beat in 3 cycles, headers as they are read",
                spec=lambda width=width: ParserSpec(width), depth=5, reach=20, solver="yices",
                faults=FAULTS if width == 64 else ())
          for width in (64, 128, 512)]
