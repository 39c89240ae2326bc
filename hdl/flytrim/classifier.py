# SPDX-License-Identifier: Apache-2.0
"""Classifier: one verdict a frame, from its headers and the flow table."""

import functools

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .checksum import compress, is_sound
from .context import LENGTH_BITS, SEEN_BITS, FlowKey, Lookup, Parsed, Received, RecordFields
from .logic import BITS, KEEP, Copies, copies_for, delayed, exceeds, load_soon
from .verdict import Reason

__all__ = ["Classified", "Classifier", "Decision"]


class Decision(data.Struct):
    """What the headers and the flow table say of a frame.

    ``reason`` is ``NONE`` or one of the bypass codes. ``cut`` is how many bytes of payload the
    preset message length takes off, ``headers`` how many are in front of it.
    """

    reason: 8
    hit: 1
    check_icrc: 1
    flow: 16
    cut: 16
    headers: SEEN_BITS
    record: RecordFields


class Classified(data.StructLayout):
    """A beat, delayed until its frame may have been decided.

    ``decided`` is set from the beat on that completes the headers, at the latest on the last one;
    :attr:`Classifier.decision` is then that of this frame. ``truncated`` counts on the last beat:
    the frame is shorter than its IP length. ``bytes`` are those of the frame so far.
    """

    def __init__(self, config):
        super().__init__({
            "beat": Received(config), "decided": 1, "truncated": 1, "bytes": LENGTH_BITS})


class Classifier(wiring.Component):
    """Tests the reasons in their order. One beat a cycle, never stalls.

    A frame is decided once, at the beat that completes its headers: what later commands do to the
    flow table cannot touch it. The flow table is asked for that beat only, beside the tests that
    need no table. Latency is a cycle more than the flow table's, 3 cycles with a CAM.

    Parameters
    ----------
    config : NicConfig
    lookup_cycles : int
        Latency of the flow table, 2 or more.

    Members
    -------
    i : lane of :class:`Parsed`
    keys : lane of :class:`FlowKey`, to the flow table
    lookups : lane of :class:`Lookup`, from the flow table; holds between results
    length, limit, limited : payload bytes of the frame last decided; how many of them stay, where
        the preset message length cuts them; one cycle ahead of ``decision``
    o : lane of :class:`Classified`, a beat for a beat
    decision : of the frame last decided; holds until that of the next one
    """

    def __init__(self, config, lookup_cycles=2):
        self._config, self._wait = config, lookup_cycles - 2
        super().__init__({
            "i": In(stream.Signature(Parsed(config), always_ready=True)),
            "keys": Out(stream.Signature(FlowKey, always_ready=True)),
            "lookups": In(stream.Signature(Lookup, always_ready=True)),
            "length": Out(16),
            "limit": Out(16),
            "limited": Out(1 + copies_for(config.lanes)),
            "o": Out(stream.Signature(Classified(config), always_ready=True)),
            "decision": Out(Decision),
        })

    def elaborate(self, platform):
        m = Module()
        parsed, last = self.i.payload, self.i.payload.beat.packet.last
        has_extensions = parsed.seen >= parsed.header_bytes

        # Decide at the first beat that completes the headers, or ends the frame.
        undecided = Signal(init=1)
        complete, decide = Signal(), Signal()
        m.d.comb += [
            complete.eq(last | Mux(parsed.header_reason == Reason.NONE, has_extensions,
                                   Mux(parsed.header_reason == Reason.NOT_IP, parsed.has_link,
                                       parsed.has_ip))),
            decide.eq(self.i.valid & complete & undecided),
            self.keys.valid.eq(decide),
            self.keys.payload.eq(parsed.key),
        ]
        with m.If(self.i.valid):
            m.d.sync += undecided.eq(last | (undecided & ~complete))

        # A slower table is waited for here.
        late = functools.partial(delayed, m, cycles=self._wait)
        now = late(parsed, name="parsed")
        decide = late(decide, name="decide", reset=True)
        header, record, only, lengths, deciding = self._header_tests(m, now, decide)
        self._table_tests(m, header, record, only, lengths, deciding)
        self._delay_beats(m, late(self.i.valid, name="valid", reset=True), now,
                          late(~undecided | complete, name="decided"), header.frame_bytes)
        return m

    def _header_tests(self, m, parsed, decide):
        """First and second cycle: all up to UDP, while the flow table looks for the key."""
        first = Signal.like(parsed, name="first", reset_less=True)
        has_all, checksum_sound, deciding = Signal(), Signal(), Signal(attrs=KEEP)
        m.d.sync += [
            deciding.eq(decide),
            first.eq(parsed),
            has_all.eq(parsed.has_bth & (parsed.seen >= parsed.header_bytes)),
            checksum_sound.eq(~parsed.ipv4_at.any() | is_sound(*compress(parsed.checksum, 2))),
        ]

        reason = Signal(Reason)
        with m.If(~first.has_link):
            m.d.comb += reason.eq(Reason.TRUNCATED_HEADER)
        with m.Elif(first.header_reason == Reason.NOT_IP):
            m.d.comb += reason.eq(Reason.NOT_IP)
        with m.Elif(~first.has_ip):
            m.d.comb += reason.eq(Reason.TRUNCATED_HEADER)
        with m.Elif((first.header_reason != Reason.NONE)
                    & (first.header_reason != Reason.NOT_UDP)):
            m.d.comb += reason.eq(first.header_reason)
        with m.Elif(~checksum_sound):
            m.d.comb += reason.eq(Reason.IP_HEADER)
        with m.Elif(first.header_reason == Reason.NOT_UDP):
            m.d.comb += reason.eq(Reason.NOT_UDP)
        with m.Elif(~first.has_udp):
            m.d.comb += reason.eq(Reason.TRUNCATED_HEADER)

        # Kept out of shift registers, which are slow; the record, which no test asks for, is not.
        second = Signal(data.StructLayout({
            "reason": 8, "has_all": 1, "sound": 1, "payload": 1, "tagged": 1, "vlan": 12,
            "sport": 16, "length": 16, "frame_bytes": 17, "header_bytes": SEEN_BITS,
        }), reset_less=True, attrs=KEEP)
        record = Signal(RecordFields, reset_less=True)
        m.d.sync += [second.reason.eq(reason), second.has_all.eq(has_all), record.eq(first.record)]
        m.d.sync += [second[name].eq(first[name]) for name in
                     ("sound", "payload", "tagged", "vlan", "sport", "header_bytes")]
        # These are looked at until the frame has ended. What decides on the lanes of the last beats
        # has a length of its own for each copy, or all comparisons would be one with many loads.
        lengths = [Signal(16, name=f"length_{n}", reset_less=True, attrs=KEEP)
                   for n in range(len(self.limited))]
        with m.If(deciding):
            m.d.sync += [second.length.eq(first.length), second.frame_bytes.eq(first.frame_bytes)]
        for n, length in enumerate(lengths):
            load_soon(m, length, first.length, decide, name=f"length_{n}_load")
        only, held = Signal(), Signal(reset_less=True)
        m.d.comb += only.eq(Mux(deciding, first.only, held))
        m.d.sync += held.eq(only)
        copies = Copies(m, only, BITS * len(self.limited), name="only")
        return second, record, copies, lengths, deciding

    def _table_tests(self, m, header, record, only, lengths, deciding):
        """Third cycle: the tests from UDP on, by what the flow table knows.

        ``deciding`` is set a cycle earlier.
        """
        lookup = self.lookups.payload
        context = lookup.context
        hit, too_long, cut = Signal(), Signal(), self.limited[-1]
        limit = context.message_bytes
        over = [exceeds(length, limit[:16]) & ~limit[16:].any() for length in lengths]
        m.d.comb += [
            hit.eq(lookup.hit & ~context.disabled
                   & (~context.check_vlan | (header.tagged & (header.vlan == context.vlan)))
                   & (~context.check_sport | (header.sport == context.sport))),
            too_long.eq(over[-1] & context.check_length & ~context.cut),
            self.limited.eq(Cat(one & longer & context.check_length & context.cut
                                for one, longer in zip(only, over, strict=True))),
            self.length.eq(header.length),
            self.limit.eq(limit),
        ]

        reason = Signal(Reason)
        with m.If(header.reason != Reason.NONE):
            m.d.comb += reason.eq(header.reason)
        with m.Elif(~lookup.dport_known):
            m.d.comb += reason.eq(Reason.NOT_ROCE)
        with m.Elif(~header.has_all):
            m.d.comb += reason.eq(Reason.TRUNCATED_HEADER)
        with m.Elif(~header.sound):
            m.d.comb += reason.eq(Reason.LENGTH)
        with m.Elif(~hit):
            m.d.comb += reason.eq(Reason.NO_FLOW)
        with m.Elif(~header.payload):
            m.d.comb += reason.eq(Reason.OPCODE)
        with m.Elif(only[-1] & too_long):
            m.d.comb += reason.eq(Reason.MESSAGE_LENGTH)

        belongs = ((header.reason == Reason.NONE) & lookup.dport_known & header.has_all
                   & header.sound & hit)
        decision = Signal(Decision)
        m.d.comb += [
            decision.reason.eq(reason),
            decision.hit.eq(belongs),
            decision.check_icrc.eq(context.check_icrc),
            decision.flow.eq(Mux(belongs, lookup.flow, 0)),
            decision.cut.eq(Mux(cut, header.length - limit, 0)),
            decision.headers.eq(header.header_bytes),
            decision.record.eq(record),
        ]
        held, new = Value.cast(self.decision), Value.cast(decision)
        load_soon(m, held, new, deciding, name="load")

    def _delay_beats(self, m, valid, parsed, decided, frame_bytes):
        """Beats beside the three cycles a decision takes."""
        layout = data.StructLayout({
            "beat": Received(self._config), "decided": 1, "bytes": LENGTH_BITS})
        first = Signal(layout, name="beat_1", reset_less=True)
        second = Signal(layout, name="beat_2", reset_less=True)
        first_valid, second_valid = Signal(), Signal()
        out = Signal.like(self.o.payload, reset_less=True)
        # Kept out of the shift registers that the rest becomes.
        flags = Signal(4, reset_less=True, attrs=KEEP)

        def flags_of(beat):
            return Cat(beat.first, beat.oversize, beat.packet.last, beat.packet.error)

        m.d.sync += [
            first_valid.eq(valid),
            first.beat.eq(parsed.beat),
            first.decided.eq(decided),
            first.bytes.eq(parsed.bytes),
            second_valid.eq(first_valid),
            second.eq(first),
            self.o.valid.eq(second_valid),
            out.beat.eq(second.beat),
            flags.eq(flags_of(second.beat)),
            out.decided.eq(second.decided),
            out.truncated.eq(second.bytes < frame_bytes),
            out.bytes.eq(second.bytes),
        ]
        m.d.comb += [self.o.payload.eq(out), flags_of(self.o.payload.beat).eq(flags)]
