# SPDX-License-Identifier: Apache-2.0
"""Reference model of the reassembler: packets in; writes, completions and answers out.

Opcodes and syndromes are this file's own, taken from InfiniBand Architecture volume 1, chapter 9.
"""

import enum
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Answer", "AnswerKind", "Arrival", "Completed", "Fate", "Landed", "Landing",
           "ReassemblyModel"]

PSN = 1 << 24
#: Kind of message, and place in it, of each operation of RC and UC.
_KINDS = {**dict.fromkeys((*range(6), 22, 23), "send"), **dict.fromkeys(range(6, 12), "write"),
          **dict.fromkeys(range(13, 17), "read")}
_FIRST, _ONLY, _LAST = {0, 6, 13}, {4, 5, 10, 11, 16, 23}, {2, 3, 8, 9, 15, 22}
_RETH = {6, 10, 11}


class Fate(enum.IntEnum):
    """What became of a packet."""

    PLACED = 0
    DUPLICATE = 1
    OUT_OF_WINDOW = 2
    SEQUENCE = 3
    BOUNDS = 4
    DAMAGED = 5


class AnswerKind(enum.IntEnum):
    """What the sender is told; all but the report have the AETH syndrome in their value."""

    ACK = 0x1F
    NAK_SEQUENCE = 0x60
    NAK_INVALID = 0x61
    NAK_ACCESS = 0x62
    NAK_OPERATION = 0x63


class Answer(NamedTuple):
    """An answer before answers of a flow are merged; ``again`` for a duplicate.

    ``bitmap`` is None in order, else bit n says whether the packet n behind the first missing one,
    which follows ``psn``, has come.
    """

    kind: AnswerKind
    psn: int
    msn: int
    again: bool = False
    bitmap: int | None = None


class Completed(NamedTuple):
    """A message that has ended; one that was abandoned tells its number alone."""

    flow: int
    message: int
    bytes: int
    opcode: int
    immediate: int
    failed: bool
    abandoned: bool


class Arrival(NamedTuple):
    """A packet with what its metadata record says of it."""

    flow: int
    opcode: int
    psn: int
    payload: bytes = b""
    address: int = 0
    immediate: int = 0
    ack_request: bool = False
    good: bool = True


class Landed(NamedTuple):
    """What a packet did; ``write`` is (address, bytes) or None."""

    fate: Fate
    write: tuple | None = None
    completions: tuple = ()
    answer: Answer | None = None
    gap: bool = False


@dataclass(frozen=True, kw_only=True)
class Landing:
    """How the messages of a flow land in memory.

    Parameters
    ----------
    base, bytes : int
        The buffer.
    address : int
        The sender's view of ``base``: RETH addresses count from it.
    order : str
        ``in_order`` or ``multipath``.
    start_psn : int
        PSN of the first packet.
    stride : int
        A SEND or READ message begins so many bytes behind the one before, at ``base`` again where
        a whole stride does not fit any more. 0: it begins where the one before ended.
    responses : bool
        The flow carries READ responses, and no requests.
    path_mtu, message_bytes, window : int
        Of ``multipath``: payload of all packets of a message but the last, bytes of a message,
        packets that may come ahead of the first missing one. A message goes where its number says,
        whatever its opcode; the buffer holds those that a window reaches.

    Raises ``ValueError`` where it does not.
    """

    base: int
    bytes: int
    address: int = 0
    order: str = "in_order"
    start_psn: int = 0
    stride: int = 0
    responses: bool = False
    path_mtu: int = 1024
    message_bytes: int = 0
    window: int = 64

    def __post_init__(self):
        if self.order == "multipath" and self.places * self.packets < self.window + self.packets:
            raise ValueError(f"multipath: {self.bytes} bytes hold {self.places} messages of "
                             f"{self.message_bytes}, fewer than a window reaches")

    @property
    def step(self):
        """Bytes from one message to the next, in ``multipath``."""
        return self.stride or self.message_bytes

    @property
    def places(self):
        """Messages that the buffer holds, in ``multipath``."""
        if self.step < self.message_bytes:
            return 0
        return self.bytes // self.step if self.step else PSN

    @property
    def packets(self):
        """Packets of a message, in ``multipath``."""
        return max(1, -(-self.message_bytes // self.path_mtu))


class ReassemblyModel:
    """What becomes of packets, in the order in which they come; flows by number."""

    def __init__(self, landings=()):
        self._flows = {}
        for flow, landing in dict(landings).items():
            self.start(flow, landing)

    def start(self, flow, landing):
        """A flow begins anew; of what it had begun nothing is told any more."""
        make = {"in_order": _InOrder, "multipath": _Multipath}[landing.order]
        self._flows[flow] = make(flow, landing)

    def stop(self, flow):
        """Packets of a flow that is stopped are dropped."""
        self._flows.pop(flow, None)

    def packet(self, arrival, fails=lambda address, data: False):
        """The :class:`Landed` of the next packet; memory refuses a write of which ``fails``."""
        state = self._flows.get(arrival.flow)
        if not arrival.good:
            return Landed(Fate.DAMAGED)
        if state is None:
            return Landed(Fate.SEQUENCE)
        if (_KINDS.get(arrival.opcode & 31) == "read") != state.landing.responses:
            return Landed(Fate.SEQUENCE)
        return state.packet(arrival, fails)


def _acknowledged(arrival):
    """Whether the packet is a request of RC, which are the ones that are answered."""
    return arrival.opcode < 32 and _KINDS[arrival.opcode] != "read"


class _InOrder:
    def __init__(self, flow, landing):
        self.flow, self.landing = flow, landing
        self.expected, self.messages = landing.start_psn, 0
        self.home = self.place = self.bytes = 0
        self.inside = self.failed = self.told = False
        self.family = None

    def packet(self, arrival, fails):
        reliable, answers = arrival.opcode < 32, _acknowledged(arrival)
        distance = (arrival.psn - self.expected) % PSN
        if distance >= PSN // 2:
            again = self._answer(AnswerKind.ACK, -1, again=True) if answers else None
            return Landed(Fate.DUPLICATE, answer=again)
        if distance and reliable:
            gap, self.told = not self.told, True
            nak = self._answer(AnswerKind.NAK_SEQUENCE) if gap and answers else None
            return Landed(Fate.OUT_OF_WINDOW, answer=nak, gap=gap)
        self.expected = arrival.psn
        abandoned = self._abandon() if distance else ()
        return self._due(arrival, reliable, answers, fails, bool(distance), abandoned)

    def _due(self, arrival, reliable, answers, fails, gap, abandoned):
        """The packet whose turn it is; in UC and UD that is any."""
        op = arrival.opcode & 31
        starts, ends = op in _FIRST | _ONLY, op in _LAST | _ONLY
        family = arrival.opcode >> 5, _KINDS[op]
        goes_on = self.inside and (not starts or family[1] == "read")
        fate, nak = Fate.PLACED, None
        if goes_on and family != self.family or not goes_on and not starts:
            fate, nak = Fate.SEQUENCE, AnswerKind.NAK_INVALID
        elif self.inside and not goes_on:
            if reliable:
                fate, nak = Fate.SEQUENCE, AnswerKind.NAK_INVALID
            else:
                abandoned += self._abandon()
        length = len(arrival.payload)
        offset = (self.place if goes_on else arrival.address - self.landing.address
                  if op in _RETH else self.home)
        if fate is Fate.PLACED and not 0 <= offset <= self.landing.bytes - length and (
                length or op not in _RETH & _ONLY):
            fate, nak = Fate.BOUNDS, AnswerKind.NAK_ACCESS
        if fate is not Fate.PLACED:
            if reliable:
                self.told = True
                return Landed(fate, answer=self._answer(nak) if answers else None)
            self.expected = (self.expected + 1) % PSN
            return Landed(fate, completions=abandoned + self._abandon(), gap=gap)

        self.expected, self.told = (self.expected + 1) % PSN, False
        write = (self.landing.base + offset, arrival.payload) if length else None
        if not goes_on:
            self.inside, self.family, self.bytes, self.failed = True, family, 0, False
        self.bytes += length
        self.place = offset + length
        failed = bool(write) and fails(*write)
        self.failed |= failed
        completions = abandoned
        if ends:
            completions += self._end(arrival.opcode, arrival.immediate, family[1])
        answer = None
        if answers and failed:
            answer = self._answer(AnswerKind.NAK_OPERATION, -1)
        elif answers and arrival.ack_request:
            answer = self._answer(AnswerKind.ACK, -1)
        return Landed(fate, write, completions, answer, gap)

    def _end(self, opcode, immediate, kind):
        self.inside = False
        if kind != "write":
            stride = self.landing.stride
            self.home = self.home + stride if stride else self.place
            if stride and self.home + stride > self.landing.bytes:
                self.home = 0
        return (Completed(self.flow, self._number(), self.bytes, opcode, immediate, self.failed,
                          False),)

    def _abandon(self):
        """The message that had begun ends unfinished, if there is one."""
        if not self.inside:
            return ()
        self.inside = False
        return (Completed(self.flow, self._number(), 0, 0, 0, False, True),)

    def _number(self):
        number, self.messages = self.messages, (self.messages + 1) % PSN
        return number

    def _answer(self, kind, step=0, **more):
        return Answer(kind, (self.expected + step) % PSN, self.messages, **more)


class _Multipath:
    def __init__(self, flow, landing):
        self.flow, self.landing = flow, landing
        # Packets are counted from the first one on, without end.
        self.missing, self.told = 0, 0
        self.marks, self.failed, self.tails = set(), set(), {}

    def packet(self, arrival, fails):
        landing = self.landing
        ahead = (arrival.psn - landing.start_psn - self.missing) % PSN
        number = self.missing + ahead
        if ahead >= PSN // 2 or number in self.marks:
            return Landed(Fate.DUPLICATE, answer=self._report(arrival, True))
        if ahead >= landing.window:
            return Landed(Fate.OUT_OF_WINDOW)
        message, packet = divmod(number, landing.packets)
        starts, ends = packet == 0, packet == landing.packets - 1
        length = landing.message_bytes - packet * landing.path_mtu if ends else landing.path_mtu
        op = arrival.opcode & 31
        if (op in _FIRST | _ONLY, op in _LAST | _ONLY, len(arrival.payload)) != (
                starts, ends, length):
            return Landed(Fate.SEQUENCE)

        home = message % landing.places * landing.step
        offset = home + packet * landing.path_mtu
        fits = offset + length <= landing.bytes and not (
            op in _RETH and length and arrival.address != landing.address + offset)
        write = (landing.base + offset, arrival.payload) if length and fits else None
        if not fits or write and fails(*write):
            self.failed.add(message)
        if ends:
            self.tails[message] = arrival.opcode, arrival.immediate
        self.marks.add(number)
        while self.missing in self.marks:
            self.marks.remove(self.missing)
            self.missing += 1
        completions = []
        while self.told < self.missing // landing.packets:
            opcode, immediate = self.tails.pop(self.told)
            completions.append(Completed(
                self.flow, self.told % PSN, landing.message_bytes, opcode, immediate,
                self.told in self.failed, False))
            self.told += 1
        return Landed(Fate.PLACED if fits else Fate.BOUNDS, write, tuple(completions),
                      self._report(arrival, False))

    def _report(self, arrival, again):
        if not _acknowledged(arrival) or not (again or arrival.ack_request):
            return None
        bitmap = sum(1 << number - self.missing for number in self.marks)
        return Answer(AnswerKind.ACK, (self.landing.start_psn + self.missing - 1) % PSN,
                      self.missing // self.landing.packets % PSN, again, bitmap)
