# SPDX-License-Identifier: Apache-2.0
"""Malformed frames grown from sound ones, each between good frames of registered flows.

Where ``random_frame`` is what traffic is like, this is what nobody should send: one thing is done
to a sound packet, sometimes a second one on top. Headers are made right again around the fault
wherever a later test would otherwise never see it. Sound packets come from a pool, so a frame costs
some microseconds.
"""

import itertools
from typing import NamedTuple

import frames
import roce
from frames import PAYLOAD, RocePacket

__all__ = ["GOOD", "KINDS", "Sent", "hostile_frames"]

#: Sound packets that the frames of one call are grown from.
POOL = 240
#: The kind of the frames in between, which nothing was done to.
GOOD = "good"
#: How often a hostile frame has a second fault, and how often the MAC marked it as bad.
SECOND, MARKED = 0.15, 0.06
#: Bytes of the longest giant.
LONGEST = 1 << 16

_TPIDS = (0x8100, 0x88A8, 0x9100)
_LENGTHS = (0, 1, 7, 8, 19, 20, 24, 27, 28, 0x7FFF, 0xFFFF)
_PLAIN = [flow for flow in frames.FLOWS if flow.message_bytes is None]


class Sent(NamedTuple):
    """A frame to send. ``payload`` is what must leave of a good one, None of a hostile one."""

    kind: str
    frame: bytes
    error: bool
    payload: bytes | None


class _Sound(NamedTuple):
    """A sound packet: offsets of its headers, its payload and the end of its datagram."""

    frame: bytes
    l3: int
    l4: int
    bth: int
    end: int
    payload: bytes
    registered: bool


def _sound(rng, number):
    flow = rng.choice(frames.FLOWS)
    fields = frames.flow_fields(rng, flow)
    if flow.vlan is None:
        fields["vlans"] = tuple((rng.choice(_TPIDS), rng.getrandbits(16))
                                for _ in range(number % 3))
    size = rng.choice((0, 4, rng.randrange(80), rng.randrange(80), rng.randrange(300)))
    if number % 40 == 0:
        size = rng.choice((1024, 4096, rng.randrange(8000)))
    opcode = PAYLOAD[number % len(PAYLOAD)]
    packet = RocePacket(opcode=opcode, payload=rng.randbytes(size), **fields)
    l3 = packet.ip_offset()
    l4 = l3 + (40 if ":" in packet.src else 20)
    return _Sound(packet.to_bytes(), l3, l4, l4 + 8, l4 + packet.udp_size(), packet.payload,
                  flow in _PLAIN)


def hostile_frames(rng, count, *, beat, max_frame):
    """``count`` hostile frames, each :class:`Sent` between good ones.

    ``beat`` and ``max_frame`` are those of the device, in bytes.
    """
    pool = [_sound(rng, number) for number in range(POOL)]
    good = [Sent(GOOD, sound.frame, False, sound.payload) for sound in pool if sound.registered]
    context = _Context(beat, max_frame, pool, _cuts(pool))
    choice, draw = rng.choice, rng.random
    for kind in rng.choices(tuple(KINDS), _WEIGHTS, k=count):
        yield choice(good)
        frame = KINDS[kind](rng, choice(pool), context)
        if draw() < SECOND:
            frame = choice(_SECOND)(rng, frame)
        yield Sent(kind, bytes(frame[:LONGEST]), kind == "mac_error" or draw() < MARKED, None)
    yield choice(good)


class _Context(NamedTuple):
    """What a fault may need beside the packet: the device, other packets, and cuts in turn."""

    beat: int
    max_frame: int
    pool: list
    cuts: object


def _cuts(pool):
    """Every packet of the pool cut at every byte, the short ones first."""
    for sound in itertools.cycle(sorted(pool, key=lambda sound: len(sound.payload) > 300)):
        for size in range(1, min(len(sound.frame), 400)):
            yield sound.frame[:size]


def _put(frame, at, value, size=2):
    frame[at:at + size] = value.to_bytes(size, "big")


def _mend(frame, sound, end=None):
    """Checksum and ICRC as the rest of the headers asks for, where there is place for them."""
    l3, end = sound.l3, end or sound.end
    if sound.l4 - l3 == 20:
        frame = bytearray(frames.with_checksum(frame, l3))
    if sound.bth + 16 <= end <= len(frame) and frame[l3] >> 4 == (4 if sound.l4 - l3 == 20 else 6):
        frame[end - 4:end] = roce.masked_icrc(frame[l3:end - 4])
    return frame


def _flip(rng, sound, context):
    """Up to three bits, in the headers or anywhere."""
    frame = bytearray(sound.frame)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(rng.choice((min(len(frame), 100), len(frame))))
        frame[at] ^= 1 << rng.randrange(8)
    return frame


def _tail(rng, sound, context):
    return sound.frame + rng.randbytes(rng.choice((rng.randrange(1, 70), rng.randrange(1, 300))))


def _lie(rng, sound, context):
    """Lengths of IP and UDP, one or both, that say something else than is there."""
    frame = bytearray(sound.frame)
    true = sound.end - sound.l4
    length = rng.choice((true + rng.randrange(-5, 6), true + rng.randrange(-5, 6),
                         rng.choice(_LENGTHS), rng.getrandbits(16))) & 0xFFFF
    what = rng.choice(("ip", "udp", "both", "both"))
    if what != "ip":
        _put(frame, sound.l4 + 4, length)
    if what != "udp":
        ipv4 = sound.l4 - sound.l3 == 20
        _put(frame, sound.l3 + (2 if ipv4 else 4), length + (20 if ipv4 else 0) & 0xFFFF)
    # What both agree on may be another sound packet, with bytes behind it.
    return _mend(frame, sound, sound.l4 + length if what == "both" else None)


def _pad_count(rng, sound, context):
    frame = bytearray(sound.frame)
    frame[sound.bth + 1] ^= rng.randrange(1, 4) << 4
    return _mend(frame, sound)


def _opcode(rng, sound, context):
    """Any opcode, most of them reserved, or a version of the transport header that is not 0."""
    frame = bytearray(sound.frame)
    if rng.random() < 0.7:
        frame[sound.bth] = rng.randrange(256)
    else:
        frame[sound.bth + 1] ^= rng.randrange(1, 16)
    return _mend(frame, sound)


def _tags(rng, sound, context):
    """One to five tags on top of those that are there, of any TPID or one that looks like it."""
    tags = b"".join(rng.choice((*_TPIDS, *_TPIDS, 0x9200)).to_bytes(2, "big") + rng.randbytes(2)
                    for _ in range(rng.randrange(1, 6)))
    return sound.frame[:12] + tags + sound.frame[12:]


def _options(rng, sound, context):
    """IPv4 options of every length, there or only announced, or too short a header; extensions."""
    l3 = sound.l3
    frame = bytearray(sound.frame)
    there = rng.random() < 0.7
    if sound.l4 - l3 == 40:
        number = rng.choice((0, 43, 44, 50, 51, 60, 135, 139, 140, 253, 254))
        header = bytes((frame[l3 + 6], 0)) + rng.randbytes(6) if there else b""
        frame[l3 + 6] = number
        frame[sound.l4:sound.l4] = header
        _put(frame, l3 + 4, sound.end - sound.l4 + len(header))
        return frame
    words = rng.randrange(6, 16) if rng.random() < 0.8 else rng.randrange(5)
    frame[l3] = 0x40 | words
    if there and words > 5:
        frame[sound.l4:sound.l4] = rng.randbytes(4 * words - 20)
        _put(frame, l3 + 2, sound.end - l3 + 4 * words - 20)
    header = frame[l3:l3 + max(20, 4 * words)]
    header[10:12] = bytes(2)
    _put(frame, l3 + 10, -int.from_bytes(header, "big") % 0xFFFF)
    return frame


def _fragment(rng, sound, context):
    frame = bytearray(sound.frame)
    if sound.l4 - sound.l3 == 40:
        frame[sound.l4:sound.l4] = bytes((17, 0)) + rng.randbytes(6)
        frame[sound.l3 + 6] = 44
        return frame
    _put(frame, sound.l3 + 6, rng.choice((0x2000, 1 << rng.randrange(16), rng.getrandbits(16))))
    return _mend(frame, sound)


def _header(rng, sound, context):
    """A version, protocol, checksum, EtherType or bit of the key that is another."""
    frame, l3, ipv4 = bytearray(sound.frame), sound.l3, sound.l4 - sound.l3 == 20
    what = rng.randrange(5)
    if what == 0:
        frame[l3] ^= rng.randrange(1, 16) << 4
    elif what == 1:
        frame[l3 + (9 if ipv4 else 6)] = rng.randrange(256)
    elif what == 2:
        _put(frame, l3 - 2, rng.choice((0x0806, 0x8808, 0x8915, 46, 1500, rng.getrandbits(16))))
    elif what == 3:
        at = rng.choice((sound.bth + 5 + rng.randrange(3), sound.l4 + rng.randrange(4),
                         sound.l4 - 1 - rng.randrange(8)))
        frame[at] ^= 1 << rng.randrange(8)
    else:
        frame[l3 + 10 + rng.randrange(2)] ^= 1 << rng.randrange(8)
        return frame
    return _mend(frame, sound)


def _icrc(rng, sound, context):
    frame = bytearray(sound.frame)
    frame[rng.randrange(sound.bth + 12, sound.end)] ^= rng.randrange(1, 256)
    return frame


def _giant(rng, sound, context):
    """As long as may be, a little longer, or much: behind the datagram, or as one that says so."""
    limit, beat = context.max_frame, context.beat
    size = rng.choice((limit - 1, limit, limit + 1, limit + rng.randrange(2 * beat), limit + beat,
                       rng.randrange(limit, 2 * limit), rng.choice((2 * limit, LONGEST))))
    frame = bytearray(sound.frame) + rng.randbytes(max(0, size - len(sound.frame)))
    if rng.random() < 0.5:
        length = size - sound.l4
        _put(frame, sound.l4 + 4, length & 0xFFFF)
        ipv4 = sound.l4 - sound.l3 == 20
        _put(frame, sound.l3 + (2 if ipv4 else 4), length + (20 if ipv4 else 0) & 0xFFFF)
        frame = _mend(frame, sound, size)
    return frame


def _splice(rng, sound, context):
    """A frame whose end never came: the next one goes on in the beat that follows."""
    beats = 1 + rng.randrange(max(1, len(sound.frame) // context.beat))
    return sound.frame[:beats * context.beat] + rng.choice(context.pool).frame


def _noise(rng, sound, context):
    """Random bytes, behind the first bytes of a sound frame or from the start; or all alike."""
    if rng.random() < 0.2:
        return rng.choice((b"\0", b"\xff")) * rng.randrange(1, 130)
    return sound.frame[:rng.choice((0, 14, sound.l4, sound.bth))] + rng.randbytes(
        rng.randrange(1, 130))


#: Faults by name, and how often each comes.
KINDS = {
    "flip": _flip,
    "cut": lambda rng, sound, context: next(context.cuts),
    "runt": lambda rng, sound, context: sound.frame[:rng.randrange(1, 60)],
    "tail": _tail, "lie": _lie, "pad_count": _pad_count, "opcode": _opcode, "tags": _tags,
    "options": _options, "fragment": _fragment, "header": _header, "icrc": _icrc,
    "giant": _giant, "splice": _splice, "noise": _noise,
    "mac_error": lambda rng, sound, context: sound.frame,
}
_WEIGHTS = [{"cut": 4, "lie": 3, "flip": 2, "giant": 0.1, "tail": 0.5}.get(kind, 1)
            for kind in KINDS]
_SECOND = (
    lambda rng, frame: frames.flip(frame, rng.randrange(8 * len(frame))),
    lambda rng, frame: frame[:rng.randrange(1, 1 + len(frame))],
    lambda rng, frame: frame + rng.randbytes(rng.randrange(1, 20)),
)
