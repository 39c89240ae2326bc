# SPDX-License-Identifier: Apache-2.0
"""Admission: which output a frame enters, what is written there, and what became of it."""

from amaranth import Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .classifier import Classified, Decision
from .context import LENGTH_BITS, MetaRecord, Outcome, VerdictRecord
from .headers import OPCODES, Place
from .packet import Packet, side_member
from .verdict import Reason, Verdict

__all__ = ["Admission", "meta_layout", "meta_width"]


def meta_layout(config):
    """A metadata record with the frame's side band above it."""
    return data.StructLayout({"record": MetaRecord, **side_member(config.side_width)})


def meta_width(config):
    """Bits of a record on a port: whole bytes, zeros above the side band."""
    return -(-Shape.cast(meta_layout(config)).width // 8) * 8


class Admission(wiring.Component):
    """Writes each frame to the queue it belongs to, if that had room when its first beat came.

    The beats of every frame go to the bypass queue as they come, hidden until the frame is decided,
    and are taken back at its end unless it is to leave there. The beats of a payload go to the trim
    queue, and its record beside the last of them. All of it is combinational, but for the verdict,
    which is one cycle later.

    Members
    -------
    i, decision : from the classifier
    payload, ended, sent : from the truncator, in step with ``i``
    icrc_good : from the ICRC checker, in step with ``i``
    damaged : to the truncator: the frame that ends in this cycle is damaged
    bypass_room, trim_room, meta_room : from the queues
    bypass, commit, rewind : to the bypass queue
    trim : to the trim queue
    meta : to the queue of records
    verdicts : lane of :class:`VerdictRecord`, one a frame
    outcomes : lane of :class:`Outcome`, beside ``verdicts``
    """

    def __init__(self, config):
        self._config = config
        frame = Packet(config.width, config.side_width)
        super().__init__({
            "i": In(stream.Signature(Classified(config), always_ready=True)),
            "decision": In(Decision),
            "payload": In(stream.Signature(Packet(config.width), always_ready=True)),
            "ended": In(1),
            "sent": In(LENGTH_BITS),
            "icrc_good": In(1),
            "damaged": Out(1),
            "bypass_room": In(1),
            "trim_room": In(1),
            "meta_room": In(1),
            "bypass": Out(stream.Signature(frame, always_ready=True)),
            "commit": Out(1),
            "rewind": Out(1),
            "trim": Out(stream.Signature(Packet(config.width), always_ready=True)),
            "meta": Out(stream.Signature(meta_layout(config), always_ready=True)),
            "verdicts": Out(stream.Signature(VerdictRecord, always_ready=True)),
            "outcomes": Out(stream.Signature(Outcome, always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        beat, packet = self.i.payload.beat, self.i.payload.beat.packet
        decision = self.decision
        first = self.i.valid & beat.first
        last = self.i.valid & packet.last

        # Room and side band as of the frame's first beat.
        def at_first(value, name):
            kept = Signal.like(value, name=f"{name}_kept")
            with m.If(first):
                m.d.sync += kept.eq(value)
            return Mux(first, value, kept)

        bypass_admitted = at_first(self.bypass_room, "bypass_room")
        trim_admitted = at_first(self.trim_room & self.meta_room, "trim_room")

        wants_trim = decision.reason == Reason.NONE
        damage = Signal(Reason)
        with m.If(beat.oversize):
            m.d.comb += damage.eq(Reason.OVERSIZE)
        with m.Elif(wants_trim & packet.error):
            m.d.comb += damage.eq(Reason.MAC_ERROR)
        with m.Elif(wants_trim & self.i.payload.truncated):
            m.d.comb += damage.eq(Reason.TRUNCATED)
        with m.Elif(wants_trim & decision.check_icrc & ~self.icrc_good):
            m.d.comb += damage.eq(Reason.ICRC)

        m.d.comb += [
            self.bypass.valid.eq(self.i.valid & bypass_admitted),
            self.bypass.payload.eq(packet),
            self.commit.eq(self.i.payload.decided & ~wants_trim),
            self.rewind.eq(last & wants_trim),
        ]

        trims = wants_trim & trim_admitted
        record = self.meta.payload.record
        m.d.comb += [
            self.damaged.eq(damage != Reason.NONE),
            self.trim.valid.eq(self.payload.valid & trims),
            self.trim.payload.eq(self.payload.payload),
            self.meta.valid.eq(self.ended & trims),
            record.flow.eq(decision.flow),
            record.reason.eq(damage),
            record.length.eq(self.sent),
            record.cut.eq(decision.cut),
        ]
        if self._config.side_width:
            m.d.comb += self.meta.payload.side.eq(at_first(packet.side, "side"))
        m.d.comb += [getattr(record, name).eq(getattr(decision.record, name)) for name in
                     ("opcode", "psn", "pad_count", "solicited", "ack_request", "ecn",
                      "immediate", "address", "rkey", "dma_length")]

        reason = Signal(Reason)
        with m.If(damage != Reason.NONE):
            m.d.comb += reason.eq(damage)
        with m.Elif(~Mux(wants_trim, trim_admitted, bypass_admitted)):
            m.d.comb += reason.eq(Reason.OVERFLOW)
        with m.Else():
            m.d.comb += reason.eq(decision.reason)

        verdict, outcome = self.verdicts.payload, self.outcomes.payload
        m.d.sync += self.verdicts.valid.eq(last)
        m.d.comb += [
            self.outcomes.valid.eq(self.verdicts.valid),
            outcome.reason.eq(verdict.reason),
            outcome.hit.eq(verdict.hit),
            outcome.flow.eq(verdict.flow),
        ]
        ending = [code for code, opcode in OPCODES.items()
                  if opcode.place in (Place.LAST, Place.ONLY)]
        with m.If(last):
            m.d.sync += [
                outcome.bytes.eq(self.i.payload.bytes),
                outcome.headers.eq(decision.headers),
                outcome.payload.eq(self.sent),
                outcome.cut.eq(decision.cut),
                outcome.ends_message.eq(decision.record.opcode.matches(*ending)),
                verdict.reason.eq(reason),
                verdict.hit.eq(decision.hit),
                verdict.flow.eq(decision.flow),
                verdict.verdict.eq(Mux(reason == Reason.NONE, Verdict.TRIM,
                                       Mux(reason < Reason.OVERSIZE, Verdict.BYPASS,
                                           Verdict.DROP))),
            ]
        return m
