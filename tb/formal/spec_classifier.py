# SPDX-License-Identifier: Apache-2.0
"""Classifier: one decision a frame, known by the beat that says so, and kept while it passes."""

from amaranth import Cat, Signal
from proof import Fault, Opened, Proof, Spec, small_config

from flytrim.classifier import Classifier
from flytrim.flow_cam import FlowCam
from flytrim.flow_hash import FlowHash
from flytrim.verdict import Reason


class ClassifierSpec(Spec):
    """Headers, lengths and table answers are arbitrary in every cycle; the frames are legal."""

    def __init__(self, lookup_cycles):
        self.lookup_cycles = lookup_cycles

    def specify(self, m):
        lookup, latency = self.lookup_cycles, self.lookup_cycles + 1
        classifier = Classifier(small_config(side_width=2), lookup)
        m.submodules.classifier = inner = Opened(classifier)
        i, o = classifier.i, classifier.o
        beat, last = i.payload.beat, i.payload.beat.packet.last
        self.free(i.valid, i.payload, classifier.lookups.valid, classifier.lookups.payload)
        ask, decision = classifier.keys.valid, classifier.decision.as_value()

        inside, asked = Signal(), Signal()
        self.assume(beat.first == ~inside)
        self.assume(i.payload.header_reason <= Reason.NOT_UDP)
        with m.If(i.valid):
            m.d.sync += [inside.eq(~last), asked.eq((asked | ask) & ~last)]
        self.check("asks_with_a_beat", ~ask | i.valid)
        self.check("asks_once", ~(ask & asked))
        self.check("asks_in_the_end", ~(i.valid & last) | asked | ask)
        self.check("asks_for_its_key", ~ask | (classifier.keys.payload == i.payload.key))

        came, answered = self.past(i.valid, latency), self.past(ask, latency)
        self.check("beat_for_beat", o.valid == came)
        self.check("beat_unchanged", ~o.valid | (o.payload.beat.as_value()
                                                 == self.past(beat.as_value(), latency)))
        self.check("bytes_unchanged", ~o.valid | (
            o.payload.bytes == self.past(i.payload.bytes, latency)))
        self.check("decided_when_asked",
                   ~o.valid | (o.payload.decided == self.past(asked | ask, latency)))
        self.check("decision_holds", answered | (decision == self.past(decision)))

        # The same seen at the output alone.
        under_way = Signal()
        out_last = o.payload.beat.packet.last
        with m.If(o.valid):
            m.d.sync += under_way.eq(o.payload.decided & ~out_last)
        self.check("decided_never_falls", ~(o.valid & under_way) | o.payload.decided)
        self.check("decided_at_last", ~(o.valid & out_last) | o.payload.decided)
        self.check("stable_while_it_passes", ~under_way | (decision == self.past(decision)))
        self.check("headers_alone", classifier.decision.reason < Reason.OVERSIZE)

        # A disabled flow is none.
        reason = classifier.decision.reason
        disabled = answered & self.past(classifier.lookups.payload.context.disabled)
        self.check("disabled_is_no_hit", ~disabled | ~classifier.decision.hit)
        self.check("disabled_is_not_ours", ~disabled | ~reason.matches(
            Reason.NONE, Reason.OPCODE, Reason.MESSAGE_LENGTH))

        # What the truncator is told, and relies on.
        length, limit, limited = classifier.length, classifier.limit, classifier.limited
        told, known = Cat(length, limit, limited), classifier.lookups.payload.as_value()
        self.check("lengths_come_a_cycle_early", ~(answered & self.past(limited[0]))
                   | (classifier.decision.cut == self.past((length - limit)[:16])))
        self.check("lengths_hold", self.past(ask, lookup) | (known != self.past(known))
                   | (told == self.past(told)))
        self.check("limited_as_one", limited.any() == limited.all())
        self.check("limit_is_less", ~limited.any() | (limit < length))

        self.invariant("undecided_is_unasked", inner["undecided"] == ~asked)
        self.invariant("asked_inside", ~asked | inside)
        for n, copy in enumerate(inner["lengths"]):
            self.invariant(f"length_{n}_is_no_other", copy == length)
        self.invariant("under_way_is_asked", under_way == self.past(asked, latency))

        self.cover("late_decision",
                   o.valid & out_last & answered & self.past(o.valid & ~out_last, 2))
        self.cover("disabled", disabled & (reason == Reason.NO_FLOW)
                   & self.past(classifier.lookups.payload.hit))
        self.cover("trim", under_way & (classifier.decision.reason == Reason.NONE))
        self.cover("short_message", under_way
                   & (classifier.decision.reason == Reason.MESSAGE_LENGTH))


FILE = "classifier.py"
FAULTS = (
    Fault(name="decides again at every beat", file=FILE,
          old="(undecided & ~complete)", new="~complete",
          caught=("asks_once", "stable_while_it_passes", "decided_never_falls")),
    Fault(name="decided for its own beat only", file=FILE,
          old="late(~undecided | complete,", new="late(undecided & complete,",
          caught=("decided_never_falls", "decided_when_asked")),
    Fault(name="decision follows the headers", file="logic.py",
          old="with m.If(load):", new="with m.If(1):",
          caught=("decision_holds", "stable_while_it_passes")),
    Fault(name="length follows the headers", file=FILE,
          old="with m.If(deciding):", new="with m.If(1):", caught=("lengths_hold",)),
    Fault(name="limit that is none", file=FILE,
          old="exceeds(length, limit[:16])", new="~exceeds(limit[:16], length)",
          caught=("limit_is_less",)),
    Fault(name="disabled flow is hit", file=FILE,
          old="lookup.hit & ~context.disabled", new="lookup.hit",
          caught=("disabled_*",)),
    Fault(name="bytes are those of the next beat", file=FILE,
          old="out.bytes.eq(second.bytes)", new="out.bytes.eq(first.bytes)",
          caught=("bytes_unchanged",)),
)

PROOFS = [
    Proof(name=name, says="one decision a frame, stable while the frame passes",
          spec=lambda table=table: ClassifierSpec(table.latency), depth=table.latency + 3,
          reach=table.latency + 8, faults=FAULTS if table is FlowCam else ())
    for name, table in (("classifier", FlowCam), ("classifier_5", FlowHash))
]
