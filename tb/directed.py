# SPDX-License-Identifier: Apache-2.0
"""Frames made to order: from what a bin of the coverage plan says, all else random.

``random_frame`` draws what traffic is like, and comes to the rarer combinations in millions of
frames; here each is written directly.
"""

import ipaddress
import itertools
import random
from collections import defaultdict
from typing import NamedTuple

import frames
import roce
from frames import CONTROL, PAYLOAD, RocePacket

from flytrim.model import Flow
from flytrim.verdict import Reason

__all__ = ["BEAT", "CUT", "FITS", "FLOWS", "LENGTHS", "LONGER", "MAX_FRAME", "NO_PRESET", "ONLY",
           "OPCODES", "PRESETS", "STACKS", "UNDEFINED", "WITHOUT_PAYLOAD", "Order", "make"]

#: Bytes a beat and the longest frame of the device that these frames are for.
BEAT, MAX_FRAME = 8, 9216
#: IP version and number of VLAN tags, by name.
STACKS = {f"IPv{version} {tags}": (version, tags) for version in (4, 6) for tags in range(3)}
UNDEFINED = "undefined"
OPCODES = (*roce.OPCODES, UNDEFINED)
WITHOUT_PAYLOAD = (*CONTROL, UNDEFINED)
#: Opcodes of messages that are one packet, which a preset length is about.
ONLY = tuple(name for name in PAYLOAD if "ONLY" in name)
#: Classes of the payload's length in bytes.
LENGTHS = {"0": range(1), "part": range(1, BEAT), "beat": range(BEAT, BEAT + 1),
           "beat+1": range(BEAT + 1, BEAT + 2), "beats": range(BEAT + 2, 1025),
           ">1K": range(1025, 1601)}
#: The flow's preset length: none, at least the payload, or less than it, with either remedy.
PRESETS = NO_PRESET, FITS, LONGER, CUT = "none", "fits", "longer", "cut"

_UNDEFINED_CODES = [code for code in range(256) if code not in roce.EXTENSIONS]
_TPIDS = (0x8100, 0x88A8, 0x9100)
# RoCEv1, MAC control, ARP, MPLS, an 802.3 length, and neighbours of the EtherTypes of IP.
_NO_IP = (0x8915, 0x8808, 0x0806, 0x8847, 46, 0x0801, 0x0900, 0x86DC, 0x06DD)
# Hop-by-hop, routing, ESP, AH, destination options, mobility, HIP, shim6, two for experiments.
_IPV6_EXTENSIONS = (0, 43, 50, 51, 60, 135, 139, 140, 253, 254)
# ICMP, IP in IP, TCP, GRE, ICMPv6, SCTP, UDP-Lite, and what differs from UDP in one bit.
_NO_UDP = (1, 4, 6, 47, 58, 132, 136, 16, 19, 21, 25)
#: UDP destination ports of the flows; they differ in more than one bit.
_PORTS = (4791, 0xB0B5)
# Presets, kinds of presets, and what else a flow may ask for; the values are another for each flow.
_KINDS = {
    NO_PRESET: {}, FITS: {"message_bytes": MAX_FRAME}, LONGER: {"message_bytes": 1},
    CUT: {"message_bytes": 1, "excess": "cut"}, "cut-9": {"message_bytes": 9, "excess": "cut"},
    "vlan": {"vlan": 4095}, "path": {"udp_sport": 1 << 16},
}


def _flows():
    """As many flows as the device takes, of random keys, by IP version and kind."""
    rng = random.Random("flows of the coverage plan")
    kinds = list(itertools.product((ipaddress.IPv4Address, ipaddress.IPv6Address), _KINDS))
    flows = defaultdict(list)
    for number in range(64):
        address, kind = kinds[number % len(kinds)]
        version = address(0).version
        fields = {name: rng.randrange(value) if kind in ("vlan", "path") else value
                  for name, value in _KINDS[kind].items()}
        src, dst = (address(rng.getrandbits(address(0).max_prefixlen)) for _ in range(2))
        flows[version, kind].append(Flow(f"{kind}-{number}", src, dst, rng.getrandbits(24),
                                         udp_dport=rng.choice(_PORTS), **fields))
    return flows


_FLOWS = _flows()
#: What must be registered.
FLOWS = tuple(flow for flows in _FLOWS.values() for flow in flows)


class Order(NamedTuple):
    """What a frame is to be: keys of the tables above, the pad count, and what becomes of it."""

    stack: str
    opcode: str
    pad: int
    length: str
    preset: str
    reason: Reason


def make(rng, order):
    """The frame for ``order``, and whether it is to enter with the MAC's error flag."""
    version, tags = STACKS[order.stack]
    size = rng.choice(LENGTHS[order.length])
    if order.preset in (LONGER, CUT):
        size = max(size, 2)
    reason = order.reason
    kinds = [order.preset]
    if order.preset == CUT and size > 9:
        kinds.append("cut-9")
    elif order.preset == NO_PRESET:
        kinds += ["path", *(["vlan"] if tags else [])]
    flow = rng.choice(_FLOWS[version, rng.choice(kinds)])
    fields = frames.flow_fields(rng, flow)
    tcis = [rng.randrange(1 << 16) for _ in range(tags)]
    if flow.vlan is not None:
        tcis[0] = tcis[0] & 0xF000 | flow.vlan
    fields["vlans"] = tuple((rng.choice(_TPIDS), tci) for tci in tcis)
    if reason in (Reason.TRUNCATED, Reason.TRUNCATED_HEADER, Reason.OVERSIZE):
        fields["minimum"] = 0
    elif rng.random() < 0.3:
        fields["tail"] = rng.randbytes(rng.randrange(40))
    if reason is Reason.NO_FLOW:
        _estrange(rng, flow, fields)
    elif reason is Reason.NOT_ROCE:
        fields["udp_dport"] ^= 1 << rng.randrange(16)
    opcode = rng.choice(_UNDEFINED_CODES) if order.opcode == UNDEFINED else order.opcode
    packet = RocePacket(opcode=opcode, payload=rng.randbytes(size), pad=order.pad, **fields)
    if reason is Reason.OPCODE and order.opcode in PAYLOAD:
        packet.tver = rng.randrange(1, 16)
    elif reason is Reason.LENGTH:
        _lie(rng, packet, size)
    elif reason is Reason.OVERSIZE:
        room = MAX_FRAME - len(packet.to_bytes())
        packet.tail = rng.randbytes(room + rng.choice((1, 2, BEAT, rng.randrange(1, 100))))
    frame = bytearray(packet.to_bytes())
    l3 = packet.ip_offset()
    end = l3 + (20 if version == 4 else 40) + packet.udp_size()
    begin = end - 4 - order.pad - size
    if reason in _DAMAGE:
        frame = _DAMAGE[reason](rng, frame, l3, begin, end)
    # A frame that leaves by bypass keeps the flag, and nothing else comes of it.
    kept = Reason.NONE < reason < Reason.OVERSIZE and rng.random() < 0.1
    return bytes(frame), reason is Reason.MAC_ERROR or kept


def _estrange(rng, flow, fields):
    """Let one bit of the key differ, or of what the entry that is found asks for."""
    kinds = ["dqpn", "src", "dst", "udp_dport"]
    # Where the flow asks for it, that is what must be noticed.
    kinds = [*(["vlan"] if flow.vlan is not None else []),
             *(["udp_sport"] if flow.udp_sport is not None else [])] or kinds
    kind = rng.choice(kinds)
    if kind == "udp_dport":
        [fields[kind]] = set(_PORTS) - {flow.udp_dport}
    elif kind in ("src", "dst"):
        address = fields[kind]
        fields[kind] = type(address)(int(address) ^ 1 << rng.randrange(address.max_prefixlen))
    elif kind == "vlan":
        (tpid, tci), *inner = fields["vlans"]
        # The right identifier in the wrong tag must not do.
        fields["vlans"] = ((tpid, tci ^ 1 << rng.randrange(12)),
                           *((tpid, flow.vlan) for tpid, _ in inner))
    else:
        fields[kind] ^= 1 << rng.randrange(24 if kind == "dqpn" else 16)


def _lie(rng, packet, size):
    """Let the lengths of IP and UDP differ, or leave no room for headers, pad and ICRC."""
    true = packet.udp_size()
    kind = rng.choice(("ip", "udp", "both"))
    if kind == "both":
        packet.udp_length = rng.choice((true - size - 1, rng.randrange(true - size)))
        packet.ip_length = packet.udp_length + packet.ip_overhead()
    elif kind == "udp":
        packet.udp_length = true ^ 1 << rng.randrange(16)
    else:
        packet.ip_length = true + packet.ip_overhead() ^ 1 << rng.randrange(16)


def _cut_header(rng, frame, l3, begin, end):
    """Cut anywhere, or in the last of the headers that are announced."""
    return frame[:rng.choice((rng.randrange(1, begin), begin - rng.randrange(1, 12)))]


def _cut(rng, frame, l3, begin, end):
    return frame[:rng.choice((begin, end - 1, rng.randrange(begin, end)))]


def _not_ip(rng, frame, l3, begin, end):
    # A third tag is as foreign as any other type.
    types = _NO_IP + (_TPIDS if l3 == 22 else ())
    frame[l3 - 2:l3] = rng.choice(types).to_bytes(2, "big")
    return frame


def _not_udp(rng, frame, l3, begin, end):
    """Another protocol, for IPv4 under a right checksum."""
    if frame[l3] >> 4 == 6:
        frame[l3 + 6] = rng.choice(_NO_UDP)
    else:
        frame[l3 + 9] = rng.choice(_NO_UDP)
        frame = frames.with_checksum(frame, l3)
    return frame


def _fragment(rng, frame, l3, begin, end):
    if frame[l3] >> 4 == 6:
        frame[l3 + 6] = 44
    else:
        flags = rng.choice((0x2000, 1 << rng.randrange(13), rng.randrange(1, 0x4000)))
        frame[l3 + 6:l3 + 8] = flags.to_bytes(2, "big")
    return frame


def _extend(rng, frame, l3, begin, end):
    if frame[l3] >> 4 == 6:
        frame[l3 + 6] = rng.choice(_IPV6_EXTENSIONS)
    else:
        frame[l3] = 0x40 | rng.randrange(6, 16)
    return frame


def _spoil_ip(rng, frame, l3, begin, end):
    """Another version; for IPv4 also too short a header, or a wrong checksum."""
    version = frame[l3] >> 4
    kind = rng.randrange(3) if version == 4 else 0
    if kind == 0:
        frame[l3] ^= rng.randrange(1, 16) << 4
    elif kind == 1:
        frame[l3] = 0x40 | rng.randrange(5)
    else:
        frame[l3 + rng.randrange(10, 20)] ^= 1 << rng.randrange(8)
    return frame


def _spoil_icrc(rng, frame, l3, begin, end):
    """One bit of payload, pad or ICRC."""
    frame[rng.choice((begin, end - 1, rng.randrange(begin, end)))] ^= 1 << rng.randrange(8)
    return frame


_DAMAGE = {
    Reason.TRUNCATED_HEADER: _cut_header, Reason.NOT_IP: _not_ip, Reason.FRAGMENT: _fragment,
    Reason.IP_EXTENSION: _extend, Reason.IP_HEADER: _spoil_ip,
    Reason.NOT_UDP: _not_udp, Reason.TRUNCATED: _cut, Reason.ICRC: _spoil_icrc,
}
