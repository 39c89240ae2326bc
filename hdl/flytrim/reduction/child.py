# SPDX-License-Identifier: Apache-2.0
"""Structs that the parts of a reduction hand to each other."""

from amaranth.lib import data

from ..group import GROUP_BITS, MISSING_BITS, OFFSET_BITS, SLOT_BITS, GroupContext

__all__ = ["LENGTH_BITS", "LIFE_BITS", "PHASE_BITS", "Arrival", "ChildPlace", "ChildRecord",
           "GroupEntry", "Job", "Order", "Result", "Settled", "Step", "Turn"]

#: Bits of the bytes of a payload.
LENGTH_BITS = 14
#: Bits of :attr:`Turn.phase` and :attr:`Turn.life`.
PHASE_BITS, LIFE_BITS = 2, 4


class Turn(data.Struct):
    """A slot, and which of the offsets that share it, two windows apart, is meant.

    ``phase`` counts these, modulo 4. ``life`` counts the starts of the group, modulo 16: what still
    waits of an earlier one is nothing any more.
    """

    group: GROUP_BITS
    life: LIFE_BITS
    slot: SLOT_BITS
    offset: OFFSET_BITS
    phase: PHASE_BITS


class ChildPlace(data.Struct):
    """Where a group's packets of one child belong: its first PSN, and the group's slots.

    ``member`` is clear where the port has no member of the group. A child is ``answered``: asks for
    results again with copies of its packets; a parent does not. ``relay`` as in
    :class:`~flytrim.group.GroupContext`.
    """

    member: 1
    answered: 1
    relay: 1
    life: LIFE_BITS
    start_psn: OFFSET_BITS
    base: SLOT_BITS
    last: SLOT_BITS


class ChildRecord(data.Struct):
    """What is known of a contribution beside its payload.

    ``absent``: there is none. ``partial``: it lacks what others have not contributed.
    """

    length: LENGTH_BITS
    ce: 1
    absent: 1
    partial: 1


class GroupEntry(data.Struct):
    """A group as it runs; ``node`` is that output of the tree which is nearest to its members."""

    context: GroupContext
    life: LIFE_BITS
    node: 3


class Arrival(data.Struct):
    """A mark that a port sets on a slot, or what it asks for once more.

    ``counts`` says that it is a contribution, or stands for one, and not one taken back.
    ``repeats`` asks for what went to the parent, and not for a result. ``length`` is that of the
    payload; a whole slot's where there is none.
    """

    turn: Turn
    counts: 1
    repeats: 1
    length: LENGTH_BITS


class Order(data.Struct):
    """Sets the mark of a slot without a packet, if the slot waits for ``turn``.

    That is when it was settled for ``previous``, two windows before. With ``clear`` the child has
    not contributed, even if it had; without, it is taken to have, but for the payload. With
    ``repeat`` a mark that is set stays, and what the children have goes to the parent again.
    """

    turn: Turn
    previous: OFFSET_BITS
    clear: 1
    repeat: 1


class Job(data.Struct):
    """A slot that is to be reduced, or with ``again`` one whose result is to be sent again.

    ``up`` makes what the parent gets, for the first time or ``again``; ``down`` makes a result of
    what the parent gave. ``ports`` are those that get it: the parent, the children, or a child that
    asked for it. ``length`` tells how many beats it takes; it is that of one contribution, or as
    ``unsized`` says a whole slot's, since that contribution need not be as long as the result.
    """

    turn: Turn
    node: 3
    again: 1
    up: 1
    down: 1
    unsized: 1
    ports: MISSING_BITS
    length: LENGTH_BITS


class Result(data.Struct):
    """What is known of a result beside its payload.

    ``missing`` are the ports that gave none, or not of all behind them; ``again`` says that it was
    sent before. Ports that are no ``receivers`` get it without its payload. ``life`` is that of
    :class:`Turn`.
    """

    group: GROUP_BITS
    life: LIFE_BITS
    offset: OFFSET_BITS
    length: LENGTH_BITS
    ce: 1
    missing: MISSING_BITS
    receivers: MISSING_BITS
    again: 1


class Settled(data.Struct):
    """The offset whose result a slot has had last, and its phase."""

    offset: OFFSET_BITS
    phase: PHASE_BITS


class Step(data.StructLayout):
    """A beat of a job, at one block of ports: which, and whether it is the first or the last.

    ``leads`` is set in the first of the blocks that the job takes.
    """

    def __init__(self, config):
        super().__init__({"job": Job, "index": range(config.slot_beats), "first": 1, "last": 1,
                          "leads": 1})
