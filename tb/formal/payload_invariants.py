# SPDX-License-Identifier: Apache-2.0
"""Which states of Stripper and Truncator can be reached, for the proof of spec_payload."""

from amaranth import Cat, Const, Mux, Signal

from flytrim.context import LENGTH_BITS
from flytrim.headers import MAX_HEADER_BYTES

#: Longest frame in bytes that is assumed.
LONGEST = 9216


def state(spec, m, now, following, seen):
    lanes, strip, trunc = spec.config.lanes, spec.strip, spec.trunc
    shift_bits = (lanes - 1).bit_length()
    packet = now.packet

    # Stripper: what it holds is the last beat that came.
    previous, end = Signal.like(packet, name="previous"), Signal(LENGTH_BITS)
    with m.If(now.valid):
        m.d.sync += [previous.eq(packet), end.eq(now.before + packet.count)]
    held_last, held_valid = strip["held_last"], strip["held_valid"]
    mine = held_valid & spec.held.ours
    start = end - previous.count
    spec.invariant("held_last_is", held_last == spec.past(now.valid & packet.last))
    spec.invariant("held_valid_is", held_valid == (now.inside | held_last))
    spec.invariant("held_is_previous", ~held_valid | (
        (strip["held_data"] == previous.data) & (strip["held_count"] == previous.count)
        & (previous.last == held_last) & (end >= previous.count)
        & (start[:shift_bits] == 0)))
    spec.invariant("count_in_range", ~held_valid | (
        (previous.count > 0) & (previous.count <= lanes)
        & (previous.last | (previous.count == lanes)) & (end <= LONGEST)))
    steps = ((now, spec.late), (spec.late, following), (following, seen))
    for cycles, (newer, older) in enumerate(steps):
        after = older.before + Mux(older.valid, older.packet.count, 0)
        inside = Mux(older.valid, ~older.packet.last, older.inside)
        spec.invariant(f"lane_{cycles}_ago", (newer.inside == inside) & Mux(
            inside, newer.before == after, newer.before == 0))
        spec.invariant(f"frame_{cycles}_ago", (newer.valid & ~newer.inside)
                       | (newer.frame.as_value() == older.frame.as_value()))
    quiet = Const(1)
    for cycles, then in enumerate((spec.late, following, seen), start=1):
        spec.invariant(f"held_is_of_{cycles}_ago", ~(quiet & then.valid) | (
            (previous.as_value() == then.packet.as_value())
            & (end == then.before + then.packet.count)
            & (spec.held.as_value() == then.frame.as_value())))
        quiet = quiet & ~then.valid
    spec.invariant("before_is_end", ~now.inside | (now.before == end))
    spec.invariant("before_is_zero", now.inside | (now.before == 0))
    spec.invariant("header_is_legal", ~mine | (
        (spec.held.header <= MAX_HEADER_BYTES) & (spec.held.header[:2] == 2)
        & (~spec.held.limited | (spec.held.limit < spec.held.length))))
    spec.invariant("started_is", ~mine | (strip["started"] == (end > spec.held.header)))
    spec.invariant("shift_is", ~(mine & strip["started"])
                   | (strip["shift"] == spec.held.header[:shift_bits]))
    spec.invariant("held_more_is", ~held_valid | (
        strip["held_more"] == (previous.count > strip["shift"])))
    spec.invariant("decided_is", (now.inside & now.undecided)
                   | (spec.decided.as_value() == spec.held.as_value())
                   | ~spec.held.ours)
    spec.invariant("undecided_is", ~(now.inside & spec.held.ours)
                   | (now.undecided == (end < spec.held.header)))
    spec.invariant("undecided_between", now.inside | now.undecided)

    # Truncator: what it has taken is what the frame has had, in whole beats.
    header, stays = seen.frame.header, spec.stays
    over = seen.valid & seen.packet.last
    window = seen.valid | seen.inside
    ours = window & seen.frame.ours
    same = (following.valid | ~over) & following.inside & ~over
    beats = Signal(LENGTH_BITS + 2)
    reached = Signal(LENGTH_BITS + 2)
    m.d.comb += [
        beats.eq(Mux(over, seen.before + 2 * lanes,
                     following.before + Mux(following.valid, lanes, 0))),
        reached.eq(Mux(over, seen.before + seen.packet.count,
                       following.before + Mux(following.valid, following.packet.count, 0))),
    ]
    skipped = Cat(Const(0, shift_bits), header[shift_bits:])
    formed, there, taken = Signal(17), Signal(17), Signal(17)
    m.d.comb += [
        formed.eq(Mux(beats > skipped + lanes, beats - lanes - skipped, 0)),
        there.eq(Mux(reached > header, reached - header, 0)),
        taken.eq(Mux(formed < there, formed, there)),
    ]
    waiting, beat = trunc["waiting"], trunc["beat"]
    left = Signal(17)
    m.d.comb += left.eq(Mux(taken < stays, taken, stays))
    spec.invariant("same_frame", ~window | over | same)
    spec.invariant("waits_inside", ~waiting | window)
    begun, any_taken = trunc["elaborate.begun"], trunc["any_taken"]
    counted = trunc["before"] + beat.count
    spec.invariant("begun_is", ~ours | over | (begun == (formed > 0)))
    spec.invariant("begun_between", (window & ~over) | ~begun)
    spec.invariant("begun_copies", Cat(copy == begun for copy in trunc["copies"]).all())
    spec.invariant("any_taken_is", ~(ours & over) | (any_taken == (there > 0)))
    spec.invariant("counted_is", ~(ours & Mux(over, any_taken, begun)) | (
        (counted == left) & (beat.count <= lanes) & ((beat.count > 0) | (stays == 0))))
    spec.invariant("before_is_whole", trunc["before"][:shift_bits] == 0)
    spec.invariant("rest_is", ~ours | over | ~begun | (
        trunc["rest"] == Mux(stays > formed, stays - formed, 0)))
    spec.invariant("sent_is", ~ours | (spec.sent + Mux(waiting, beat.count, 0) == left))
    spec.invariant("waiting_count", ~(ours & waiting) | (
        (beat.count > 0) & (beat.count <= lanes) & (beat.last | (beat.count == lanes))))
    finished = (left == stays) | over | (
        following.valid & following.packet.last & (left == there))
    spec.invariant("waiting_last", ~(ours & waiting) | (beat.last == finished))
    spec.invariant("last_waits", ~(ours & finished & (left > 0)) | waiting)
    spec.invariant("sent_below", ~ours | (spec.sent < stays) | ~waiting)
    spec.invariant("wanted_is", ~ours | over | (
        trunc["wanted"] == ((formed == 0) | (formed < stays))))
    spec.invariant("wanted_between", (window & ~over) | trunc["wanted"])
    spec.invariant("taken_is_wanted", trunc["taken"] == (
        spec.truncator.i.valid & (spec.truncator.i.payload.count > 0) & trunc["wanted"]))
    spec.invariant("takes_are", Cat(load == trunc["taken"] for load in trunc["loads"]).all())
    here = spec.place - spec.sent
    carries = ours & waiting & (spec.place >= spec.sent) & (here < beat.count)
    spec.invariant("waiting_byte", ~carries | (
        spec.known_byte & (spec.lane(beat.data, here[:16]) == spec.value)))
    # After a gap the held beat is older than what the delayed lane still shows.
    quiet = quiet & seen.inside
    first = spec.place + header
    offset = Signal(18)
    m.d.comb += offset.eq(first - start)
    spec.invariant("quiet_is_caught_up", ~quiet | (seen.before == end))
    spec.invariant("held_byte", ~(quiet & ours & (first >= start) & (first < end)) | (
        spec.passed & (spec.lane(previous.data, offset) == spec.kept)))
    spec.invariant("waiting_zero", ~(ours & waiting) | (
        (beat.data & ~Cat((beat.count > lane).replicate(8) for lane in range(lanes))) == 0))
    spec.invariant("passed_is", ~(ours & seen.inside) | (
        spec.passed == (spec.place + header < seen.before)))
    spec.invariant("passed_inside", ~spec.passed | seen.inside)
    spec.invariant("sent_inside", (spec.sent == 0) | seen.inside)
