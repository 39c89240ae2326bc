# SPDX-License-Identifier: Apache-2.0
"""Frames for the benches: RoCEv2 of every kind, broken ones, other traffic, and a random mix.

Everything is plain bytes without FCS. A random frame costs some tens of microseconds.
"""

import functools
from types import SimpleNamespace

import background
import roce
from roce_packet import RocePacket

__all__ = ["CONTROL", "FLOWS", "PAYLOAD", "RocePacket", "ack", "atomic", "background_frames",
           "broken_frame", "cnp", "control_frame", "flip", "flow_fields", "good_frame", "nak",
           "random_frame", "read_request", "roce_frame", "roce_packet", "runt", "stranger_frame",
           "with_checksum"]

#: Names of the opcodes that carry nothing to trim, and of those that do.
CONTROL = ("RC_READ_REQUEST", "RC_ACKNOWLEDGE", "RC_ATOMIC_ACKNOWLEDGE", "RC_COMPARE_SWAP",
           "RC_FETCH_ADD", "CNP")
PAYLOAD = tuple(name for name in roce.OPCODES if name not in CONTROL)


def _flow(name, src, dst, dqpn, **options):
    fields = {"udp_dport": 4791, "udp_sport": None, "vlan": None, "message_bytes": None,
              "excess": "bypass", "icrc": "check"}
    return SimpleNamespace(name=name, src=src, dst=dst, dqpn=dqpn, **{**fields, **options})


#: Flows that use every option; ``Flow(**vars(flow))`` makes the model's of one.
FLOWS = (
    _flow("plain4", "10.0.0.1", "10.0.0.9", 0x11),
    _flow("plain6", "fd00::1", "fd00::9", 0x11),
    _flow("tagged", "10.0.0.2", "10.0.0.9", 0x12, vlan=100),
    _flow("one-path", "10.0.0.3", "10.0.0.9", 0x13, udp_sport=69),
    _flow("preset", "10.0.0.4", "10.0.0.9", 0x14, message_bytes=4),
    _flow("cut", "fd00::4", "fd00::9", 0x14, message_bytes=64, excess="cut"),
    _flow("other-port", "10.0.0.1", "10.0.0.9", 0x11, udp_dport=49152),
    _flow("backward", "10.0.0.9", "10.0.0.1", 0xFFFFFF),
    _flow("careless", "10.0.0.5", "10.0.0.9", 0x15, icrc="ignore"),
)


def roce_packet(opcode, payload=b"", **fields):
    """A RoCEv2 packet as Scapy layers; ``fields`` are those of :class:`RocePacket`."""
    return RocePacket(opcode=opcode, payload=payload, **fields).to_scapy()


def roce_frame(opcode, payload=b"", **fields):
    """A RoCEv2 frame as bytes; ``fields`` are those of :class:`RocePacket`."""
    return RocePacket(opcode=opcode, payload=payload, **fields).to_bytes()


def ack(**fields):
    """An ACK with unlimited credits."""
    return roce_frame("RC_ACKNOWLEDGE", **fields)


def nak(code=0, **fields):
    """A NAK; code 0 is a PSN sequence error."""
    return roce_frame("RC_ACKNOWLEDGE", syndrome=0x60 | code, **fields)


def cnp(**fields):
    """A congestion notification packet."""
    return roce_frame("CNP", bytes(16), becn=1, **fields)


def read_request(**fields):
    """A READ request for ``dma_length`` bytes."""
    return roce_frame("RC_READ_REQUEST", **fields)


def atomic(opcode="RC_FETCH_ADD", **fields):
    """A fetch-and-add, or another atomic."""
    return roce_frame(opcode, **fields)


def runt(size, frame=None):
    """The first ``size`` bytes of ``frame``, by default a good packet of the first flow."""
    return (frame or roce_frame("RC_SEND_ONLY", b"\1\2\3\4"))[:size]


def flip(frame, bit):
    """``frame`` with one bit changed, counted from the first on the wire."""
    changed = bytearray(frame)
    changed[bit // 8] ^= 0x80 >> bit % 8
    return bytes(changed)


def with_checksum(frame, l3):
    """``frame`` with the checksum that the 20 bytes of IPv4 header at ``l3`` should have."""
    header = frame[l3:l3 + 10] + bytes(2) + frame[l3 + 12:l3 + 20]
    checksum = -int.from_bytes(header, "big") % 0xFFFF
    return frame[:l3 + 10] + checksum.to_bytes(2, "big") + frame[l3 + 12:]


@functools.cache
def background_frames():
    """Traffic that no flow is found in, whatever is registered, built once."""
    packet = roce_packet("RC_SEND_ONLY", b"\1\2\3\4", icrc=b"icrc")
    stranger = roce_frame("RC_SEND_ONLY", dqpn=0xABCDEF)
    packet6 = roce_packet("RC_SEND_ONLY", b"\1\2\3\4", icrc=b"icrc", src="fd00::1", dst="fd00::9")
    return (
        background.arp(), background.arp(vlan=100), background.lldp(), background.pause(),
        background.ieee8023(), background.ieee8023(snap=True), background.rocev1(),
        background.mpls(),
        background.tcp(), background.tcp(vlan=100), background.tcp(size=1400), background.tcp6(),
        background.tcp(vlan=100, outer=7), background.icmp(), background.icmp6(),
        background.udp(dport=53), background.udp(dport=4793), background.udp(dport=4791, size=0),
        background.triple_tag(packet), *background.fragments(packet),
        *background.fragments(background.udp_packet(dport=4791, size=2000)),
        background.ipv4_options(packet), background.vxlan(packet),
        *(background.ipv6_chain(packet6, kind) for kind in background.IPV6_EXTENSIONS),
        *(runt(size, frame) for frame in (background.tcp(), stranger)
          for size in (1, 2, 6, 12, 13, 14, 15, 17, 18, 20, 33, 34, 40, 41, 42, 53, 54, 59)),
    )


def flow_fields(rng, flow):
    """Fields of a packet of ``flow`` with every freedom that the flow leaves."""
    vlans = [(rng.choice((0x8100, 0x88A8, 0x9100)), rng.randrange(1 << 16))
             for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
    if flow.vlan is not None:
        vlans[:1] = [(rng.choice((0x8100, 0x88A8, 0x9100)),
                      rng.randrange(16) << 12 | flow.vlan)]
    sport = rng.choice((0, 69, 72, 0xFFFF, rng.randrange(0xC000, 0x10000)))
    return {
        "src": flow.src, "dst": flow.dst, "dqpn": flow.dqpn, "udp_dport": flow.udp_dport,
        "udp_sport": sport if flow.udp_sport is None else flow.udp_sport, "vlans": tuple(vlans),
        "psn": rng.choice((0, 0xFFFFFF, rng.randrange(1 << 24))), "ttl": rng.randrange(256),
        "tos": rng.choice((0, 2, 3, 0xFF)), "identification": rng.randrange(1 << 16),
        "flow_label": rng.randrange(1 << 20), "solicited": rng.getrandbits(1),
        "migreq": rng.getrandbits(1), "fecn": rng.getrandbits(1), "becn": rng.getrandbits(1),
        "ack_request": rng.getrandbits(1), "reserved": rng.getrandbits(6),
        "reserved7": rng.getrandbits(7), "udp_checksum": rng.choice((0, rng.getrandbits(16))),
        "immediate": rng.getrandbits(32), "address": rng.getrandbits(64),
        "rkey": rng.getrandbits(32), "dma_length": rng.getrandbits(32),
        "syndrome": rng.getrandbits(8), "msn": rng.getrandbits(24),
        "minimum": rng.choice((0, 60, 60, 60)),
    }


def _payload(rng):
    """Payload of a gradient, of small messages, around the edges of beats, seldom a long one."""
    draw = rng.random()
    if draw < 0.25:
        size = 4
    elif draw < 0.6:
        size = rng.randrange(80)
    elif draw < 0.9:
        size = max(0, 64 * rng.randrange(1, 18) + rng.randrange(-6, 7))
    else:
        size = rng.choice((256, 1024, 1024, 4096, rng.randrange(9000)))
    return rng.randbytes(size)


def good_frame(rng, flows=FLOWS):
    """A sound packet with payload of one of ``flows``, random in all that flows leave open."""
    return roce_frame(rng.choice(PAYLOAD), _payload(rng), **flow_fields(rng, rng.choice(flows)))


def control_frame(rng, flows=FLOWS):
    """A packet of a flow that carries nothing to trim: ACK, CNP, atomic, undefined opcode, TVer."""
    fields = flow_fields(rng, rng.choice(flows))
    kind = rng.randrange(4)
    if kind == 0:
        return roce_frame(rng.randrange(256), rng.randbytes(16), **fields)
    if kind == 1:
        return roce_frame(rng.choice(PAYLOAD), _payload(rng), tver=rng.randrange(1, 16), **fields)
    return roce_frame(rng.choice(CONTROL), bytes(rng.choice((0, 0, 16))), **fields)


def stranger_frame(rng, flows=FLOWS):
    """A sound packet whose key differs from that of a flow in one place."""
    fields = flow_fields(rng, rng.choice(flows))
    place = rng.choice(("dqpn", "udp_dport", "udp_sport", "src", "dst", "vlans", "swapped"))
    if place == "dqpn":
        fields[place] ^= 1 << rng.randrange(24)
    elif place in ("udp_dport", "udp_sport"):
        fields[place] ^= 1 << rng.randrange(16)
    elif place in ("src", "dst"):
        fields[place] = "fd00::a:9" if ":" in fields[place] else "10.0.128.9"
    elif place == "vlans":
        fields[place] = rng.choice(((), ((0x8100, 101),), ((0x8100, 101), (0x8100, 100))))
    else:
        fields["src"], fields["dst"] = fields["dst"], fields["src"]
    return roce_frame(rng.choice(PAYLOAD), _payload(rng), **fields)


def broken_frame(rng, flows=FLOWS):
    """A packet of a flow with one thing wrong: a flipped bit, a length that lies, a cut, a tail."""
    packet = RocePacket(opcode=rng.choice(PAYLOAD), payload=_payload(rng),
                        **flow_fields(rng, rng.choice(flows)))
    kind = rng.choice(("bit", "bit", "ip_length", "udp_length", "both", "pad", "cut", "cut", "tail",
                       "checksum", "icrc"))
    frame = bytearray(packet.to_bytes())
    if kind == "bit":
        frame[rng.randrange(min(len(frame), 90))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del frame[rng.choice((rng.randrange(1, 1 + min(len(frame), 110)),
                              rng.randrange(1, 1 + len(frame)))):]
    elif kind == "tail":
        size = rng.randrange(1, 200)
        if rng.random() < 0.1:
            size = max(size, rng.randrange(9200, 9240) - len(frame))
        frame += rng.randbytes(size)
    else:
        frame = _lie(rng, packet, kind)
    return bytes(frame)


def _lie(rng, packet, what):
    """``packet`` with a field of its headers that says something else than is there."""
    if what == "checksum":
        packet.ip_checksum = rng.randrange(1 << 16)
    elif what == "icrc":
        packet.icrc = rng.randbytes(4)
    elif what == "pad":
        packet.pad = rng.randrange(4)
        packet.payload = packet.payload[:rng.choice((0, 1, len(packet.payload)))]
        packet.udp_length = rng.choice((None, packet.udp_size() - rng.randrange(5)))
        if packet.udp_length is not None:
            packet.ip_length = packet.udp_length + packet.ip_overhead()
    else:
        true = packet.udp_size()
        length = rng.choice((true + rng.randrange(-4, 5), true + rng.randrange(-40, 41), 0, 7, 8,
                             rng.randrange(1 << 16))) & 0xFFFF
        if what in ("udp_length", "both"):
            packet.udp_length = length
        if what in ("ip_length", "both"):
            packet.ip_length = length + packet.ip_overhead() & 0xFFFF
    return packet.to_bytes()


def random_frame(rng, flows=FLOWS):
    """Any frame: half of them good, the rest control, strangers, broken ones and other traffic."""
    draw = rng.random()
    if draw < 0.55:
        return good_frame(rng, flows)
    if draw < 0.63:
        return control_frame(rng, flows)
    if draw < 0.70:
        return stranger_frame(rng, flows)
    if draw < 0.88:
        return broken_frame(rng, flows)
    return rng.choice(background_frames())
