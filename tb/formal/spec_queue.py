# SPDX-License-Identifier: Apache-2.0
"""Queue: nothing lost, doubled or reordered; nothing hidden or taken back ever seen."""

from amaranth import Mux, Signal
from proof import Fault, Opened, Proof, Spec

from flytrim.logic import BITS
from flytrim.stream.queue import Queue

#: Bits of an item: more than one copy of the queue's state serves them.
ITEM = BITS + 1


class QueueSpec(Spec):
    """Counts the items, and watches one at a time of them from its entry to its exit.

    Which items are watched is arbitrary, so what holds for the watched one holds for each. The
    writer follows the documented rule alone: a burst starts while ``room`` is set and has at most
    ``margin - 1`` items, one less than the margin for the cycle by which ``room`` lags.
    """

    def __init__(self, depth, margin):
        self.depth, self.margin = depth, margin

    def specify(self, m):
        depth, margin = self.depth, self.margin
        queue = Queue(ITEM, depth=depth, margin=margin)
        m.submodules.queue = inner = Opened(queue)
        self.free(queue.i.valid, queue.i.payload, queue.commit, queue.rewind, queue.o.ready)
        valid, o = queue.i.valid, queue.o

        budget = Signal(range(margin))
        fresh = queue.room & ((budget == 0) | self.anything(1, "restart"))
        self.assume(~valid | (budget > 0) | queue.room)
        with m.If(valid):
            m.d.sync += budget.eq(Mux(fresh, margin - 2, budget - 1))

        # How many items are inside, seen from outside.
        shown, hidden = Signal(range(depth + 3)), Signal(range(depth + 3))
        pop, push = o.valid & o.ready, valid & ~queue.rewind
        publish = push & queue.commit
        m.d.sync += shown.eq(shown + Mux(publish, hidden + 1, 0) - pop)
        m.d.sync += hidden.eq(Mux(queue.rewind | publish, 0, hidden + push))

        watching, unseen = Signal(), Signal()
        ahead, value = Signal(range(depth + 3)), Signal(ITEM)
        watch = self.anything(1, "watch")
        with m.If(watching):
            m.d.sync += ahead.eq(ahead - pop)
            with m.If(publish):
                m.d.sync += unseen.eq(0)
            with m.If((pop & (ahead == 0)) | (queue.rewind & unseen)):
                m.d.sync += watching.eq(0)
        with m.Elif(push & watch):
            m.d.sync += [watching.eq(1), unseen.eq(~queue.commit), value.eq(queue.i.payload),
                         ahead.eq(shown + hidden - pop)]

        stalled = self.past(o.valid & ~o.ready)
        self.check("valid_held", ~stalled | o.valid)
        self.check("payload_stable", ~stalled | (o.payload == self.past(o.payload)))
        self.check("only_committed", ~o.valid | (shown > 0))
        self.check("in_order", ~(watching & (ahead == 0) & o.valid) | (o.payload == value))
        self.check("watched_was_committed", ~(watching & (ahead == 0) & o.valid) | ~unseen)
        waited = Signal(2)
        m.d.sync += waited.eq(Mux((shown > 0) & ~o.valid, waited + 1, 0))
        self.check("shown_in_time", (waited < 2) | o.valid | (shown == 0))
        self.check("latency_of_one", ~self.past(publish & (shown == 0) & (hidden == 0)) | o.valid)

        inside = self.past(shown + hidden)
        self.check("level_but_for_two", (queue.level <= inside) & (inside <= queue.level + 2))

        self._invariants(m, queue, inner, shown, hidden, budget, watching, unseen, ahead, value)
        self.cover("full", (shown == depth + 2) & o.valid)
        self.cover("taken_back", self.past(queue.rewind & (hidden > 1)) & (shown > 1))
        self.cover("watched_leaves", watching & pop & (ahead == 0) & (value == 9))

    def _invariants(self, m, queue, inner, shown, hidden, budget, watching, unseen, ahead, value):
        depth, o = self.depth, queue.o
        written, visible, fetched = inner["written"], inner["visible"], inner["fetched"]
        bits = len(written)
        stored, level = (visible - fetched)[:bits], (written - fetched)[:bits]
        places = o.valid + inner["latched"]
        self.invariant("in_turn", stored <= level)
        self.invariant("shown_is_right", shown == stored + places)
        self.invariant("hidden_is_right", hidden == (written - visible)[:bits])
        self.invariant("fits", level + budget <= depth)
        self.invariant("room_is_true", ~queue.room | (level + self.margin - 1 <= depth))
        self.invariant("ahead_is_right", ~watching | (ahead < shown + hidden))
        self.invariant("unseen_is_right", ~watching | (unseen == (ahead >= shown)))

        store = inner["store"]
        look = store.read_port(domain="comb")
        m.d.comb += look.addr.eq(fetched + ahead - places)
        self.invariant("latched_is_watched",
                   ~(watching & inner["latched"] & (ahead == o.valid))
                   | (inner["read"].data == value))
        self.invariant("stored_is_watched",
                   ~(watching & (ahead >= places)) | (look.data == value))


FILE = "stream/queue.py"
FAULTS = (
    Fault(name="output register not held", file=FILE,
          old="advance.eq(~out_valid | self.o.ready)", new="advance.eq(1)",
          caught=("valid_held", "payload_stable")),
    Fault(name="output register loads for a ready sink alone", file=FILE,
          old="with m.If(~holds | self.o.ready):", new="with m.If(self.o.ready):",
          caught=("in_order",)),
    Fault(name="rewind keeps its own item", file=FILE,
          old="written.eq(visible)", new="written.eq(visible + self.i.valid)",
          caught=("only_committed", "in_order", "latency_of_one", "level_but_for_two")),
    Fault(name="rewind needs an item", file=FILE,
          old="with m.If(self.rewind):", new="with m.If(self.rewind & self.i.valid):",
          caught=("only_committed", "in_order", "latency_of_one")),
    Fault(name="item overtakes what is stored", file=FILE,
          old="& ~latched & (fetched == written))", new="& ~latched)",
          caught=("in_order", "only_committed")),
    Fault(name="room a place too early", file=FILE,
          old="level <= self._depth - self._margin)",
          new="level <= self._depth - self._margin + 1)",
          caught=("in_order",)),
    Fault(name="level of what is committed alone", file=FILE,
          old="self.level.eq(level)", new="self.level.eq((visible - fetched)[:bits])",
          caught=("level_but_for_two",)),
)

PROOFS = [
    Proof(name=f"queue_{depth}", says="conservation, order, commit and rewind, room",
          spec=lambda depth=depth, margin=margin: QueueSpec(depth, margin),
          depth=3, reach=24 if depth == 8 else 16, faults=FAULTS if depth == 4 else ())
    for depth, margin in ((4, 3), (8, 5))
]
