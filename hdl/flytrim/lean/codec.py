# SPDX-License-Identifier: Apache-2.0
"""Containers in plain Python: packets to containers and back."""

import dataclasses
from collections import Counter

from ..headers import OPCODES
from . import container as c

__all__ = ["Container", "Decoder", "Encoder", "LeanError", "LeanFlow", "Record", "Route", "carried",
           "carry", "decode", "encode"]

_BITS = ("solicited", "ack_request", "ecn", "migreq", "pad_count")


class LeanError(ValueError):
    """Bytes that are no acceptable container; ``fault`` is the :class:`Fault`."""

    def __init__(self, fault, message):
        super().__init__(message)
        self.fault = fault


@dataclasses.dataclass(frozen=True)
class Route:
    """Where a lean switch takes a container: device numbers, and switches that it may pass."""

    source: int
    destination: int
    hop_limit: int = 255


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """One packet: payload, what of the BTH is kept, and its extension headers as received."""

    psn: int
    opcode: int
    payload: bytes
    solicited: int = 0
    ack_request: int = 0
    ecn: int = 0
    migreq: int = 0
    pad_count: int = 0
    extensions: bytes = b""

    @property
    def bits(self):
        return _bits(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeanFlow:
    """What both ends know of a flow: the number it has in tags, and its packets' template.

    A packet of this opcode, these bits and ``message_bytes`` of payload makes a bare record;
    ``message_bytes`` 0 makes none.
    """

    lean_id: int
    opcode: int = 0x24
    message_bytes: int = 0
    solicited: int = 0
    ack_request: int = 0
    ecn: int = 0
    migreq: int = 0
    pad_count: int = 0
    route: Route | None = None

    @property
    def bits(self):
        return _bits(self)

    def is_bare(self, record):
        """Whether the template says all of a record but its payload."""
        return (len(record.payload) == self.message_bytes > 0 and record.opcode == self.opcode
                and not record.extensions and record.bits == self.bits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Container:
    """A container's fields; ``psn`` is that of its first record, the others follow on."""

    flow: int
    psn: int
    sequence: int
    full: bool
    records: tuple
    route: Route | None = None


def encode(container, *, minimum=0):
    """The bytes of a :class:`Container`, filled up to ``minimum`` before the trailer."""
    flags = c.Flag.FULL * container.full | c.Flag.ROUTE * (container.route is not None)
    head = _pack(c.TAG, version=c.VERSION, flags=flags, flow=container.flow, psn=container.psn,
                 sequence=container.sequence)
    if container.route:
        head += _pack(c.ROUTE, **dataclasses.asdict(container.route))
    body = b"".join(_record_bytes(record, container.full) for record in container.records)
    fill = bytes(max(0, minimum - len(head) - len(body) - c.TRAILER.size))
    counts = _pack(c.TRAILER, records=len(container.records), bytes=len(body))[:-4]
    covered = head + body + fill + counts
    return covered + c.CRC32C.of(_fixed(covered)).to_bytes(4, "little")


def decode(data, flows):
    """The :class:`Container` that bytes hold.

    Parameters
    ----------
    data : bytes
    flows : {int: LeanFlow}
        By the number in the tag.

    Raises :class:`LeanError`.
    """
    if len(data) < c.TAG.size + c.TRAILER.size or len(data) % c.WORD:
        raise LeanError(c.Fault.DAMAGED, f"{len(data)} bytes are no container")
    crc = int.from_bytes(data[-4:], "little")
    if c.CRC32C.of(_fixed(data[:-4])) != crc:
        raise LeanError(c.Fault.DAMAGED, "the CRC is wrong")
    tag, trailer = _unpack(c.TAG, data), _unpack(c.TRAILER, data[-c.TRAILER.size:])
    flow, flags = flows.get(tag["flow"]), tag["flags"]
    if tag["version"] != c.VERSION or flags >= 1 << len(c.Flag) or flow is None:
        raise LeanError(c.Fault.UNKNOWN, "version, flags or flow are not known here")
    start, route = c.TAG.size, None
    if flags & c.Flag.ROUTE:
        route = Route(**_unpack(c.ROUTE, data[start:]))
        start += c.ROUTE.size
    if start + trailer["bytes"] + c.TRAILER.size > len(data) or trailer["bytes"] % c.WORD:
        raise LeanError(c.Fault.MALFORMED, f"{trailer['bytes']} bytes of records do not fit")
    body = data[start:start + trailer["bytes"]]
    full = bool(flags & c.Flag.FULL)
    records = tuple((_full_records if full else _bare_records)(body, tag["psn"], flow))
    if len(records) != trailer["records"] or not records:
        raise LeanError(c.Fault.MALFORMED,
                        f"{len(records)} records where {trailer['records']} are announced")
    return Container(flow=tag["flow"], psn=tag["psn"], sequence=tag["sequence"], full=full,
                     records=records, route=route)


def carry(data, dst, src):
    """The Ethernet frame, without FCS, around a container of at least ``MIN_CARRIED`` bytes."""
    return _pack(c.CARRIAGE, dst=dst, src=src, ethertype=c.ETHERTYPE, subtype=c.SUBTYPE) + data


def carried(frame):
    """The container in an Ethernet frame, None where there is none."""
    if len(frame) < c.CARRIAGE.size:
        return None
    head = _unpack(c.CARRIAGE, frame)
    ours = (head["ethertype"], head["subtype"]) == (c.ETHERTYPE, c.SUBTYPE)
    return frame[c.CARRIAGE.size:] if ours else None


class Encoder:
    """Packs the packets of many flows as the framer does, but for timers, which are the caller's.

    Parameters
    ----------
    container_bytes : int
        No record is added that makes a container longer; one that alone does has its own.
    minimum : int
        Bytes that each container is filled up to.
    """

    def __init__(self, *, container_bytes=c.LINK_BYTES, minimum=0):
        self._limit, self._minimum = container_bytes, minimum
        self._sequences = Counter()
        self._open = self._flow = None

    def push(self, flow, record):
        """Add a :class:`Record` of a :class:`LeanFlow`; gives the containers that this closed."""
        full, now = not flow.is_bare(record), self._open
        closed = []
        if now and not (
                self._flow == flow and now.full == full
                and record.psn == (now.psn + len(now.records)) % (1 << 24)
                and self._size + len(_record_bytes(record, full)) <= self._limit):
            closed = self.close()
        if self._open is None:
            sequence = self._sequences[flow.lean_id]
            self._sequences[flow.lean_id] = (sequence + 1) % (1 << 16)
            self._flow = flow
            self._size = c.TAG.size + c.TRAILER.size + c.ROUTE.size * (flow.route is not None)
            self._open = Container(flow=flow.lean_id, psn=record.psn, sequence=sequence, full=full,
                                   records=(), route=flow.route)
        self._size += len(_record_bytes(record, full))
        self._open = dataclasses.replace(self._open, records=(*self._open.records, record))
        return closed

    def close(self):
        """Close what is open; gives a list of the container, or an empty one."""
        if self._open is None:
            return []
        data, self._open = encode(self._open, minimum=self._minimum), None
        return [data]


class Decoder:
    """Takes containers as the restorer does.

    Parameters
    ----------
    flows : iterable of LeanFlow

    Attributes
    ----------
    faults : Counter of :class:`Fault`
    lost : containers that sequence numbers say were sent and did not come in order
    """

    def __init__(self, flows):
        self._flows = {flow.lean_id: flow for flow in flows}
        self._expected = dict.fromkeys(self._flows, 0)
        self.faults, self.lost = Counter(), 0

    def receive(self, data):
        """The records of a container; none, and counted, if it is not acceptable."""
        try:
            found = decode(data, self._flows)
        except LeanError as error:
            self.faults[error.fault] += 1
            return ()
        ahead = (found.sequence - self._expected[found.flow]) % (1 << 16)
        if ahead >= 1 << 15:
            self.faults[c.Fault.STALE] += 1
            return ()
        self.lost += ahead
        self._expected[found.flow] = (found.sequence + 1) % (1 << 16)
        return found.records


def _bits(of):
    """The fields of one byte that full records hold and a template gives for bare ones."""
    return {name: getattr(of, name) for name in _BITS}


def _record_bytes(record, full):
    head = b""
    if full:
        head = _pack(c.FULL, opcode=record.opcode, length=len(record.payload), **record.bits)
    data = head + record.extensions * full + record.payload
    return data + bytes(-len(data) % c.WORD)


def _bare_records(body, psn, flow):
    size = -(-flow.message_bytes // c.WORD) * c.WORD
    if not size or len(body) % size:
        raise LeanError(c.Fault.MALFORMED, f"{len(body)} bytes are no whole bare records")
    for n, start in enumerate(range(0, len(body), size)):
        yield Record(psn=(psn + n) % (1 << 24), opcode=flow.opcode,
                     payload=body[start:start + flow.message_bytes], **flow.bits)


def _full_records(body, psn, flow):
    while body:
        head = _unpack(c.FULL, body)
        opcode = OPCODES.get(head["opcode"])
        if opcode is None or not opcode.payload:
            raise LeanError(c.Fault.MALFORMED, f"opcode {head['opcode']:#x} has no payload")
        start = c.FULL.size + opcode.extension_bytes
        end = start + head.pop("length")
        if end > len(body):
            raise LeanError(c.Fault.MALFORMED, "a record ends behind the last one")
        del head["reserved"]
        yield Record(psn=psn, payload=body[start:end], extensions=body[c.FULL.size:start], **head)
        psn = (psn + 1) % (1 << 24)
        body = body[-(-end // c.WORD) * c.WORD:]


def _fixed(data):
    """What the CRC is of: the hop limit, which changes under way, counts as zero."""
    if len(data) >= c.TAG.size + c.ROUTE.size and data[0] & c.Flag.ROUTE:
        at = c.TAG.size + c.ROUTE.hop_limit.byte
        return data[:at] + b"\0" + data[at + 1:]
    return data


def _pack(header, **values):
    number = 0
    for name, field in header.fields.items():
        value = values.get(name, 0)
        assert 0 <= value < 1 << field.width, f"{field.name} has {field.width} bits, not {value}"
        number = number << field.width | value
    return number.to_bytes(header.size, "big")


def _unpack(header, data):
    number = int.from_bytes(data[:header.size], "big")
    return {name: number >> 8 * header.size - field.bit - field.width & (1 << field.width) - 1
            for name, field in header.fields.items()}
