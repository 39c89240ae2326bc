# SPDX-License-Identifier: Apache-2.0
"""IcrcChecker: the right verdict, in the right cycle, whatever came before."""

from unittest import mock
from zlib import crc32

from amaranth import Cat, Const, Mux, Signal
from amaranth.lib import data
from proof import Fault, Opened, Proof, Spec, small_config

from flytrim import icrc
from flytrim.icrc import IcrcChecker

#: Longest frame in bytes that is assumed.
LONGEST = 9216
LATENCY = 3
#: Where an IP header starts, by the number of tags before it.
STARTS = (14, 18, 22)
#: The register after the eight bytes of ones that stand for the local route header.
SEED = crc32(b"\xFF" * 8) ^ 0xFFFFFFFF
# What reads as ones, {byte behind the IP header's start: bits}: type of service, lifetime,
# checksums, and the congestion bits of the BTH (annex A17.3.3).
ONES_IPV4 = {1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF, 26: 0xFF, 27: 0xFF, 32: 0xFF}
ONES_IPV6 = {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF, 52: 0xFF}


class Frames(Spec):
    """A lane of legal frames with the facts that the parser gives for them, and no others.

    Of a frame with an IP header the datagram ends anywhere from the shortest packet with a BTH on,
    before the frame's end, with it, or behind it.
    """

    def __init__(self, width):
        self.config = small_config(width=width)

    def drive(self, m):
        checker = IcrcChecker(self.config)
        m.submodules.checker = self.inner = Opened(checker)
        self.i, self.good, lanes = checker.i, checker.good, self.config.lanes
        parsed, packet = self.i.payload, self.i.payload.beat.packet
        self.free(self.i.valid, parsed)

        layout = data.StructLayout({"ip": 1, "ipv6": 1, "tags": 2, "end": 17})
        chosen, held, frame = (Signal(layout, name=name) for name in ("chosen", "held", "frame"))
        self.free(chosen)
        self.inside, self.over = Signal(), Signal()
        self.before = Signal(range(LONGEST + 1))
        m.d.comb += frame.eq(Mux(self.inside, held, chosen))
        self.frame, self.whole = frame, self.before + packet.count
        self.start, head = Signal(7), Signal(7)
        m.d.comb += [self.start.eq(14 + 4 * frame.tags),
                     head.eq(self.start + Mux(frame.ipv6, 40, 20))]
        self.assume((frame.tags < 3) & (frame.end >= head + 8 + 12 + 4))
        self.ends = Signal()
        m.d.comb += self.ends.eq(frame.ip & ~self.over & (self.whole >= frame.end))
        with m.If(self.i.valid):
            m.d.sync += [held.eq(frame), self.inside.eq(~packet.last),
                         self.before.eq(Mux(packet.last, 0, self.whole)),
                         self.over.eq((self.over | self.ends) & ~packet.last)]

        self.assume((packet.count > 0) & (packet.count <= lanes))
        self.assume(packet.last | (packet.count == lanes))
        self.assume(self.whole <= LONGEST)
        self.assume(parsed.beat.first == ~self.inside)
        self.assume(parsed.bytes == self.whole)
        for n in range(len(parsed.at_beat) - 1):
            self.assume(parsed.at_beat[n] == (self.before == n * lanes))
        self.assume(parsed.at_beat[-1] == ~parsed.at_beat[:-1].any())
        for place in (parsed.place, parsed.place_again):
            self.assume(place == Cat(here & start for here in parsed.at_beat[:-1]
                                     for start in (*parsed.ipv4_at, *parsed.ipv6_at)))
        for n, start in enumerate(STARTS):
            here = frame.ip & (frame.tags == n)
            self.assume((self.whole < start) | (
                (parsed.ipv4_at[n] == (here & ~frame.ipv6))
                & (parsed.ipv6_at[n] == (here & frame.ipv6))))
        self.assume(parsed.has_ip == (frame.ip & (self.whole >= head)))
        for end in (parsed.frame_bytes, *parsed.frame_ends):
            self.assume(~parsed.has_ip | (end == frame.end))

    def ones(self, m, lane):
        """What reads as ones in the byte of ``lane``, and how far behind the IP start that is."""
        offset = Signal(15, name=f"offset_{lane}")
        ones = Signal(8, name=f"ones_{lane}")
        m.d.comb += offset.eq(self.before + lane - self.start)
        with m.If(self.frame.ipv6):
            self._choose(m, ones, offset, ONES_IPV6)
        with m.Else():
            self._choose(m, ones, offset, ONES_IPV4)
        return ones, offset

    @staticmethod
    def _choose(m, ones, offset, places):
        with m.Switch(offset):
            for place, bits in places.items():
                with m.Case(place):
                    m.d.comb += ones.eq(bits)


def linear(message):
    """What a message adds to the register, whatever else there is: a CRC is linear."""
    return crc32(message) ^ crc32(bytes(len(message)))


def combined(columns, bits):
    """The XOR of those columns whose bit is set."""
    rows = [sum((column >> row & 1) << n for n, column in enumerate(columns)) for row in range(32)]
    return Cat((bits & Const(row, len(bits))).xor() for row in rows)


class StepsSpec(Frames):
    """Each step of the computation for frames of any length, with any gaps.

    What a byte counts for; what the bytes of a beat add to the register, superposed of what zlib
    says that each bit adds; how a beat moves the register; and the verdict, good where the register
    is zlib's behind a message, its CRC, and as many zero bytes as the last beat has places left.
    Each step starts from the block's own registers: that two long sums of equal bits are equal,
    no solver at hand shows. By linearity the seed is part of the first four bytes.
    """

    def specify(self, m):
        self.drive(m)
        lanes, i, inner = self.config.lanes, self.i, self.inner
        counts = []
        for lane in range(lanes):
            ones, offset = self.ones(m, lane)
            byte = i.payload.beat.packet.data.word_select(lane, 8) | ones
            place = self.before + lane
            seed = Signal(8, name=f"seed_{lane}")
            self._choose(m, seed, offset, {n: SEED >> 8 * n & 0xFF for n in range(4)})
            inside = (place >= self.start) & (place < self.frame.end)
            counts.append((byte ^ seed) & inside.replicate(8))
        open_ = i.valid & self.frame.ip & ~self.over
        taken = inner["masked"]
        cut_short = i.payload.beat.packet.last & ~self.ends
        self.check("bytes_count", ~self.past(open_ & ~cut_short)
                   | (taken == self.past(Cat(counts))))

        # In two halves as the block has them, for the same reason.
        bits = [linear((1 << bit).to_bytes(lanes, "little")) for bit in range(8 * lanes)]
        for n, one in enumerate(inner["added"]):
            part = slice(4 * lanes * n, 4 * lanes * (n + 1))
            adds = combined(bits[part], taken[part])
            self.check(f"beat_adds_{n}", ~self.past(open_, 2) | (one == self.past(adds)))
        added = inner["added"][0] ^ inner["added"][1]

        moves = [linear((1 << bit).to_bytes(lanes, "little")) for bit in range(32)]
        register = inner["elaborate.state"]
        follows = self.past(Mux(self.past(self.inside, 2), combined(moves, register), 0)
                            ^ added)
        self.check("register_moves", ~self.past(open_, LATENCY) | (register == follows))
        self.check("register_waits", self.past(i.valid & ~self.over, LATENCY)
                   | (register == self.past(register)))

        good, sound = self.good, Signal()
        with m.Switch(self.past((self.frame.end - self.before)[:len(self.frame.end)], LATENCY)):
            for count in range(1, lanes + 1):
                with m.Case(count):
                    behind = crc32(bytes(4 + lanes - count)) ^ 0xFFFFFFFF
                    m.d.comb += sound.eq(register == behind)
        answered = self.past(i.valid & self.ends, LATENCY)
        self.check("verdict_in_time", ~answered | (good == sound))
        self.check("holds_between", answered | (good == self.past(good)))

        self.invariant("between_is_zero", self.inside | ((self.before == 0) & ~self.over))
        self.invariant("whole_beats", self.before[:(lanes - 1).bit_length()] == 0)
        self.invariant("over_is", ~(self.inside & self.frame.ip)
                       | (self.over == (self.before >= self.frame.end)))
        self.invariant("running_is", ~self.inside | (inner["running"] == ~self.over))
        self.cover("ends_before_pad", answered & ~self.past(
            i.payload.beat.packet.last, LATENCY))
        self.cover("one_behind_another", answered & self.past(answered, 8))


class TwoPastsSpec(Spec):
    """Two checkers with different pasts: from the frame on that both get, they say the same.

    Neither past, nor what stands between the beats, nor the facts beside them keep to any rule. In
    place of each sum stands any function at all, of which is known that it gives both
    checkers the same for the same bits.
    """

    def specify(self, m):
        checkers = [IcrcChecker(small_config()) for _ in range(2)]
        self.sums = {}
        with mock.patch.object(icrc, "linear", self._any_sum):
            inner = [Opened(each) for each in checkers]
        m.submodules.one, m.submodules.other = inner
        one, other = checkers
        parsed = one.i.payload
        self.free(one.i.valid, parsed)
        joint, joined, running, answered = Signal(), Signal(), Signal(), Signal()
        meets = self.anything(1, "meets") & one.i.valid & parsed.beat.first
        m.d.comb += [
            joint.eq(joined | meets),
            other.i.valid.eq(Mux(joint, one.i.valid, self.anything(1, "valid"))),
            other.i.payload.eq(Mux(joint & one.i.valid, parsed.as_value(),
                                   self.anything(parsed.shape(), "else").as_value())),
        ]
        before = parsed.beat.first | running
        ends = before & parsed.has_ip & (parsed.bytes >= parsed.frame_ends[0])
        m.d.sync += joined.eq(joint)
        with m.If(one.i.valid):
            m.d.sync += running.eq(before & ~ends)
        ended = self.past(joint & one.i.valid & ends, LATENCY)
        m.d.sync += answered.eq(answered | ended)
        self.check("same_verdict", ~(answered | ended) | (one.good == other.good))

        def agree(name, since):
            self.invariant(f"{name.rpartition('.')[2]}_agrees",
                           ~since | (inner[0][name] == inner[1][name]))

        self.invariant("running_is", inner[0]["running"] == running)
        agree("running", joined)
        agree("elaborate.state", self.past(joined, LATENCY - 1))
        agree("same", answered)
        self.invariant("joined_stays", joined | ~answered)
        self.cover("good", answered & one.good & ~self.past(answered, 4))

    def _any_sum(self, columns, bits):
        """Stands in for :func:`flytrim.icrc.linear`; the sums differ in their columns."""
        result = self.anything(32, "sum")
        same = self.sums.setdefault(tuple(columns), [])
        for other_bits, other in same:
            self.assume((bits != other_bits) | (result == other))
        same.append((bits, result))
        return result


def serially(register, byte):
    """The register after one more byte, bit by bit."""
    for n in range(8):
        register = Cat(register[1:], Const(0, 1)) ^ Mux(register[0] ^ byte[n], 0xEDB88320, 0)
    return register


class SerialSpec(Frames):
    """One short frame, the CRC behind it computed bit by bit; good unless a bit was changed since.

    The bytes are a fixed pattern in which one arbitrary bit is turned over: before the CRC is
    computed, or after. That this stands for all frames takes the checker to be linear, which
    nothing here shows.
    """

    def __init__(self, version, longest):
        super().__init__(64)
        self.ipv6, self.longest = version == 6, longest

    def specify(self, m):
        self.drive(m)
        i, end = self.i, self.frame.end
        self.assume(i.valid & self.frame.ip & (self.frame.ipv6 == int(self.ipv6)))
        self.assume((self.whole <= self.longest) & (end <= self.longest))
        self.assume(~i.payload.beat.packet.last | (self.whole >= end))
        place, bit = self.constant(7, "place"), self.constant(3, "bit")
        after = self.constant(1, "after")

        kept, harmed = Signal(32), Signal()
        register, harm = Mux(self.inside, kept, SEED), self.inside & harmed
        for lane in range(self.config.lanes):
            here = self.before + lane
            ones, _ = self.ones(m, lane)
            turned, clean, following = (Signal(width, name=f"{name}_{lane}") for name, width in
                                        (("turned", 8), ("clean", 8), ("following", 32)))
            m.d.comb += [
                turned.eq(Mux(here == place, 1 << bit, 0)),
                clean.eq(i.payload.beat.packet.data.word_select(lane, 8) ^ Mux(after, turned, 0)),
                following.eq(Mux((here >= self.start) & (here + 4 < end),
                                 serially(register, clean | ones), register)),
            ]
            crc = (~register).word_select((here + 4 - end)[:2], 8)
            self.assume(clean == Mux((here + 4 >= end) & (here < end), crc,
                                     (37 * here + 11)[:8] ^ Mux(after, 0, turned)))
            harm = harm | (after & (here >= self.start) & (here < end) & (turned & ~ones).any())
            register = following
        m.d.sync += [kept.eq(register), harmed.eq(harm)]
        answered, wrong = self.past(self.ends, LATENCY), self.past(harm, LATENCY)
        self.check("good_unless_changed", ~answered | (self.good == ~wrong))
        self.cover("good", answered & self.good)
        self.cover("bad", answered & ~self.good)


FILE = "icrc.py"
KEPT = Fault(name="register kept into the next frame", file=FILE,
             old="Mux(second[\"first\"], 0, shifted)", new="shifted",
             caught=("register_moves", "same_verdict"))
STEP_FAULTS = (
    Fault(name="flow label counts", file=FILE,
          old="h.IPV6.ecn, h.IPV6.flow_label,", new="h.IPV6.ecn,", caught=("bytes_count",)),
    Fault(name="pad behind the ICRC counts", file=FILE,
          old="known & inside[lane]", new="known", caught=("bytes_count",)),
    KEPT,
    Fault(name="register moves in gaps", file=FILE,
          old="with m.If(second[\"valid\"]):", new="with m.If(1):", caught=("register_waits",)),
)
PAST_FAULTS = (
    KEPT,
    Fault(name="gaps end a frame", file=FILE,
          old="with m.If(self.i.valid):\n            m.d.sync += running",
          new="with m.If(1):\n            m.d.sync += running", caught=("same_verdict",)),
)
SERIAL_FAULTS = (
    Fault(name="UDP checksum counts", file=FILE,
          old="places += [(ip.size, h.UDP.checksum)]", new="places += []",
          caught=("good_unless_changed",)),
    Fault(name="verdict from the register before its last step", file=FILE,
          old="moved.word_select(n, 8) ==", new="state.word_select(n, 8) ==",
          caught=("good_unless_changed",)),
    Fault(name="seed without the local route header", file=FILE,
          old="SEED = 0xDEBB20E3", new="SEED = 0xFFFFFFFF", caught=("good_unless_changed",)),
    Fault(name="zero bytes behind the ICRC miscounted", file=FILE,
          old="advance(RESIDUE, -end % lanes)", new="advance(RESIDUE, end)",
          caught=("good_unless_changed",)),
    Fault(name="one bit of the polynomial wrong", file=FILE,
          old="POLYNOMIAL = 0xEDB88320", new="POLYNOMIAL = 0xEDB88321",
          caught=("good_unless_changed",)),
)

PROOFS = [
    *(Proof(name=f"icrc_{width}", says="each step of the CRC as zlib's, the verdict in 3 cycles",
            spec=lambda width=width: StepsSpec(width), depth=5, reach=20, solver="yices",
            faults=STEP_FAULTS if width == 64 else ())
      for width in (64, 128, 512)),
    Proof(name="icrc_pasts", says="a verdict owes nothing to what came before its frame",
          spec=TwoPastsSpec, depth=5, reach=8, solver="yices", faults=PAST_FAULTS),
    *(Proof(name=f"icrc_ipv{version}", says="the CRC of short frames, bit by bit",
            spec=lambda version=version, longest=longest: SerialSpec(version, longest),
            mode="bmc", depth=cycles, reach=cycles, solver="yices",
            faults=SERIAL_FAULTS if version == 4 else ())
      for version, longest, cycles in ((4, 62, 8 + LATENCY), (6, 80, 10 + LATENCY))),
]
