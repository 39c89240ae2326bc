# SPDX-License-Identifier: Apache-2.0
"""Keeper: starts and stops groups, sees to slots that wait too long, clears those that failed."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..group import (
    GROUP_BITS,
    OFFSET_BITS,
    SLOT_BITS,
    Aborted,
    GroupCommand,
    GroupOperation,
    GroupStatus,
    Straggler,
)
from ..logic import delayed
from .child import PHASE_BITS, ChildPlace, GroupEntry, Order, Settled
from .results import Outcome

__all__ = ["Keeper"]


class _Wait(data.Struct):
    """How long a slot has waited for ``offset``; ``told`` once that was too long.

    ``climbs`` while it waits for the parent alone, which was last asked, or seen not to have
    answered, at ``asked``.
    """

    waits: 1
    told: 1
    climbs: 1
    offset: OFFSET_BITS
    since: 32
    asked: 32


class Keeper(wiring.Component):
    """Goes round the slots of all groups that run, but for the time that commands take.

    A slot is looked at every third cycle; so that a straggler is told some thousand cycles late at
    the most, and so is a parent asked again. Commands and aborts come first.

    ``START`` gives the group a new life, in which jobs of the one before count for nothing, and
    waits until those that had begun are over; then it clears its slots one by one.

    Parameters
    ----------
    config : SwitchConfig
    nodes : Nodes
    settles : int
        Cycles after which a job that had begun is over.

    Members
    -------
    commands : stream of :class:`GroupCommand`, taken when they are done
    status : :class:`GroupStatus`, with that
    placed, group, entry, places : strobe: what ``group`` becomes for everybody; and for each port
    running : a bit a group: its contributions count
    order, order_valid, order_ready : an order, and which ports are to take it, and do
    clears : marks are being taken back: what ``order`` says is not yet so at all ports
    slot, marked, settled : a slot, its marks, and what each block is settled for, combinational
    settle, settle_valid, settle_ready : sets what ``slot`` is settled for, in all blocks
    failed : stream of :class:`Outcome` of jobs that were aborted
    straggler : stream of :class:`Straggler`
    aborted : stream of :class:`Aborted`
    in_use : slots that wait for some of their children, as of the last round
    """

    def __init__(self, config, nodes, settles):
        self._config, self._nodes, self._settles = config, nodes, settles
        ports = config.ports
        super().__init__({
            "commands": In(stream.Signature(GroupCommand)),
            "status": Out(4),
            "placed": Out(1),
            "group": Out(GROUP_BITS),
            "entry": Out(GroupEntry),
            "places": Out(data.ArrayLayout(ChildPlace, ports)),
            "running": Out(config.groups),
            "order": Out(Order),
            "order_valid": Out(ports),
            "order_ready": In(ports),
            "clears": Out(1),
            "slot": Out(SLOT_BITS),
            "marked": In(data.ArrayLayout(PHASE_BITS, ports)),
            "settled": In(data.ArrayLayout(Settled, len(nodes.blocks))),
            "settle": Out(Settled),
            "settle_valid": Out(1),
            "settle_ready": In(1),
            "failed": In(stream.Signature(Outcome)),
            "straggler": Out(stream.Signature(Straggler)),
            "aborted": Out(stream.Signature(Aborted)),
            "in_use": Out(range(config.slots + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.entries = entries = memory.Memory(
            shape=GroupEntry, depth=max(2, config.groups), init=[])
        m.submodules.waits = waits = memory.Memory(shape=_Wait, depth=config.slots, init=[])
        place, known = entries.write_port(), entries.read_port(domain="comb")
        command, failed = self.commands.payload, Signal(Outcome, reset_less=True)

        # The group that is looked at, and the slot of it, from 0.
        group, at, entry = Signal(GROUP_BITS), Signal(SLOT_BITS + 1), Signal(GroupEntry)
        slot = Signal(SLOT_BITS)
        # Where the round was when a command or an abort came.
        round_group, round_at = Signal.like(group), Signal.like(at)
        now = Signal(32)
        m.d.sync += now.eq(now + 1)
        m.d.comb += [
            known.addr.eq(group),
            entry.eq(known.data),
            self.slot.eq(slot),
            self.group.eq(group),
            place.addr.eq(group), place.data.eq(self.entry), place.en.eq(self.placed),
        ]
        context, last = entry.context, entry.context.last
        # A bit where there is one block, too: Verilog has no signals without.
        block = Signal(range(max(2, len(self._nodes.blocks))))
        with m.Switch(entry.node):
            for node in self._nodes:
                with m.Case(node.number):
                    m.d.comb += block.eq(node.lead)

        # What a slot is settled for, and who has contributed the offset behind that.
        settled, marked = Signal(Settled), Signal(config.ports)
        offset = Signal(OFFSET_BITS)
        m.d.comb += offset.eq(settled.offset + last + 1)
        look = Signal()
        with m.If(look):
            m.d.sync += [
                settled.eq(self.settled[block]),
                marked.eq(Cat(
                    self.marked[port] == (self.settled[block].phase + 1)[:PHASE_BITS]
                    for port in range(config.ports)) & context.members),
            ]
        missing = context.members & ~marked
        partial = marked.any() & missing.any()
        children = context.members & ~context.parent
        climbs = ~(children & missing).any() & missing.any()

        pending = Signal(config.ports)
        m.d.comb += self.order_valid.eq(pending)
        m.d.sync += pending.eq(pending & ~self.order_ready)
        order = Signal(Order, reset_less=True)
        m.d.comb += self.order.eq(order)
        ordered = ~(pending & ~self.order_ready).any()
        # A mark is there for all to see in the third cycle behind its order.
        clears = pending.any() & order.clear
        still = delayed(m, clears, 1, name="clears", reset=True)
        m.d.comb += self.clears.eq(
            clears | still | delayed(m, still, 1, name="still_clears", reset=True))

        wait_write, wait_read = waits.write_port(), waits.read_port()
        m.d.comb += [
            wait_read.addr.eq(slot), wait_write.addr.eq(slot),
            wait_write.data.offset.eq(offset),
        ]
        self._elaborate_start(m, group, entry, command)

        count, settle_for = Signal(range(config.slots + 1)), Signal(range(self._settles + 1))
        in_range = command.group < config.groups
        runs = self.running.bit_select(group, 1)
        ends, overdue = Signal(), Signal()
        m.d.comb += self.commands.ready.eq(ends)
        with m.FSM():
            with m.State("Next"):
                # Where the round goes on; commands and aborts come between two slots.
                m.d.sync += [round_group.eq(group), round_at.eq(at)]
                with m.If(self.commands.valid & ~self.commands.ready):
                    m.d.sync += [group.eq(command.group), at.eq(0)]
                    m.next = "Command"
                with m.Elif(self.failed.valid):
                    m.d.comb += self.failed.ready.eq(1)
                    m.d.sync += [
                        failed.eq(self.failed.payload),
                        group.eq(self.failed.payload.turn.group), at.eq(0),
                    ]
                    m.next = "Abort"
                with m.Elif(~runs | (at > last)):
                    m.d.sync += [at.eq(0), group.eq(group + 1)]
                    with m.If(group == config.groups - 1):
                        m.d.sync += [group.eq(0), self.in_use.eq(count), count.eq(0)]
                with m.Else():
                    m.d.sync += slot.eq(context.base | at)
                    m.next = "Look"
            with m.State("Look"):
                m.d.comb += look.eq(1)
                m.d.sync += at.eq(at + 1)
                m.next = "Judge"
            with m.State("Judge"):
                wait = wait_read.data
                same = wait.waits & (wait.offset == offset)
                m.d.comb += [
                    wait_write.en.eq(1),
                    wait_write.data.waits.eq(partial),
                    wait_write.data.since.eq(Mux(same, wait.since, now)),
                    wait_write.data.told.eq(same & wait.told),
                    wait_write.data.climbs.eq(climbs),
                    wait_write.data.asked.eq(Mux(same & wait.climbs & ~overdue, wait.asked, now)),
                    overdue.eq(climbs & same & wait.climbs & context.resend.any()
                               & (now - wait.asked >= context.resend)),
                    self.straggler.payload.group.eq(group),
                    self.straggler.payload.offset.eq(offset),
                    self.straggler.payload.missing.eq(missing),
                ]
                m.d.sync += count.eq(count + marked.any())
                with m.If(partial & same & ~wait.told & context.timeout.any()
                          & (now - wait.since >= context.timeout)):
                    m.d.comb += [
                        self.straggler.valid.eq(1),
                        wait_write.data.told.eq(self.straggler.ready),
                    ]
                self._order(m, order, entry, slot, group, settled)
                m.d.sync += order.repeat.eq(1)
                m.next = "Next"
                with m.If(overdue):
                    # Any child's slots can tell of it.
                    m.d.sync += pending.eq(children & -children)
                    m.next = "Repeated"
            with m.State("Repeated"):
                with m.If(ordered):
                    m.next = "Next"

            with m.State("Command"):
                m.d.comb += ends.eq(1)
                m.next = "Resume"
                with m.If(~in_range):
                    m.d.comb += self.status.eq(GroupStatus.BAD_GROUP)
                with m.Elif(command.operation == GroupOperation.START):
                    with m.If(runs):
                        m.d.comb += self.status.eq(GroupStatus.RUNNING)
                    with m.Else():
                        m.d.comb += [self.placed.eq(1), ends.eq(0)]
                        m.d.sync += settle_for.eq(self._settles)
                        m.next = "Settle"
                with m.Elif(~runs):
                    m.d.comb += self.status.eq(GroupStatus.STOPPED)
                with m.Elif(command.operation == GroupOperation.STOP):
                    m.d.sync += self.running.bit_select(group, 1).eq(0)
                with m.Elif(command.operation == GroupOperation.FLUSH):
                    m.d.comb += ends.eq(0)
                    m.d.sync += slot.eq(context.base | (command.offset & last))
                    m.next = "Flush look"
                with m.Else():
                    m.d.comb += self.status.eq(GroupStatus.UNKNOWN)

            with m.State("Settle"):
                m.d.sync += [settle_for.eq(settle_for - 1), slot.eq(context.base)]
                with m.If(settle_for == 0):
                    m.next = "Clear"
            with m.State("Clear"):
                # Settled for the offset two windows before its first one.
                m.d.comb += [
                    self.settle_valid.eq(1),
                    self.settle.offset.eq(at - last - 1),
                    self.settle.phase.eq(-1),
                    wait_write.en.eq(1),
                ]
                with m.If(self.settle_ready):
                    m.d.sync += [
                        order.turn.slot.eq(slot),
                        order.turn.group.eq(group),
                        order.turn.offset.eq(at),
                        order.turn.phase.eq(0),
                        order.previous.eq(at - last - 1),
                        order.clear.eq(1),
                        order.repeat.eq(0),
                        pending.eq(-1),
                    ]
                    m.next = "Cleared"
            with m.State("Cleared"):
                with m.If(ordered):
                    m.d.sync += [at.eq(at + 1), slot.eq(slot + 1)]
                    m.next = "Clear"
                    with m.If(at == last):
                        m.d.comb += ends.eq(1)
                        m.d.sync += self.running.bit_select(group, 1).eq(1)
                        m.next = "Resume"

            with m.State("Flush look"):
                m.d.comb += look.eq(1)
                m.next = "Flush"
            with m.State("Flush"):
                self._order(m, order, entry, slot, group, settled)
                with m.If(marked.any() & (children & missing).any() & (offset == command.offset)):
                    m.d.sync += pending.eq(children & missing)
                    m.next = "Ordered"
                with m.Else():
                    m.d.comb += ends.eq(1)
                    m.d.comb += self.status.eq(GroupStatus.BAD_OFFSET)
                    m.next = "Resume"
            with m.State("Ordered"):
                with m.If(ordered):
                    m.d.comb += ends.eq(1)
                    m.next = "Resume"

            with m.State("Abort"):
                # A result that cannot be sent again was one, and stays so.
                m.d.sync += [
                    order.turn.eq(failed.turn),
                    order.previous.eq(failed.turn.offset - last - 1),
                    order.clear.eq(1),
                    order.repeat.eq(0),
                ]
                m.next = "Aborted"
                with m.If(~runs | (failed.turn.life != entry.life)):
                    m.next = "Resume"
                with m.Elif(~failed.again):
                    m.d.sync += pending.eq(context.members)
            with m.State("Aborted"):
                m.d.comb += [
                    self.aborted.payload.group.eq(group),
                    self.aborted.payload.offset.eq(failed.turn.offset),
                    self.aborted.payload.cause.eq(failed.cause),
                ]
                with m.If(ordered):
                    m.d.comb += self.aborted.valid.eq(1)
                    m.next = "Resume"

            with m.State("Resume"):
                m.d.sync += [group.eq(round_group), at.eq(round_at)]
                m.next = "Next"
        return m

    @staticmethod
    def _order(m, order, entry, slot, group, settled):
        """An order on what a slot waits for."""
        m.d.sync += [
            order.turn.slot.eq(slot),
            order.turn.group.eq(group),
            order.turn.life.eq(entry.life),
            order.turn.offset.eq(settled.offset + entry.context.last + 1),
            order.turn.phase.eq(settled.phase + 1),
            order.previous.eq(settled.offset),
            order.clear.eq(0),
            order.repeat.eq(0),
        ]

    def _elaborate_start(self, m, group, entry, command):
        """What a group becomes that is started."""
        context = command.context
        m.d.comb += [
            self.entry.context.eq(context),
            self.entry.life.eq(entry.life + 1),
        ]
        # Narrower nodes come later.
        for node in self._nodes:
            outside = [port for port in range(self._config.ports) if port not in node.ports]
            with m.If(~Cat(context.members[port] for port in outside).any()):
                m.d.comb += self.entry.node.eq(node.number)
        for port, start in enumerate(self.places):
            m.d.comb += [
                start.member.eq(context.members[port]),
                start.answered.eq(~context.parent[port]),
                start.relay.eq(context.relays[port]),
                start.life.eq(entry.life + 1),
                start.start_psn.eq(command.start_psn[port]),
                start.base.eq(context.base),
                start.last.eq(context.last),
            ]
