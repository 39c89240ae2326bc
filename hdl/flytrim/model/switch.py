# SPDX-License-Identifier: Apache-2.0
"""Reference model of ``TrimSwitch``: what leaves for each frame that comes, in plain Python.

It knows no time: a frame's results leave before the next frame comes. What it says of bits holds
for any arrival order; what it says of which frames leave holds for the order it is given.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from ..verdict import Verdict
from .nic import NicModel
from .reduction import ELEMENT_BYTES, reduce_payloads
from .result import result_frame

__all__ = ["GroupRefused", "SwitchModel"]

_PSNS = 1 << 24
_CONGESTED = 3


class GroupRefused(Exception):
    """A command on a group that changed nothing; the message is the outcome's name."""


class _Packet(NamedTuple):
    """What a member contributed; ``partial``: it lacks what others have not contributed."""

    payload: bytes
    congested: bool
    partial: bool


class _Result(NamedTuple):
    payload: bytes
    congested: bool
    missing: int


@dataclass
class _Slot:
    """A packet of each child, and their result.

    A turn counts how often the slots have been gone through; those before the first one are the
    last ones, as they are behind a PSN that wraps.
    """

    marks: dict                 # by port, the turn of its last contribution
    finished: int               # the turn of the last result
    packets: dict = field(default_factory=dict)     # by port, of those that are not absent
    result: _Result | None = None   # the last one


@dataclass
class _Running:
    group: object
    starts: dict                # by port, the PSN of its first packet
    slots: list
    turns: int                  # how many there are until PSNs wrap

    def place(self, offset):
        """(slot, turn) of an offset."""
        turn, slot = divmod(offset % _PSNS, len(self.slots))
        return self.slots[slot], turn


class SwitchModel:
    """Does with frames and commands what a ``TrimSwitch`` does.

    Parameters
    ----------
    ports : int
        Ports; a result is made over all of them in their order, those that are no members absent.
    groups : int
        Groups that there can be.
    slot_bytes : int
        Longest payload that is reduced, and the distance of results in memory.
    max_frame : int
        Longest frame in bytes, without FCS.
    sum : str
        How numbers are added: ``tree``, ``fused`` or ``exact``.

    Attributes
    ----------
    port_counts, group_counts : list of collections.Counter
        By port ``contributions``, ``duplicates``, ``out_of_window``, ``bounds``, ``stopped`` (of a
        group that is not started, or that the port is no member of), ``replays``, ``results``, and
        the reasons of what was not trimmed; by group ``results``, ``aborted``, ``flushed``.
    """

    def __init__(self, ports, *, groups=16, slot_bytes=1024, max_frame=9216, sum="tree"):
        self._ports, self._groups, self._sum = ports, groups, sum
        self._slot_bytes, self._max_frame = slot_bytes, max_frame
        self._flows = [{} for _ in range(ports)]
        self._judges = [NicModel((), max_frame) for _ in range(ports)]
        self._routes = {}
        self._headers, self._running = {}, {}
        self.port_counts = [Counter() for _ in range(ports)]
        self.group_counts = [Counter() for _ in range(groups)]

    def insert_flow(self, port, group, flow):
        """Let ``flow``, a :class:`flytrim.model.Flow`, be the port's child of the group."""
        self._flows[port][group] = flow
        self._judges[port] = NicModel(self._flows[port].values(), self._max_frame)

    def forward(self, routes):
        """Let frames that are not trimmed leave by other ports, by the port they enter on."""
        self._routes = dict(routes)

    def set_template(self, port, group, header):
        """Let results of ``group`` leave ``port`` with a :class:`flytrim.model.Header`."""
        self._check(group)
        self._headers[port, group] = header

    def start_group(self, group, context):
        """Start a group as a :class:`flytrim.model.Group`: slots are clear, contributions count.

        Flows and headers of its members are not written here: see :meth:`configure`. Raises
        :class:`GroupRefused`, as :meth:`stop_group` and :meth:`flush` do.
        """
        self._check(group)
        if group in self._running:
            raise GroupRefused("running")
        slots = 2 * context.window
        last = _PSNS // slots - 1
        self._running[group] = _Running(
            context, {member.port: member.start_psn for member in context.members},
            [_Slot(dict.fromkeys((each.port for each in context.members), last), last)
             for _ in range(slots)], last + 1)

    def configure(self, groups, forward=()):
        """Set routes; write flows and headers of groups, numbered from 0, and start them."""
        self.forward(forward)
        for number, group in enumerate(groups):
            for member in group.members:
                self.insert_flow(member.port, number, member.flow)
                self.set_template(member.port, number, member.header)
            self.start_group(number, group)

    def stop_group(self, group):
        """Drop the group's contributions from now on."""
        self._started(group)
        del self._running[group]

    def flush(self, group, offset):
        """Count the children that are missing at ``offset`` as absent; the frames that leave."""
        running = self._started(group)
        slot, turn = running.place(offset)
        missing = [port for port in running.group.ports if slot.marks[port] != turn]
        if turn not in slot.marks.values() or not missing or slot.finished == turn:
            raise GroupRefused("bad_offset")
        slot.marks |= dict.fromkeys(missing, turn)
        return self._advance(group, running, offset % _PSNS)

    def repeat(self, group, offset):
        """What leaves when the parent has not answered in time: what it was sent, once more."""
        running = self._started(group)
        return self._climb(group, running, offset % _PSNS)

    def unanswered(self, group):
        """Offsets for which the parent alone is missing."""
        parent = self._started(group).group.parent
        return [offset for offset, missing in self.unfinished(group).items()
                if parent and missing == [parent.port]]

    def unfinished(self, group):
        """{offset: ports that are missing} of the slots that wait for children."""
        running = self._started(group)
        found = {}
        for number, slot in enumerate(running.slots):
            turns = {mark for mark in slot.marks.values()} - {slot.finished}
            for turn in turns:
                found[turn * len(running.slots) + number] = [
                    port for port, mark in slot.marks.items() if mark != turn]
        return found

    def finished(self, group, offset):
        """Whether the last result of the offset's slot is that of this offset."""
        slot, turn = self._started(group).place(offset)
        return slot.finished == turn and slot.result is not None

    def receive(self, port, frame, mac_error=False):
        """What leaves for a frame that enters by ``port``: a list of (port, frame)."""
        judged = self._judges[port].judge(frame, mac_error)
        counts = self.port_counts[port]
        if judged.verdict is not Verdict.TRIM:
            counts[str(judged.reason)] += 1
            to = self._routes.get(port)
            return [(to, judged.bypass)] if judged.bypass is not None and to is not None else []
        group = list(self._flows[port])[judged.flow]
        running = self._running.get(group)
        if running is None or port not in running.starts:
            counts["stopped"] += 1
            return []
        if judged.length > self._slot_bytes:
            counts["bounds"] += 1
            return []
        return self._contribute(group, running, port, judged)

    def _contribute(self, group, running, port, judged):
        counts = self.port_counts[port]
        offset = (judged.psn - running.starts[port]) % _PSNS
        slot, turn = running.place(offset)
        ahead = (turn - slot.finished) % running.turns
        if ahead == 0 or ahead >= running.turns // 2:
            counts["duplicates"] += 1
            if ahead or slot.result is None or port not in running.group.ports:
                return []
            # One of another length is no copy of what made the result.
            if port in running.group.sources and len(slot.result.payload) != judged.length:
                return []
            counts["replays"] += 1
            return [self._result(group, port, offset, slot)]
        if slot.marks[port] == turn:
            counts["duplicates"] += 1
            return []
        # A window before this offset all children must have contributed, as that proves that they
        # have what this slot held.
        before, turn_before = running.place(offset - running.group.window)
        if ahead > 1 or before.finished != turn_before:
            counts["out_of_window"] += 1
            return []
        counts["contributions"] += 1
        slot.marks[port] = turn
        slot.packets[port] = _Packet(judged.payload, judged.ecn == _CONGESTED,
                                     port in running.group.relays and bool(judged.immediate))
        return self._advance(group, running, offset)

    def _advance(self, group, running, offset):
        """A member has come; what that makes."""
        slot, turn = running.place(offset)
        parent = running.group.parent
        if any(slot.marks[port] != turn for port in running.group.ports):
            return []
        if parent and slot.marks[parent.port] != turn:
            return self._climb(group, running, offset)
        return self._complete(group, running, offset)

    def _climb(self, group, running, offset):
        """All children have come: to the parent, or none."""
        slot, _ = running.place(offset)
        context = running.group
        made = self._reduce(group, running, offset, context.sources, context.ports)
        if made is None:
            return []
        self.port_counts[context.parent.port]["results"] += 1
        return [self._frame(group, context.parent.port, offset, made)]

    def _complete(self, group, running, offset):
        """All members have come: a result to every child, or none."""
        slot, turn = running.place(offset)
        context = running.group
        counts, parent = self.group_counts[group], context.parent
        made = self._reduce(group, running, offset, *(
            ((parent.port,), slot.marks) if parent else (context.sources, context.ports)))
        if made is None:
            return []
        slot.finished, slot.result, slot.packets = turn, made, {}
        counts["results"] += 1
        counts["flushed"] += bool(made.missing)
        for port in context.ports:
            self.port_counts[port]["results"] += 1
        return [self._result(group, port, offset, slot) for port in context.ports]

    def _reduce(self, group, running, offset, sources, expected):
        """The :class:`_Result` of ``sources``; None where their lengths make none."""
        slot, turn = running.place(offset)
        context = running.group
        packets = {port: slot.packets[port] for port in sources if port in slot.packets}
        lengths = {len(packet.payload) for packet in packets.values()} or {0}
        if len(lengths) > 1 or max(lengths) % ELEMENT_BYTES[context.dtype]:
            self.group_counts[group]["aborted"] += 1
            slot.marks = dict.fromkeys(slot.marks, (turn - 1) % running.turns)
            slot.packets = {}
            return None
        payload = reduce_payloads(
            [packets[port].payload if port in packets else None for port in range(self._ports)],
            context.op, context.dtype, context.nan, self._sum) if packets else b""
        missing = sum(1 << port for port in expected
                      if port not in slot.packets or slot.packets[port].partial)
        return _Result(payload, any(packet.congested for packet in packets.values()), missing)

    def _result(self, group, port, offset, slot):
        context, result = self._running[group].group, slot.result
        if port not in context.receivers:
            result = result._replace(payload=b"")
        return self._frame(group, port, offset, result)

    def _frame(self, group, port, offset, result):
        return port, result_frame(
            self._headers[port, group], result.payload, offset, stride=self._slot_bytes,
            congested=result.congested, missing=result.missing)

    def _check(self, group):
        if not 0 <= group < self._groups:
            raise GroupRefused("bad_group")

    def _started(self, group):
        self._check(group)
        if group not in self._running:
            raise GroupRefused("stopped")
        return self._running[group]
