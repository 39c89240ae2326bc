# SPDX-License-Identifier: Apache-2.0
"""Admission: each frame leaves by one way, whole, or by none, and is told of once."""

from amaranth import Mux, Signal
from proof import Fault, Opened, Proof, Spec, small_config

from flytrim.admission import Admission
from flytrim.headers import OPCODES, Place
from flytrim.verdict import Reason, Verdict


class AdmissionSpec(Spec):
    """Frames as the classifier and the truncator give them; room as it pleases the queues."""

    def specify(self, m):
        admission = Admission(small_config(side_width=2))
        self.admission = admission
        m.submodules.admission = self.inner = Opened(admission)
        self.free(*(getattr(admission, name) for name in
                    ("decision", "ended", "sent", "icrc_good", "bypass_room", "trim_room",
                     "meta_room")))
        for lane in (admission.i, admission.payload):
            self.free(lane.valid, lane.payload)
        self._legal(m)
        self._claims(m)

    def _legal(self, m):
        admission = self.admission
        i, decision = admission.i, admission.decision
        first, last = i.payload.beat.first, i.payload.beat.packet.last
        inside, decided = Signal(), Signal()
        with m.If(i.valid):
            m.d.sync += [inside.eq(~last), decided.eq(i.payload.decided & ~last)]
        self.assume(~i.valid | (first == ~inside))
        self.assume(~(i.valid & (last | decided)) | i.payload.decided)
        self.assume(~decided | (decision.as_value() == self.past(decision.as_value())))
        self.assume(decision.reason < Reason.OVERSIZE)
        self.assume(~i.payload.beat.oversize | last)
        payload = admission.payload
        self.end = i.valid & last
        self.assume(admission.ended == self.end)
        self.assume(~payload.valid | decided | (i.valid & i.payload.decided))
        self.assume(~payload.valid | (payload.payload.last == self.end))
        self.inside, self.decided = inside, decided

    def _claims(self, m):
        admission, end = self.admission, self.end
        i, bypass, trim, meta = admission.i, admission.bypass, admission.trim, admission.meta
        first = i.valid & i.payload.beat.first

        def at_first(value, name):
            kept = Signal(name=f"{name}_at_first")
            with m.If(first):
                m.d.sync += kept.eq(value)
            self.invariant(f"{name}_kept", kept == self.inner[f"{name}_kept"])
            return Mux(first, value, kept)

        bypass_room = at_first(admission.bypass_room, "bypass_room")
        trim_room = at_first(admission.trim_room & admission.meta_room, "trim_room")
        commit, rewind = bypass.valid & admission.commit, admission.rewind

        def earlier(event, name):
            """Whether the event came with the frame's earlier beats."""
            seen = Signal(name=f"{name}_earlier")
            m.d.sync += seen.eq((seen | event) & ~end)
            return seen

        committed, trimmed = earlier(commit, "commit"), earlier(trim.valid, "trim")
        trims = admission.decision.reason == Reason.NONE
        self.invariant("trimmed_as_decided", ~trimmed | (self.decided & trims & trim_room))
        self.invariant("committed_as_decided", ~committed | (self.decided & ~trims & bypass_room))
        self.invariant("decided_inside", ~self.decided | self.inside)
        self.check("whole_or_not_at_all", bypass.valid == (i.valid & bypass_room))
        self.check("bypass_is_exact", ~bypass.valid
                   | (bypass.payload.as_value() == i.payload.beat.packet.as_value()))
        self.check("rewind_at_the_end", ~rewind | end)
        self.check("never_both", ~rewind | ~(committed | commit))
        self.check("commit_or_rewind", ~(end & bypass_room) | (rewind != commit))
        self.check("commit_to_the_last", ~(committed & bypass.valid) | commit)
        self.check("one_way", ~(end & (trimmed | trim.valid | meta.valid)) | rewind)
        self.check("all_payload_or_none", ~admission.payload.valid
                   | ~(trimmed | meta.valid) | trim.valid)
        self.check("record_with_the_end", ~meta.valid | end)
        self.check("record_for_payload", ~(end & (trimmed | trim.valid)) | meta.valid)
        self.check("record_when_room", ~end | (meta.valid == (rewind & trim_room)))
        self.check("damage_is_recorded", ~meta.valid | (
            (meta.payload.record.reason != 0) == admission.damaged))
        side = Signal(2)
        with m.If(first):
            m.d.sync += side.eq(i.payload.beat.packet.side)
        self.invariant("side_kept", side == self.inner["side_kept"])
        self.check("side_of_first", ~meta.valid | (
            meta.payload.side == Mux(first, i.payload.beat.packet.side, side)))

        verdicts, verdict = admission.verdicts, admission.verdicts.payload
        self.check("a_verdict_a_frame", verdicts.valid == self.past(end))
        expected = Mux(verdict.reason == Reason.NONE, Verdict.TRIM,
                       Mux(verdict.reason < Reason.OVERSIZE, Verdict.BYPASS, Verdict.DROP))
        self.check("verdict_by_reason", ~verdicts.valid | (verdict.verdict == expected))
        self.check("trim_has_record", ~(verdicts.valid & (verdict.verdict == Verdict.TRIM))
                   | self.past(meta.valid & ~admission.damaged))
        self.check("bypass_was_committed",
                   ~(verdicts.valid & (verdict.verdict == Verdict.BYPASS)) | self.past(commit))
        self.check("overflow_left_nothing",
                   ~(verdicts.valid & (verdict.reason == Reason.OVERFLOW))
                   | ~self.past(commit | meta.valid | trim.valid | trimmed))

        outcomes, outcome = admission.outcomes, admission.outcomes.payload
        self.check("an_outcome_a_verdict", outcomes.valid == verdicts.valid)
        for name in ("reason", "hit", "flow"):
            self.check(f"{name}_of_the_verdict", ~outcomes.valid | (
                getattr(outcome, name) == getattr(verdict, name)))
        decision = admission.decision
        ends = decision.record.opcode.matches(
            *(code for code, opcode in OPCODES.items()
              if opcode.place in (Place.LAST, Place.ONLY)))
        for name, value in (("bytes", i.payload.bytes), ("headers", decision.headers),
                            ("payload", admission.sent), ("cut", decision.cut),
                            ("ends_message", ends)):
            self.check(f"{name}_of_the_frame", ~outcomes.valid | (
                getattr(outcome, name) == self.past(value)))

        self.cover("trimmed_in_parts", meta.valid & trimmed & trim.valid & ~admission.damaged)
        self.cover("decided_late", end & commit & ~committed & self.inside)
        self.cover("overflow", verdicts.valid & (verdict.reason == Reason.OVERFLOW))
        self.cover("damaged", meta.valid & (meta.payload.record.reason == Reason.ICRC))


FILE = "admission.py"
FAULTS = (
    Fault(name="room looked at in every beat", file=FILE,
          old="self.bypass.valid.eq(self.i.valid & bypass_admitted)",
          new="self.bypass.valid.eq(self.i.valid & self.bypass_room)",
          caught=("whole_or_not_at_all", "commit_or_rewind", "commit_to_the_last")),
    Fault(name="commits before the decision", file=FILE,
          old="self.commit.eq(self.i.payload.decided & ~wants_trim)",
          new="self.commit.eq(~wants_trim)",
          caught=("never_both",)),
    Fault(name="takes back within a frame", file=FILE,
          old="self.rewind.eq(last & wants_trim)", new="self.rewind.eq(self.i.valid & wants_trim)",
          caught=("rewind_at_the_end",)),
    Fault(name="record without room", file=FILE,
          old="self.meta.valid.eq(self.ended & trims)",
          new="self.meta.valid.eq(self.ended & wants_trim)",
          caught=("record_when_room", "overflow_left_nothing", "all_payload_or_none")),
    Fault(name="outcome of a trimmed frame alone", file=FILE,
          old="self.outcomes.valid.eq(self.verdicts.valid)",
          new="self.outcomes.valid.eq(self.verdicts.valid & (verdict.reason == Reason.NONE))",
          caught=("an_outcome_a_verdict",)),
    Fault(name="a MIDDLE ends a message", file=FILE,
          old="in (Place.LAST, Place.ONLY)", new="in (Place.LAST, Place.ONLY, Place.MIDDLE)",
          caught=("ends_message_of_the_frame",)),
)

PROOFS = [Proof(name="admission", says="commit or rewind, one way, one verdict a frame",
                spec=AdmissionSpec, depth=3, reach=8, faults=FAULTS)]
