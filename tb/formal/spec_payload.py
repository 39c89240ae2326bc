# SPDX-License-Identifier: Apache-2.0
"""Stripper and Truncator: of each frame exactly its payload, byte for byte, and one end."""

import payload_invariants
from amaranth import Cat, Mux, Signal
from amaranth.lib import data
from payload_invariants import LONGEST
from proof import Fault, Opened, Proof, Spec, small_config

from flytrim.context import LENGTH_BITS
from flytrim.headers import MAX_HEADER_BYTES
from flytrim.packet import Packet
from flytrim.stripper import Stripper
from flytrim.truncator import Truncator


class PayloadSpec(Spec):
    """Watches byte ``place`` of the payload, an arbitrary one, from the frame to the output.

    The frame is seen again as many cycles later as the blocks take to end it, so that whatever
    comes out belongs to the frame that is seen then. Frames that are not ``ours`` have header
    lengths without any rule; nothing is said of what comes out for them, but that it stays among
    its own. Ours have any header length of 2 modulo 4, also shorter than there are.
    """

    def __init__(self, width):
        self.config = small_config(width=width)

    def specify(self, m):
        config = self.config
        stripper, truncator = Stripper(config), Truncator(config)
        m.submodules.stripper = self.strip = Opened(stripper)
        m.submodules.truncator = self.trunc = Opened(truncator)
        m.d.comb += [truncator.i.valid.eq(stripper.o.valid),
                     truncator.i.payload.eq(stripper.o.payload),
                     truncator.i_soon.eq(stripper.o_soon)]
        self.stripper, self.truncator = stripper, truncator
        now = self._drive(m)
        self.late = self.past(now)
        following = self.past(self.late)
        seen = self.past(following)
        self._claims(m, seen, following)
        payload_invariants.state(self, m, now, following, seen)

    def _drive(self, m):
        """A lane of legal frames, and the lengths that the classifier gives for them."""
        config, lanes, i = self.config, self.config.lanes, self.stripper.i
        parsed = i.payload
        packet = parsed.beat.packet
        self.free(i.payload, self.stripper.i_soon, self.truncator.damaged)
        m.d.comb += i.valid.eq(self.past(self.stripper.i_soon))

        frame = data.StructLayout({"ours": 1, "header": 7, "length": 16, "limit": 16, "limited": 1})
        chosen, held, of_frame = (Signal(frame, name=name)
                                  for name in ("chosen", "held", "of_frame"))
        inside, before = Signal(), Signal(LENGTH_BITS)
        self.free(chosen)
        self.assume((chosen.header <= MAX_HEADER_BYTES) & (chosen.header[:2] == 2))
        self.assume(~chosen.limited | (chosen.limit < chosen.length))
        m.d.comb += of_frame.eq(Mux(i.valid & ~inside, chosen, held))
        whole = before + packet.count
        with m.If(i.valid):
            m.d.sync += [held.eq(of_frame), inside.eq(~packet.last),
                         before.eq(Mux(packet.last, 0, whole))]
        self.assume((packet.count > 0) & (packet.count <= lanes))
        self.assume(packet.last | (packet.count == lanes))
        self.assume(whole <= LONGEST)
        self.assume(parsed.beat.first == ~inside)
        self.assume(parsed.seen == Mux(whole > 127, 127, whole))
        self.assume(~of_frame.ours | Mux(parsed.seen >= of_frame.header,
                                         parsed.header_bytes == of_frame.header,
                                         parsed.header_bytes > parsed.seen))

        undecided = Signal(init=1)
        complete = packet.last | Mux(of_frame.ours, parsed.seen >= of_frame.header,
                                     self.anything(1, "complete"))
        with m.If(i.valid):
            m.d.sync += undecided.eq(packet.last | (undecided & ~complete))
        decided, known = Signal(frame, name="decided"), Signal(frame, name="known")
        m.d.sync += known.eq(decided)
        with m.If(i.valid & undecided & complete):
            m.d.sync += decided.eq(of_frame)
        m.d.comb += [self.truncator.length.eq(known.length), self.truncator.limit.eq(known.limit),
                     self.truncator.limited.eq(known.limited.replicate(
                         len(self.truncator.limited)))]

        now = Signal(data.StructLayout({
            "valid": 1, "inside": 1, "before": LENGTH_BITS, "packet": Packet(config.width),
            "frame": frame, "undecided": 1}), name="now")
        m.d.comb += [now.valid.eq(i.valid), now.inside.eq(inside), now.before.eq(before),
                     now.packet.eq(packet), now.frame.eq(of_frame), now.undecided.eq(undecided)]
        self.decided, self.known, self.held = decided, known, held
        return now

    def _claims(self, m, seen, following):
        lanes, truncator = self.config.lanes, self.truncator
        o, packet = truncator.o, truncator.o.payload
        frame, last = seen.frame, seen.valid & seen.packet.last
        ours = (seen.valid | seen.inside) & frame.ours
        stays = Signal(16)
        m.d.comb += stays.eq(Mux(frame.limited, frame.limit, frame.length))

        place = self.place = self.constant(16, "place")
        passes, byte = self._byte(m, seen)
        passed, kept = Signal(), Signal(8)
        with m.If(passes):
            m.d.sync += [passed.eq(1), kept.eq(byte)]
        # A beat of payload may hold bytes of the frame's next beat.
        passes_next, byte_next = self._byte(m, following)
        passes_next &= following.inside
        value = Signal(8)
        m.d.comb += value.eq(Mux(passed, kept, Mux(passes, byte, byte_next)))
        sent = Signal(17)
        after = sent + Mux(o.valid, packet.count, 0)
        m.d.sync += sent.eq(after)
        with m.If(last):
            m.d.sync += [passed.eq(0), sent.eq(0)]
        self.passed, self.kept, self.sent, self.stays = passed, kept, sent, stays
        self.value, self.known_byte = value, passed | passes | passes_next

        there = Signal(LENGTH_BITS + 2)
        end = seen.before + seen.packet.count
        m.d.comb += there.eq(Mux(end > frame.header, end - frame.header, 0))
        total = Signal(16)
        m.d.comb += total.eq(Mux(there < stays, there, stays))

        self.check("silent_between", ~o.valid | seen.valid | seen.inside)
        self.check("ended_with_frame", truncator.ended == last)
        beat = o.valid & ours
        self.check("no_null_beat", ~beat | ((packet.count > 0) & (packet.count <= lanes)))
        self.check("full_before_last", ~beat | packet.last | (packet.count == lanes))
        self.check("last_at_the_end", ~beat | (packet.last == last))
        self.check("never_past_length", ~beat | (after <= stays))
        here = Signal(17)
        m.d.comb += here.eq(place - sent)
        carries = beat & (place >= sent) & (here < packet.count)
        self.check("byte_has_come", ~carries | self.known_byte)
        self.check("byte_is_right", ~carries | (
            self.lane(packet.data, here) == value))
        self.check("zero_beyond", ~beat | (
            (packet.data & ~Cat((packet.count > lane).replicate(8) for lane in range(lanes))) == 0))
        self.check("all_sent", ~(last & ours) | (after == total))
        self.check("one_last", ~(last & ours) | (o.valid == (total > 0)))
        self.check("sent_is_told", ~(last & ours) | (truncator.sent == total))
        self.check("damage_is_told", ~beat | (packet.error == (packet.last & truncator.damaged)))

        self.cover("second_frame", carries & (place == lanes + 1) & last & ~packet.error
                   & self.past(last & ours, 2))
        self.cover("cut_short", last & ours & frame.limited & (total == frame.limit) & (total > 0))
        self.cover("ended_early", last & ours & (total < stays) & (total > lanes))

    def _byte(self, m, seen):
        """Whether a beat of the frame has the watched byte, and the byte."""
        first = self.place + seen.frame.header
        offset = Signal(18)
        m.d.comb += offset.eq(first - seen.before)
        return (seen.valid & (first >= seen.before) & (offset < seen.packet.count),
                self.lane(seen.packet.data, offset))

    def lane(self, data, lane):
        return data.word_select(lane[:self.config.lanes.bit_length() - 1], 8)


FAULTS = (
    Fault(name="shift kept from the frame before", file="stripper.py",
          old="next_shift.eq(Mux(self.i.valid, new.header_bytes, shift))",
          new="next_shift.eq(Mux(self.i.valid & new.beat.first, new.header_bytes, shift))",
          caught=("byte_is_right", "all_sent")),
    Fault(name="last beat does not wait", file="truncator.py",
          old="waiting & (~beat.last | self.ended)", new="waiting",
          caught=("last_at_the_end",)),
    Fault(name="one byte too many", file="truncator.py",
          old="Mux(length < count, length, count)",
          new="Mux(length < count, length + 1, count)",
          caught=("never_past_length", "sent_is_told")),
    Fault(name="tail of a frame forgotten", file="stripper.py",
          old="Mux(held_last, held_more, self.i.valid)", new="self.i.valid",
          caught=("all_sent", "one_last")),
)
# Of what does nothing at smaller widths.
WIDE_FAULTS = (
    Fault(name="coarse step by the shift of the beat before", file="stripper.py",
          old="steps = next_shift[STEP", new="steps = shift[STEP", caught=("byte_is_right",)),
    Fault(name="lanes of the second copy cleared as those of the first", file="truncator.py",
          old="self.limited[n], part))", new="self.limited[n], slice(0, 48)))",
          caught=("byte_is_right", "zero_beyond")),
)

PROOFS = [
    Proof(name=f"payload_{width}", says="payload bytes exact, never past its length, one last",
          spec=lambda width=width: PayloadSpec(width), mode="prove",
          depth=3, reach=9, solver="yices",
          faults={64: FAULTS, 512: WIDE_FAULTS}.get(width, ()))
    for width in (64, 128, 256, 512)
]
