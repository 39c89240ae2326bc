# SPDX-License-Identifier: Apache-2.0
"""Writes of the reassembler: every byte where it belongs, and none outside its buffer."""

from amaranth import Cat, Mux, Signal
from amaranth.utils import ceil_log2
from proof import Fault, Opened, Proof, Spec

from flytrim.reassembly.aligner import Aligner
from flytrim.reassembly.bounds import Bounds
from flytrim.reassembly.bursts import Bursts, page_bytes
from flytrim.reassembly.records import LENGTH_BITS

#: Bits of a number of beats.
INDEX_BITS = LENGTH_BITS + 1


class BoundsSpec(Spec):
    """Any buffer within the address space, and any room and length at all."""

    def specify(self, m):
        bounds = Bounds()
        m.submodules.bounds = bounds
        self.free(bounds.i.valid, bounds.i.payload)
        place, span = bounds.i.payload, bounds.o.payload
        self.assume((place.base + place.bytes)[64:] == 0)
        base, size, length, wanted = (self.past(value, Bounds.latency) for value in (
            place.base, place.bytes, place.length, place.write))
        room = self.past(place.room, Bounds.latency)
        self.check("one_each", bounds.o.valid == self.past(bounds.i.valid, Bounds.latency))
        self.check("not_before", ~span.write | (span.address >= base))
        self.check("not_behind", ~span.write | (span.address + span.length <= base + size))
        self.check("at_its_place", ~span.write | (span.address + room == base + size))
        self.check("of_its_length", span.length == length)
        self.check("written_or_lost", (span.write ^ span.lost) == wanted)
        self.check("lost_for_a_reason", ~span.lost | (room > size) | (length > room))
        self.cover("to_the_end", span.write & (length > 0) & (length == room))
        self.cover("lost", span.lost & (length > 9))


class BurstsSpec(Spec):
    """Bursts of any write, whose bytes are all within the address space."""

    def __init__(self, lanes):
        self.lanes = lanes

    def specify(self, m):
        lanes, page = self.lanes, page_bytes(self.lanes)
        bursts = Bursts(lanes)
        m.submodules.bursts = inner = Opened(bursts)
        span, burst = bursts.i.payload, bursts.o.payload
        self.free(bursts.i.valid, span, bursts.o.ready)
        stalled = self.past(bursts.i.valid & ~bursts.i.ready)
        self.assume(~stalled | bursts.i.valid
                    & (span.as_value() == self.past(span.as_value())))
        self.assume(span.length > 0)
        end = Signal(65)
        m.d.comb += end.eq(span.address + span.length)
        self.assume(end[64] == 0)

        # Where the next burst must begin.
        begun, due, start = Signal(), Signal(65), Signal(65)
        m.d.comb += start.eq(Mux(begun, due, span.address & ~(lanes - 1)))
        behind = burst.address + ((burst.beats + 1) << ceil_log2(lanes))
        moves = bursts.o.valid & bursts.o.ready
        with m.If(moves):
            m.d.sync += [begun.eq(~burst.last), due.eq(behind)]
        writes = bursts.o.valid & burst.writes
        self.check("within_a_page", ~writes | (
            burst.address % page + ((burst.beats + 1) << ceil_log2(lanes)) <= page))
        self.check("one_behind_the_other", ~writes | (burst.address == start))
        self.check("no_beat_too_many", ~writes | (behind < end + lanes))
        self.check("all_of_it", ~(writes & burst.last) | (behind >= end))
        self.check("more_follows", ~(writes & ~burst.last) | (behind < end))
        self.check("taken_with_the_last", bursts.i.ready == (bursts.o.ready & burst.last))
        self.check("nothing_is_told_once", ~bursts.i.valid | span.write | burst.last)

        self.invariant("begun_alike", begun == inner["begun"])
        self.invariant("begun_is_held", ~begun | (bursts.i.valid & span.write))
        self.invariant("on_a_page", ~begun | (due == inner["next_page"] << ceil_log2(page)))
        self.invariant("left_is_right", ~begun | (due + inner["left"] == end))
        self.invariant("left_is_some", ~begun | (inner["left"] > 0))
        self.cover("three_bursts", self.past(moves & begun & ~burst.last) & moves & burst.last)
        self.cover("a_byte", writes & burst.last & (span.length == 1) & ~begun)


class AlignerSpec(Spec):
    """Payloads of any length; one byte of each is watched, and every strobe."""

    def __init__(self, width):
        self.width = width

    def specify(self, m):
        lanes = self.width // 8
        low, page = ceil_log2(lanes), page_bytes(lanes)
        aligner = Aligner(self.width)
        m.submodules.aligner = inner = Opened(aligner)
        span, beat, word = aligner.i.payload, aligner.beats.payload, aligner.o.payload
        self.free(aligner.i.valid, span, aligner.beats.valid, beat, aligner.o.ready)
        self.assume(span.length > 0)
        took, gave = (port.valid & port.ready for port in (aligner.i, aligner.o))
        takes = aligner.beats.valid & aligner.beats.ready

        # The payload that is taken in, and its beats so far.
        busy, write = Signal(), Signal()
        offset, length = Signal.like(span.offset), Signal(LENGTH_BITS)
        index = Signal(INDEX_BITS)
        beats = (length + (lanes - 1)) >> low
        words = (offset[:low] + length + (lanes - 1)) >> low
        with m.If(took):
            m.d.sync += [busy.eq(1), write.eq(span.write), offset.eq(span.offset),
                         length.eq(span.length), index.eq(0)]
        with m.Elif(aligner.i.ready):
            m.d.sync += busy.eq(0)
        with m.If(takes & ~took):
            m.d.sync += index.eq(index + 1)
        self.check("only_its_beats", ~takes | busy & (index < beats))
        self.check("all_its_beats", ~(busy & aligner.i.ready) | (index + takes == beats))

        # One byte of it, at any place.
        watched, value, seen = self.constant(LENGTH_BITS, "watched"), Signal(8), Signal()
        with m.If(took):
            m.d.sync += seen.eq(0)
        with m.If(takes & (index == watched >> low)):
            m.d.sync += [value.eq(beat.data.word_select(watched[:low], 8)), seen.eq(~took)]

        # The word that stands at the output belongs to a payload that may be over inside.
        out_offset, out_length = Signal.like(offset), Signal(LENGTH_BITS)
        number, count = Signal(INDEX_BITS), Signal(INDEX_BITS)
        out_value, out_seen = Signal(8), Signal()
        made = inner["step"] & write
        with m.If(inner["step"]):
            m.d.sync += count.eq(count + 1)
        with m.If(took):
            m.d.sync += count.eq(0)
        with m.If(made):
            m.d.sync += [out_offset.eq(offset), out_length.eq(length), number.eq(count)]
            m.d.sync += [out_value.eq(Mux(takes & (index == watched >> low),
                                          beat.data.word_select(watched[:low], 8), value)),
                         out_seen.eq(watched < length)]
        shift = out_offset[:low]
        first = number << low
        ends = shift + out_length
        for lane in range(lanes):
            here = (first + lane >= shift) & (first + lane < ends)
            self.check(f"strobe_{lane}", ~aligner.o.valid | (word.strobes[lane] == here))
            at_watched = here & (first + lane == shift + watched) & out_seen
            self.check(f"byte_{lane}", ~(aligner.o.valid & at_watched)
                       | (word.data.word_select(lane, 8) == out_value))
        place = (out_offset >> low) + number
        self.check("ends_at_pages", ~aligner.o.valid | (word.last == (
            (first + lanes >= ends) | (((place + 1) << low) % page == 0))))
        stalled = self.past(aligner.o.valid & ~aligner.o.ready)
        self.check("held", ~stalled | aligner.o.valid & (
            word.as_value() == self.past(word.as_value())))
        self.check("a_word_a_step", ~self.past(made) | aligner.o.valid)
        self.check("no_other_word", ~(aligner.o.valid & ~self.past(made)) | stalled)
        self.check("all_its_words", ~(busy & write & aligner.i.ready) | (count + 1 == words))

        self.invariant("active_alike", busy == inner["active"])
        self.invariant("write_alike", ~busy | (write == inner["write"]))
        self.invariant("shift_alike", ~busy | (offset[:low] == inner["shift"]))
        self.invariant("end_alike", ~busy | (inner["end"] == (offset + length)[:low]))
        self.invariant("head_alike", ~busy | (inner["head"] == (count == 0)))
        self.invariant("beats_alike", ~busy | (index + inner["beats_left"] == beats))
        self.invariant("words_alike", ~busy | (count + inner["words_left"] + 1
                                               == Mux(write, words, beats)))
        self.invariant("in_step", ~busy | (index == count) | (index == beats) & (
            count == beats) & (words == beats + 1) & write)
        self.invariant("place_alike", ~busy | (inner["place"] == (
            (offset >> low) + count)[:len(inner["place"])]))
        self.invariant("some_length", ~busy | (length > 0))
        self.invariant("seen_alike", ~busy | (seen == (index > watched >> low)))
        kept = Cat(inner["kept"])
        at = (offset + watched)[:low]
        self.invariant("kept_alike", ~(busy & seen & (index == (watched >> low) + 1)) | (
            kept.word_select(at, 8) == value))
        self.cover("a_payload_of_three_words", aligner.o.valid & (number == 2) & word.last
                   & (out_value == 0x5A) & out_seen)
        self.cover("let_go", self.past(busy & ~write & aligner.i.ready) & took)


FOLDER = "reassembly/"
BOUNDS_FAULTS = (
    Fault(name="a byte behind the buffer", file=f"{FOLDER}bounds.py",
          old="(place.length <= place.room)", new="(place.length <= place.room + 1)",
          caught=("not_behind",)),
    Fault(name="room beyond the buffer", file=f"{FOLDER}bounds.py",
          old="(place.room <= place.bytes) & ", new="",
          caught=("not_before", "not_behind")),
    Fault(name="lost and not told", file=f"{FOLDER}bounds.py",
          old="lost.eq(place.write & ~fits)", new="lost.eq(0)", caught=("written_or_lost",)),
)
BURSTS_FAULTS = (
    Fault(name="a byte that ends with the page begins another", file=f"{FOLDER}bursts.py",
          old="(end <= page)", new="(end < page)", caught=("more_follows", "all_of_it",
                                                           "no_beat_too_many")),
    Fault(name="the second page is the first again", file=f"{FOLDER}bursts.py",
          old="burst.address[bits:] + 1", new="burst.address[bits:]",
          caught=("one_behind_the_other",)),
    Fault(name="a beat too many", file=f"{FOLDER}bursts.py",
          old="(end - 1)[low:bits]", new="end[low:bits]", caught=("no_beat_too_many",)),
)
ALIGNER_FAULTS = (
    Fault(name="every word begins where the first one does", file=f"{FOLDER}aligner.py",
          old="(new | ~head.replicate(lanes))", new="new", caught=("strobe_*",)),
    Fault(name="the last word is whole", file=f"{FOLDER}aligner.py",
          old="(until | ~ends.replicate(lanes))", new="~0", caught=("strobe_*",)),
    Fault(name="bursts end with the payload alone", file=f"{FOLDER}aligner.py",
          old="word.last.eq(ends | place.all())", new="word.last.eq(ends)",
          caught=("ends_at_pages",)),
    Fault(name="what was kept is not turned", file=f"{FOLDER}aligner.py",
          old="kept.eq(turned)", new="kept.eq(beat.data)", caught=("byte_*",)),
    Fault(name="output not held", file=f"{FOLDER}aligner.py",
          old="free = ~self.o.valid | self.o.ready", new="free = 1", caught=("held",)),
)

PROOFS = [
    Proof(name="bounds", says="no write leaves its buffer, whatever is asked for",
          spec=BoundsSpec, depth=4, reach=6, faults=BOUNDS_FAULTS),
    *(Proof(name=f"bursts_{8 * lanes}", says="bursts within pages that cover the write and no more",
            spec=lambda lanes=lanes: BurstsSpec(lanes), depth=2, reach=8,
            faults=BURSTS_FAULTS if lanes == 8 else ()) for lanes in (8, 64)),
    Proof(name="aligner_64", says="each byte in its lane, strobes of the payload alone",
          spec=lambda: AlignerSpec(64), depth=2, reach=10, faults=ALIGNER_FAULTS),
]
