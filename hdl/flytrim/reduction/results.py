# SPDX-License-Identifier: Apache-2.0
"""Results: what becomes of the beats that a block of ports leads, and what is kept of it."""

from itertools import combinations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..fp32.element import ElementType
from ..group import GROUP_BITS, MISSING_BITS, OFFSET_BITS, AbortCause
from ..logic import delayed, select
from ..packet import Packet
from .child import ChildRecord, GroupEntry, Result, Step, Turn
from .slots import PARITY, parity_of

__all__ = ["Controls", "Outcome", "Results"]


class Controls(data.Struct):
    """What the tree is told with a beat."""

    operation: 3
    type: 2


class Outcome(data.Struct):
    """How a job has ended.

    ``done`` of a result that was made, ``up`` of what went to the parent for the first time,
    ``again`` of a result that was sent again. Otherwise the slot was aborted for ``cause``.
    ``flags`` are those of the numbers, as :class:`ReductionTree` has them.
    """

    turn: Turn
    node: 3
    done: 1
    up: 1
    again: 1
    partial: 1
    cause: 2
    flags: 5


class Results(wiring.Component):
    """Beside the tree: compares what the children sent, keeps results, sends them out.

    The record of a result leaves 2 cycles behind the job's first step, so that headers can be made
    meanwhile; its beats leave ``latency`` + 1 cycles behind theirs. A result that is sent again
    comes from memory in the time that the tree would take, so beats are never out of order. If the
    next one of its slot is just being made, it ends as a bad one, and is no outcome.

    Parameters
    ----------
    config : SwitchConfig
    latency : int
        Cycles from the tree's inputs to ``z``.

    Members
    -------
    step : lane of :class:`Step` that this block leads
    placed, group, entry : strobe: ``entry`` becomes that of ``group``
    running : a bit a group: its jobs count
    records : of each port, for the step's slot
    present, controls : to the tree, a cycle behind the step
    sound : a bit a port, a cycle behind the step: parity of its beat holds
    z, flags : from the tree, ``latency`` cycles behind its inputs
    ports, record : lane of :class:`Result`, and the ports that it goes to
    beat_ports, beat : lane of its beats, and the ports that they go to
    outcome : lane of :class:`Outcome`
    """

    def __init__(self, config, latency):
        self._config, self._latency = config, latency
        super().__init__({
            "step": In(stream.Signature(Step(config), always_ready=True)),
            "placed": In(1),
            "group": In(GROUP_BITS),
            "entry": In(GroupEntry),
            "running": In(config.groups),
            "records": In(data.ArrayLayout(ChildRecord, config.ports)),
            "present": Out(config.ports),
            "controls": Out(Controls),
            "sound": In(config.ports),
            "z": In(config.width),
            "flags": In(5),
            "ports": Out(config.ports),
            "record": Out(stream.Signature(Result, always_ready=True)),
            "beat_ports": Out(config.ports),
            "beat": Out(stream.Signature(Packet(config.width), always_ready=True)),
            "outcome": Out(stream.Signature(Outcome, always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.entries = entries = memory.Memory(
            shape=GroupEntry, depth=max(2, config.groups), init=[])
        m.submodules.kept = kept = memory.Memory(shape=Result, depth=config.slots, init=[])
        entry, stored = entries.read_port(domain="comb"), kept.read_port(domain="comb")
        write = entries.write_port()
        m.d.comb += [
            write.addr.eq(self.group), write.data.eq(self.entry), write.en.eq(self.placed),
            entry.addr.eq(self.step.payload.job.turn.group),
            stored.addr.eq(self.step.payload.job.turn.slot),
        ]

        # One cycle behind the step: with the children's beats.
        first = Signal(data.StructLayout({
            "step": Step(config), "records": data.ArrayLayout(ChildRecord, config.ports),
            "expected": config.ports, "summed": config.ports, "receivers": config.ports,
            "controls": Controls, "stored": Result, "alive": 1}), reset_less=True)
        first_valid = Signal()
        job, context = self.step.payload.job, entry.data.context
        children = context.members & ~context.parent
        # What goes up is of no use any more, and may have been written over.
        answered = ((stored.data.life == job.turn.life)
                    & ~(stored.data.offset - job.turn.offset)[OFFSET_BITS - 1])
        expected = Mux(job.down, context.members, children)
        m.d.sync += [first_valid.eq(self.step.valid), first.step.eq(self.step.payload)]
        # All of a job is as its first step finds it, whatever becomes of its group meanwhile.
        with m.If(self.step.payload.first):
            m.d.sync += [
                first.records.eq(self.records),
                first.expected.eq(expected),
                first.summed.eq(Mux(job.down, context.parent, children & context.sources)),
                first.receivers.eq(context.receivers | Mux(job.up, context.parent, 0)),
                first.controls.operation.eq(context.operation),
                first.controls.type.eq(context.type),
                first.stored.eq(stored.data),
                first.alive.eq((entry.data.life == job.turn.life)
                               & self.running.bit_select(job.turn.group, 1)
                               & ~(job.up & answered)),
            ]
        absent = Cat(first.records[port].absent for port in range(config.ports))
        m.d.comb += [
            self.present.eq(Mux(first_valid, first.summed & ~absent, 0)),
            self.controls.eq(Mux(first_valid, first.controls, 0)),
        ]
        second, second_valid, sound = self._compare(m, first, first_valid)
        m.d.comb += [
            self.ports.eq(second.step.job.ports),
            self.record.valid.eq(second_valid & second.step.first & sound),
            self.record.payload.eq(second.result),
        ]
        self._leave(m, second, second_valid, sound, kept)
        return m

    def _compare(self, m, first, first_valid):
        """Second cycle: whether the contributions fit together, and what the result is like."""
        config, ports = self._config, range(self._config.ports)
        second = Signal(data.StructLayout({
            "step": Step(config), "result": Result, "damaged": 1}), reset_less=True)
        second_valid, sound = Signal(), Signal(reset_less=True)
        job, present = first.step.job, self.present
        kept = job.again & ~job.up
        lacking = Cat(first.records[port].absent | first.records[port].partial for port in ports)
        lengths = [first.records[port].length for port in ports]
        equal = Cat(~(present[a] & present[b]) | (lengths[a] == lengths[b])
                    for a, b in combinations(ports, 2)).all()
        length = select(zip(present & -present, lengths, strict=False))
        narrow = Cat(first.controls.type == each.value for each in ElementType if each.narrow).any()
        m.d.sync += [
            second_valid.eq(first_valid & first.alive),
            second.step.eq(first.step),
            second.damaged.eq((present & ~self.sound).any() & ~kept),
        ]
        with m.If(kept):
            m.d.sync += [
                sound.eq(((first.stored.length == job.length) | job.unsized)
                         & (first.stored.offset == job.turn.offset)),
                second.result.eq(first.stored),
                second.result.again.eq(1),
            ]
        with m.Else():
            m.d.sync += [
                sound.eq(equal & ~length[0] & (narrow | ~length[1])),
                second.result.again.eq(job.again),
                second.result.receivers.eq(first.receivers),
                second.result.length.eq(length),
                second.result.ce.eq(Cat(
                    present[port] & first.records[port].ce for port in ports).any()),
                second.result.missing.eq(first.expected & lacking),
                second.result.group.eq(job.turn.group),
                second.result.life.eq(job.turn.life),
                second.result.offset.eq(job.turn.offset),
            ]
        return second, second_valid, sound

    def _leave(self, m, second, second_valid, sound, kept):
        """With the sum: the beat that leaves, and what is kept."""
        config, lanes = self._config, self._config.lanes
        shift = lanes.bit_length() - 1
        length, index = second.result.length, second.step.index
        whole, rest = length >> shift, length[:shift]
        behind = Signal(data.StructLayout({
            "turn": Turn, "node": 3, "ports": MISSING_BITS, "kept": 1, "up": 1, "again": 1,
            "first": 1, "last": 1, "index": range(config.slot_beats), "beat": 1, "end": 1,
            "partial": 1, "damaged": 1, "sound": 1, "count": range(lanes + 1),
            "result": Result}), name="behind")
        m.d.comb += [
            *(behind[name].eq(second.step.job[name])
              for name in ("turn", "node", "ports", "up", "again")),
            behind.kept.eq(second.step.job.again & ~second.step.job.up),
            *(behind[name].eq(second.step[name]) for name in ("first", "last", "index")),
            behind.damaged.eq(second.damaged),
            behind.sound.eq(sound),
            behind.result.eq(second.result),
            # A job may take more beats than its result has.
            behind.beat.eq((index < whole) | ((index == whole) & rest.any())),
            behind.end.eq(Mux(rest.any(), index == whole, index + 1 == whole)),
            behind.partial.eq(second.result.missing.any()),
            behind.count.eq(Mux(index == whole, rest, lanes)),
        ]
        valid = delayed(m, second_valid, self._latency - 1, name="valid", reset=True)
        before = delayed(m, behind, self._latency - 2, name="behind")
        now = delayed(m, before, 1, name="now")

        # Fetched so that it comes when the sum would.
        word = data.StructLayout({"data": config.width, "parity": config.width // PARITY})
        m.submodules.beats = beats = memory.Memory(
            shape=word, depth=config.slots * config.slot_beats, init=[])
        write, read = beats.write_port(), beats.read_port()
        bits = config.slot_beats.bit_length() - 1
        out, out_valid = self.beat.payload, self.beat.valid
        spoilt, damaged, gone = Signal(), Signal(), Signal()
        # A sum just before it has taken the place of a result that is sent again.
        known = kept.read_port(domain="comb")
        m.d.comb += [
            known.addr.eq(now.turn.slot),
            gone.eq(now.kept & (known.data.offset != now.turn.offset)),
        ]
        m.d.comb += [
            read.addr.eq(Cat(before.index[:bits], before.turn.slot)),
            write.addr.eq(Cat(now.index[:bits], now.turn.slot)),
            write.data.data.eq(self.z),
            write.data.parity.eq(parity_of(self.z)),
            write.en.eq(out_valid & ~now.kept & ~now.up),
            out_valid.eq(valid & now.sound & now.beat),
            self.beat_ports.eq(now.ports & now.result.receivers),
            out.data.eq(Mux(now.kept, read.data.data, self.z)),
            out.count.eq(now.count),
            out.last.eq(now.end),
            damaged.eq(Mux(now.kept, (parity_of(read.data.data) != read.data.parity) & now.beat,
                           now.damaged) | gone | (spoilt & ~now.first)),
            out.error.eq(now.end & damaged),
        ]
        raised, all_raised = Signal(5), Signal(5)
        m.d.comb += all_raised.eq(
            Mux(now.kept, 0, self.flags) | Mux(now.first, 0, raised))
        with m.If(valid):
            m.d.sync += [spoilt.eq(damaged), raised.eq(all_raised)]

        outcome, note = self.outcome.payload, kept.write_port()
        made = now.sound & ~damaged
        m.d.comb += [
            self.outcome.valid.eq(valid & now.last & (~now.again | now.sound & ~gone)),
            outcome.turn.eq(now.turn),
            outcome.node.eq(now.node),
            outcome.done.eq(made & ~now.again & ~now.up),
            outcome.up.eq(made & ~now.again & now.up),
            outcome.again.eq(now.kept),
            outcome.partial.eq(now.partial),
            outcome.cause.eq(Mux(made, 0, Mux(now.sound, AbortCause.PARITY, AbortCause.LENGTHS))),
            outcome.flags.eq(all_raised),
            note.addr.eq(now.turn.slot),
            note.data.eq(now.result),
            # A damaged sum has taken the place of the result before it, too.
            note.en.eq(self.outcome.valid & now.sound & ~now.again & ~now.up),
        ]
