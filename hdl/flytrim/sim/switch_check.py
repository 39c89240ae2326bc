# SPDX-License-Identifier: Apache-2.0
"""Holds what left a switch against its model, as far as the model, which knows no time, can tell.

Every frame is forwarded as it must be, or lacked room. Of results, the contributions to an offset
decide: they count where the offset a window before is finished. So a result

* may leave where its offset is in the first window, or that of the offset a window before has left;
* must leave where each child sent its contribution in the first window, or behind that;
* has the bits that the model makes of the contributions that count; of copies that differ, which
  one counts is told by when it came, or any of them may;
* leaves every child's port once, and again at most as often as that child sent copies; it may be
  marked bad then, where the next result of its slot takes its place meanwhile.

What left beyond that is a difference, as is what did not leave that must.
"""

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model import NicModel
from ..verdict import Verdict
from .compare import Difference
from .departures import Departures
from .forwarded import Forwarded
from .result_maker import PSNS, ResultMaker

__all__ = ["Agreed", "Arrival", "SwitchCheck"]

_CONGESTED = 3
#: Choices of copies that are tried.
_CHOICES = 64
#: Copies of a port that are never too many to be answered, whenever they come.
_ANSWERED = 8


class Arrival(NamedTuple):
    """A frame that enters a port, the ``index``-th there, and the cycle of its first beat."""

    port: int
    index: int
    cycle: int
    frame: bytes


class _Packet(NamedTuple):
    """A contribution, and what the result depends on of it."""

    cycle: int
    frame: bytes
    bits: tuple


@dataclass
class _Slot:
    """What comes for an offset of a group, by port, and the cycle in which its result had left."""

    packets: dict = field(default_factory=lambda: defaultdict(list))
    finished: int | None = None

    @property
    def whole(self):
        """The first cycle in which every child had begun to contribute."""
        return max(own[0].cycle for own in self.packets.values())

    @property
    def steady(self):
        """Whether lengths cannot make it fail: so what comes first counts for good."""
        return len({len(packet.bits[0]) for own in self.packets.values() for packet in own}) == 1

    def counting(self, opened, closed):
        """By port the packets that may count, where the offset a window before was finished.

        That was behind the cycle ``opened``, and in the cycle ``closed`` at the latest.
        """
        found = {}
        for port, own in sorted(self.packets.items()):
            late = [packet for packet in own if packet.cycle >= opened]
            sure = [n for n, packet in enumerate(late, 1) if packet.cycle > closed]
            found[port] = late[:sure[0]] if sure and self.steady else late
        return found


@dataclass
class Agreed:
    """What left, all of it as it must.

    ``forwarded`` frames, and ``no_room``, those that were to be forwarded and lacked room. By port,
    ``results``. ``finished`` is the slots of each group that made a result. Of the results
    ``certain`` had to leave; ``by_order`` depend on the order of frames, but not their bits; the
    bits of ``unchecked`` do, too; ``spoilt`` were overwritten while they were sent again, and are
    marked bad. ``latency`` has the cycles from the last beat of the last
    contribution to the first beat of the result, by group, where nothing came twice.
    """

    forwarded: int = 0
    no_room: int = 0
    results: Counter = field(default_factory=Counter)
    finished: Counter = field(default_factory=Counter)
    certain: int = 0
    by_order: int = 0
    unchecked: int = 0
    spoilt: int = 0
    latency: dict = field(default_factory=lambda: defaultdict(list))


class SwitchCheck:
    """What may leave a switch, and whether it did.

    Parameters
    ----------
    setup : flytrim.groups.SwitchFile
    arrivals : iterable of Arrival
        All frames that enter, those of a port in order.

    Attributes
    ----------
    reasons : list of Counter
        By port, frames by the reason that the model gives.
    bounds : list of int
        By port, packets of children that are longer than a slot.
    """

    def __init__(self, setup, arrivals):
        config = self._config = setup.config
        self._groups, self._maker = setup.groups, ResultMaker(setup)
        ports = range(config.ports)
        self.reasons, self.bounds = [Counter() for _ in ports], [0] * config.ports
        self._forwarded = Forwarded(config, setup.forward)
        self._slots = defaultdict(_Slot)
        self._children = [[(number, child) for number, group in enumerate(setup.groups)
                           for child in group.children if child.port == port] for port in ports]
        self._copies = Counter()
        judges = [NicModel([child.flow for _, child in own], config.max_frame)
                  for own in self._children]
        for arrival in arrivals:
            self._sort(arrival, judges[arrival.port].judge(arrival.frame))

    def _sort(self, arrival, judged):
        port, _, cycle, frame = arrival
        self.reasons[port][judged.reason] += 1
        self._forwarded.add(arrival, judged)
        if judged.verdict is not Verdict.TRIM:
            return
        if judged.length > self._config.slot_bytes:
            self.bounds[port] += 1
            return
        number, child = self._children[port][judged.flow]
        slot = self._slots[number, (judged.psn - child.start_psn) % PSNS]
        self._copies[port] += port in slot.packets
        slot.packets[port].append(
            _Packet(cycle, frame, (judged.payload, judged.ecn == _CONGESTED)))

    def compare(self, frames):
        """Hold the frames that left against what may: :class:`Agreed`, or :class:`Difference`.

        Parameters
        ----------
        frames : list of flytrim.sim.fabric.Left
        """
        departures, agreed = Departures(frames), Agreed()
        self._forwarded.take(departures)
        agreed.forwarded, agreed.no_room = self._forwarded.left, self._forwarded.lacking
        # By rising offset: of the one a window before it is known then whether it was finished.
        for (number, offset), slot in sorted(self._slots.items()):
            if set(slot.packets) == set(self._groups[number].ports):
                self._take_results(departures, agreed, number, offset, slot)
        for leaving in departures.rest():
            raise Difference(None, f"port {leaving.port}", "no such frame to leave",
                             leaving.frame.hex())
        return agreed

    def _take_results(self, departures, agreed, number, offset, slot):
        """Results of an offset that every child contributed to."""
        opened = closed = -1
        if offset >= (window := self._groups[number].window):
            before = self._slots.get((number, offset - window))
            if before is None or before.finished is None:
                return
            opened, closed = before.whole, before.finished
        counting = slot.counting(opened, closed)
        choices = [dict(zip(counting, each, strict=True)) for each in itertools.islice(
            itertools.product(*({packet.bits: packet.frame for packet in own}.values()
                                for own in counting.values())), _CHOICES + 1)]
        if len(choices) > _CHOICES:
            self._take_any(departures, agreed, number, offset, slot)
            return
        made = [self._maker.make(number, offset, choice) for choice in choices]
        certain = bool(choices) and all(made) and all(
            own[-1].cycle > closed for own in slot.packets.values())
        left = next((each for each in made if any(map(departures.count, each))), None)
        if left is None and not certain:
            return
        left = left or made[0]
        times = {leaving: departures.take_all(leaving) for leaving in left}
        slot.finished = min((last for each in times.values() for _, last in each), default=None)
        for leaving, each in times.items():
            spoilt = self._take_spoilt(departures, number, offset, leaving.port)
            self._check_count(number, offset, leaving, len(each), len(spoilt))
            agreed.results[leaving.port] += len(each) + len(spoilt)
            agreed.certain += certain
            agreed.by_order += len(each) - certain
            agreed.spoilt += len(spoilt)
        agreed.finished[number] += 1
        if all(len(own) == 1 for own in slot.packets.values()):
            agreed.latency[number].append(min(each[0][0] for each in times.values()) - max(
                packet.cycle + self._beats(packet.frame) - 1
                for own in slot.packets.values() for packet in own))

    def _check_count(self, number, offset, leaving, whole, spoilt):
        """A result leaves once, and again for each copy that comes behind it and is answered."""
        slot = self._slots[number, offset]
        own = slot.packets[leaving.port]
        least, most = 1, len(own) - spoilt
        if (slot.finished is not None and slot.steady and not self._overwritten(number, offset)
                and self._copies[leaving.port] <= _ANSWERED):
            least += sum(packet.cycle > slot.finished for packet in own)
        if not least <= whole <= most:
            times = f"{least} to {most}" if least < most else most
            raise Difference(
                None, f'group "{self._groups[number].name}", offset {offset}, port {leaving.port}',
                f"the result {leaving.frame.hex()} {times} times", f"it {whole} times")

    def _overwritten(self, number, offset):
        """Whether all children contribute what takes the place of this offset's result."""
        after = self._slots.get((number, offset + 2 * self._groups[number].window))
        return after is not None and set(after.packets) == set(self._groups[number].ports)

    def _take_spoilt(self, departures, number, offset, port):
        """Results that were overwritten while they were sent again: marked bad, of any bits."""
        if len(self._slots[number, offset].packets[port]) < 2 or not self._overwritten(
                number, offset):
            return []
        marked = [leaving for leaving in departures.rest() if leaving.error]
        return [time for leaving in self._maker.told(number, offset, port, marked)
                for time in departures.take_all(leaving)]

    def _take_any(self, departures, agreed, number, offset, slot):
        """Results of an offset whatever their bits, told by their headers."""
        times = []
        for port in self._groups[number].ports:
            own = [time for leaving in self._maker.told(number, offset, port, departures.rest())
                   for time in departures.take_all(leaving)]
            agreed.unchecked += len(own)
            agreed.results[port] += len(own)
            times += own
        slot.finished = min((last for _, last in times), default=None)
        agreed.finished[number] += bool(times)

    def _beats(self, frame):
        return -(-len(frame) // self._config.lanes)
