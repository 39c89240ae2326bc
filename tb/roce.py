# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 in Scapy: BTH and its extension headers, pad bytes, and the ICRC.

Written from the wire formats alone: it shares no table with the hardware or its model, and so can
judge both. Layers 2 to 4 are Scapy's own. Differences from ``scapy.contrib.roce``: all extension
headers, pad bytes, Ethernet padding left out of the ICRC, IPv6.

Sources: InfiniBand Architecture volume 1, chapter 9; annex A17 (RoCEv2).
"""

import struct
from zlib import crc32

from scapy.fields import (
    BitField,
    ByteField,
    IntField,
    LongField,
    StrField,
    ThreeBytesField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_layers

__all__ = ["AETH", "BTH", "DETH", "EXTENSIONS", "IETH", "OPCODES", "RETH", "UDP_PORT",
           "AtomicAckETH", "AtomicETH", "ImmDt", "build", "datagram_span", "icrc",
           "masked_icrc"]


class _Tail(StrField):
    """Bytes that end the packet although they are listed with its header."""

    __slots__ = ["size"]

    def __init__(self, name, default, size):
        super().__init__(name, default)
        self.size = size

    def addfield(self, pkt, s, val):
        return s

    def getfield(self, pkt, s):
        end = max(len(s) - self.size(pkt), 0)
        return s[:end], s[end:]


class _Chained(Packet):
    """A layer followed by the extension headers that the opcode of the BTH asks for."""

    def guess_payload_class(self, payload):
        bth = self
        passed = []
        while not isinstance(bth, BTH):
            passed.append(type(bth))
            bth = bth.underlayer
        chain = EXTENSIONS.get(bth.opcode, ())
        return chain[len(passed)] if len(passed) < len(chain) else Raw


class BTH(_Chained):
    """Base transport header. ``pad`` and ``icrc`` stand at the end of the packet.

    ``pad_count`` None is what fills the payload to 32 bits, ``pad`` None is that many zeros;
    ``icrc`` None is filled in by :func:`build`.
    """

    name = "BTH"
    fields_desc = [
        XByteField("opcode", 0x04),
        BitField("solicited", 0, 1),
        BitField("migreq", 1, 1),
        BitField("pad_count", None, 2),
        BitField("tver", 0, 4),
        XShortField("pkey", 0xFFFF),
        BitField("fecn", 0, 1),
        BitField("becn", 0, 1),
        BitField("reserved", 0, 6),
        ThreeBytesField("dest_qp", 0),
        BitField("ack_request", 0, 1),
        BitField("reserved7", 0, 7),
        ThreeBytesField("psn", 0),
        _Tail("icrc", None, lambda bth: 4),
        _Tail("pad", None, lambda bth: bth.pad_count),
    ]

    def post_build(self, pkt, pay):
        count = -len(pay) % 4 if self.pad_count is None else self.pad_count
        pkt = pkt[:1] + bytes([pkt[1] & 0xCF | count << 4]) + pkt[2:]
        pad = bytes(count) if self.pad is None else self.pad
        return pkt + pay + pad + (self.icrc or bytes(4))

    def post_dissect(self, s):
        self.raw_packet_cache = None
        return s


class RETH(_Chained):
    """RDMA extended transport header."""

    name = "RETH"
    fields_desc = [XLongField("address", 0), XIntField("rkey", 0), IntField("dma_length", 0)]


class AETH(_Chained):
    """ACK extended transport header."""

    name = "AETH"
    fields_desc = [XByteField("syndrome", 0x1F), ThreeBytesField("msn", 0)]


class DETH(_Chained):
    """Datagram extended transport header."""

    name = "DETH"
    fields_desc = [XIntField("qkey", 0), ByteField("deth_reserved", 0),
                   ThreeBytesField("src_qp", 0)]


class ImmDt(_Chained):
    """Immediate data."""

    name = "ImmDt"
    fields_desc = [XIntField("immediate", 0)]


class IETH(_Chained):
    """Invalidate extended transport header."""

    name = "IETH"
    fields_desc = [XIntField("rkey", 0)]


class AtomicETH(_Chained):
    """Atomic extended transport header."""

    name = "AtomicETH"
    fields_desc = [XLongField("address", 0), XIntField("rkey", 0), LongField("swap", 0),
                   LongField("compare", 0)]


class AtomicAckETH(_Chained):
    """Atomic acknowledge extended transport header."""

    name = "AtomicAckETH"
    fields_desc = [LongField("original", 0)]


_SEND_WRITE = {
    "SEND_FIRST": (0x00, ()), "SEND_MIDDLE": (0x01, ()), "SEND_LAST": (0x02, ()),
    "SEND_LAST_IMM": (0x03, (ImmDt,)), "SEND_ONLY": (0x04, ()), "SEND_ONLY_IMM": (0x05, (ImmDt,)),
    "WRITE_FIRST": (0x06, (RETH,)), "WRITE_MIDDLE": (0x07, ()), "WRITE_LAST": (0x08, ()),
    "WRITE_LAST_IMM": (0x09, (ImmDt,)), "WRITE_ONLY": (0x0A, (RETH,)),
    "WRITE_ONLY_IMM": (0x0B, (RETH, ImmDt)),
}
_ROWS = {
    **{f"RC_{name}": row for name, row in _SEND_WRITE.items()},
    "RC_READ_REQUEST": (0x0C, (RETH,)), "RC_READ_RESPONSE_FIRST": (0x0D, (AETH,)),
    "RC_READ_RESPONSE_MIDDLE": (0x0E, ()), "RC_READ_RESPONSE_LAST": (0x0F, (AETH,)),
    "RC_READ_RESPONSE_ONLY": (0x10, (AETH,)), "RC_ACKNOWLEDGE": (0x11, (AETH,)),
    "RC_ATOMIC_ACKNOWLEDGE": (0x12, (AETH, AtomicAckETH)), "RC_COMPARE_SWAP": (0x13, (AtomicETH,)),
    "RC_FETCH_ADD": (0x14, (AtomicETH,)), "RC_SEND_LAST_INV": (0x16, (IETH,)),
    "RC_SEND_ONLY_INV": (0x17, (IETH,)),
    **{f"UC_{name}": (0x20 + code, chain) for name, (code, chain) in _SEND_WRITE.items()},
    "UD_SEND_ONLY": (0x64, (DETH,)), "UD_SEND_ONLY_IMM": (0x65, (DETH, ImmDt)),
    "CNP": (0x81, ()),
}

#: Opcode by name: transport, then verb and place.
OPCODES = {name: code for name, (code, _) in _ROWS.items()}
#: The extension headers behind the BTH, by opcode.
EXTENSIONS = {code: chain for code, chain in _ROWS.values()}

#: UDP destination port of RoCEv2.
UDP_PORT = 4791

bind_layers(UDP, BTH, dport=UDP_PORT)


def datagram_span(frame):
    """(start, end) of the IP datagram in a RoCEv2 frame."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8", b"\x91\x00"):
        at += 4
    ip = at + 2
    if frame[at:ip] == b"\x08\x00":
        return ip, ip + struct.unpack_from(">H", frame, ip + 2)[0]
    assert frame[at:ip] == b"\x86\xdd", f"no IP frame: EtherType {frame[at:ip].hex()}"
    return ip, ip + 40 + struct.unpack_from(">H", frame, ip + 4)[0]


def icrc(frame):
    """The four ICRC bytes that belong at the end of the IP datagram in ``frame``.

    Ethernet padding behind the datagram does not count. What is in the place of the ICRC does
    not matter.
    """
    ip, end = datagram_span(frame)
    return masked_icrc(frame[ip:end - 4])


def masked_icrc(datagram):
    """The ICRC of an IP datagram without options that ends with the pad bytes, before the ICRC."""
    masked = bytearray(datagram)
    if datagram[0] >> 4 == 4:
        udp = 20
        masked[1] = masked[8] = 0xFF                        # TOS, TTL
        masked[10:12] = b"\xff\xff"                         # header checksum
    else:
        udp = 40
        masked[0] |= 0x0F                                   # traffic class, flow label
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF                                    # hop limit
    masked[udp + 6:udp + 8] = b"\xff\xff"                   # UDP checksum
    masked[udp + 8 + 4] = 0xFF                              # FECN, BECN, reserved
    return struct.pack("<I", crc32(masked, crc32(b"\xff" * 8)))


def build(packet):
    """The bytes of a Scapy packet that has a :class:`BTH`, with a right ICRC where it is None."""
    frame = bytes(packet)
    if packet[BTH].icrc is not None:
        return frame
    end = datagram_span(frame)[1]
    return frame[:end - 4] + icrc(frame) + frame[end:]
