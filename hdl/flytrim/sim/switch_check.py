# SPDX-License-Identifier: Apache-2.0
"""Holds what left a switch against its model, as far as the model, which knows no time, can tell.

A contribution counts where the offset a window before it is finished, and a copy is answered where
its own offset is. What of frames of different ports is first is a matter of cycles. So a result
must leave where its offset is in the first window, or where all contributions to it began when a
result of the offset a window before had been seen to leave. Any other may leave; what may leave
must be what the model says, and no more often than its port contributed.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model import Flow, NicModel, SwitchModel
from ..verdict import Verdict
from .compare import Difference

__all__ = ["Arrival", "SwitchCheck"]

_PSNS = 1 << 24


class Arrival(NamedTuple):
    """A frame that enters a port, the ``index``-th there, and the cycle of its first beat."""

    port: int
    index: int
    cycle: int
    frame: bytes


class _Left(NamedTuple):
    """A frame that leaves a port."""

    port: int
    frame: bytes
    error: bool = False


@dataclass
class _Slot:
    """What comes for an offset of a group: by port, (cycle, payload, ECN) of each packet."""

    packets: dict = field(default_factory=lambda: defaultdict(list))
    #: What leaves, if something does, by port.
    results: dict = field(default_factory=dict)
    #: The cycle in which a result was first seen to leave.
    seen: int | None = None

    @property
    def start(self):
        return min(packet[0] for own in self.packets.values() for packet in own)

    @property
    def changed(self):
        """Whether a port's packets differ: so the result's bits depend on which of them counts."""
        return any(len({packet[1:] for packet in own}) > 1 for own in self.packets.values())


class SwitchCheck:
    """What may leave a switch, and whether it did.

    Parameters
    ----------
    setup : flytrim.groups.SwitchFile
    arrivals : iterable of Arrival
        All frames that enter, those of a port in order.

    Attributes
    ----------
    reduced : list of Counter
        By port, ``frames`` that are trimmed, and ``bounds``: those of them longer than a slot.
    """

    def __init__(self, setup, arrivals):
        config = setup.config
        self._groups = setup.groups
        self._model = SwitchModel(config.ports, groups=config.groups, sum=config.sum,
                                  slot_bytes=config.slot_bytes, max_frame=config.max_frame)
        self._model.configure(setup.groups, setup.forward)
        self.reduced = [Counter() for _ in range(config.ports)]
        self._forwarded, self._slots = Counter(), defaultdict(_Slot)
        contributions = self._sort(config, arrivals)
        # By rising offset no window is in the way of what can be reduced at all.
        for (number, offset), port, frame in sorted(contributions, key=lambda each: each[:2]):
            self._slots[number, offset].results |= self._model.receive(port, frame)

    def _sort(self, config, arrivals):
        """Put frames to their slots or to where they leave; (slot, port, frame) of the former."""
        children = [[(number, child) for number, group in enumerate(self._groups)
                     for child in group.children if child.port == port]
                    for port in range(config.ports)]
        judges = [NicModel([child.flow for _, child in own], config.max_frame) for own in children]
        contributions = []
        for port, _, cycle, frame in arrivals:
            judged = judges[port].judge(frame)
            if judged.verdict is not Verdict.TRIM:
                self._forwarded.update(_Left(to, left, judged.error)
                                       for to, left in self._model.receive(port, frame))
                continue
            self.reduced[port]["frames"] += 1
            if judged.length > config.slot_bytes:
                self.reduced[port]["bounds"] += 1
                continue
            number, child = children[port][judged.flow]
            key = number, (judged.psn - child.start_psn) % _PSNS
            self._slots[key].packets[port].append((cycle, judged.payload, judged.ecn))
            contributions.append((key, port, frame))
        return contributions

    def compare(self, frames, overflows):
        """Hold the frames that left against what may.

        Parameters
        ----------
        frames : list of flytrim.sim.fabric.Left
        overflows : int
            Frames to be forwarded that the switch says there was no room for.

        Returns a dict of frames that left: ``forwarded``; ``results`` that had to leave;
        ``results_by_order`` that had not to, with the right bits; ``results_unchecked`` whose bits
        depend on the order, too. And ``no_room``: frames that were to be forwarded and did not
        leave. Raises :class:`Difference`.
        """
        found = Counter(_Left(left.port, left.frame, left.error) for left in frames)
        first = {}
        for left in frames:
            first.setdefault(_Left(left.port, left.frame), left.first)
        for slot in self._slots.values():
            slot.seen = min((first[key] for key in map(_left, slot.results.items())
                             if key in first), default=None)
        figures = Counter(forwarded=0, no_room=0, results=0, results_by_order=0,
                          results_unchecked=0)
        for key, count in self._forwarded.items():
            figures["forwarded"] += _take(found, key, min(count, found[key]))
        figures["no_room"] = self._forwarded.total() - figures["forwarded"]
        if figures["no_room"] != overflows:
            raise Difference(None, "frames to be forwarded that did not leave",
                             f"{overflows}, as the counters of overflow say", figures["no_room"])
        for key, slot in sorted(self._slots.items()):
            if slot.changed:
                figures["results_unchecked"] += self._take_any(found, *key)
            else:
                self._take_results(found, *key, slot, figures)
        for left in found:
            raise Difference(None, f"port {left.port}", "no such frame to leave", left.frame.hex())
        return dict(figures)

    def _take_results(self, found, number, offset, slot, figures):
        """Results whose bits are known."""
        counts = {left: found[left] for left in map(_left, slot.results.items())}
        must = self._must_leave(number, offset, slot) or any(counts.values())
        for left, count in counts.items():
            most = len(slot.packets[left.port])
            if not must <= count <= most:
                raise Difference(
                    None, f'group "{self._groups[number].name}", offset {offset}, port {left.port}',
                    f"result {left.frame.hex()} {'1 to ' if most > 1 else ''}{most} times",
                    f"it {count} times")
            _take(found, left, count)
        sure = len(counts) if self._must_leave(number, offset, slot) else 0
        figures["results"] += sure
        figures["results_by_order"] += sum(counts.values()) - sure

    def _must_leave(self, number, offset, slot):
        """Whether the contributions count, whatever the order of frames."""
        window = self._groups[number].window
        if offset < window:
            return True
        before = self._slots.get((number, offset - window))
        return before is not None and before.seen is not None and slot.start > before.seen

    def _take_any(self, found, number, offset):
        """Results of an offset whatever their bits, told by their PSN; how many."""
        count = 0
        for child in self._groups[number].children:
            header = child.header
            judge = NicModel([Flow("result", header.src, header.dst, header.dqpn,
                                   header.udp_dport)])
            psn = (header.psn + offset) % _PSNS
            for left in [left for left in found if left.port == child.port]:
                if judge.judge(left.frame).psn == psn:
                    count += _take(found, left, found[left])
        return count


def _left(result):
    port, frame = result
    return _Left(port, frame)


def _take(found, left, count):
    """Remove so many of those that are not accounted for yet; ``count``."""
    found[left] -= count
    if not found[left]:
        del found[left]
    return count
