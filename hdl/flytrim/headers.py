# SPDX-License-Identifier: Apache-2.0
"""Every header once: fields in wire order, EtherTypes, protocol numbers, the BTH opcode table.

Plain data that serves hardware, encapsulation and documents. A header is written as its fields
from the first bit on the wire to the last; offsets and sizes derive from that.

Sources: IEEE 802.3 and 802.1Q (Ethernet, VLAN), RFC 791 (IPv4), RFC 8200 (IPv6), RFC 768 (UDP),
InfiniBand Architecture volume 1, chapter 9 (BTH and extension headers), annex A17 (RoCEv2).
"""

import enum
from dataclasses import dataclass

__all__ = [
    "AETH", "ATOMIC_ACK_ETH", "ATOMIC_ETH", "BTH", "DETH", "ETHERNET", "EXTENSION_PROTOCOLS",
    "ICRC_BYTES", "IETH", "IMMDT", "IPV4", "IPV6", "IP_FRAGMENT", "IP_UDP", "L3_OFFSETS",
    "MAX_HEADER_BYTES", "OPCODES", "RETH", "ROCE_PORT", "TPIDS", "TYPE_IPV4", "TYPE_IPV6", "UDP",
    "VLAN", "Field", "Header", "Opcode", "Place",
]


@dataclass(frozen=True)
class Field:
    """A big-endian bit field of a header: first bit on the wire, and width in bits."""

    name: str
    bit: int
    width: int

    @property
    def byte(self):
        """Offset of the field's first byte; only for a field that starts on a byte."""
        assert self.bit % 8 == 0, f"{self.name} does not start on a byte"
        return self.bit // 8


class Header:
    """A header's fields in wire order, given as ``name=width`` in bits; each is an attribute."""

    def __init__(self, name, **widths):
        self.name = name
        self.fields = {}
        bit = 0
        for field, width in widths.items():
            self.fields[field] = Field(f"{name}.{field}", bit, width)
            bit += width
        assert bit % 8 == 0, f"{name} is not a whole number of bytes"
        self.size = bit // 8

    def __getattr__(self, name):
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(f"header has no field {name!r}") from None

    def __repr__(self):
        return f"Header({self.name!r}, {self.size} bytes)"


ETHERNET = Header("Ethernet", dst=48, src=48, ethertype=16)
VLAN = Header("VLAN", pcp=3, dei=1, vid=12, ethertype=16)
IPV4 = Header("IPv4", version=4, ihl=4, dscp=6, ecn=2, total_length=16, identification=16,
              reserved=1, dont_fragment=1, more_fragments=1, fragment_offset=13, ttl=8,
              protocol=8, checksum=16, src=32, dst=32)
IPV6 = Header("IPv6", version=4, dscp=6, ecn=2, flow_label=20, payload_length=16, next_header=8,
              hop_limit=8, src=128, dst=128)
UDP = Header("UDP", sport=16, dport=16, length=16, checksum=16)
BTH = Header("BTH", opcode=8, solicited=1, migreq=1, pad_count=2, tver=4, pkey=16, fecn=1, becn=1,
             reserved=6, dest_qp=24, ack_request=1, reserved7=7, psn=24)
RETH = Header("RETH", address=64, rkey=32, dma_length=32)
AETH = Header("AETH", syndrome=8, msn=24)
DETH = Header("DETH", qkey=32, reserved=8, src_qp=24)
IMMDT = Header("ImmDt", immediate=32)
IETH = Header("IETH", rkey=32)
ATOMIC_ETH = Header("AtomicETH", address=64, rkey=32, swap=64, compare=64)
ATOMIC_ACK_ETH = Header("AtomicAckETH", original=64)

#: Where an IP header can start: behind no, one or two VLAN tags.
L3_OFFSETS = tuple(ETHERNET.size + tags * VLAN.size for tags in range(3))
ICRC_BYTES = 4
ROCE_PORT = 4791

TPIDS = (0x8100, 0x88A8, 0x9100)
TYPE_IPV4 = 0x0800
TYPE_IPV6 = 0x86DD
IP_UDP = 17
IP_FRAGMENT = 44
#: IPv6 extension headers other than the fragment header (IANA protocol numbers).
EXTENSION_PROTOCOLS = (0, 43, 50, 51, 60, 135, 139, 140, 253, 254)


class Place(enum.Enum):
    """Where a packet stands in its message."""

    ONLY = "only"
    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"


@dataclass(frozen=True)
class Opcode:
    """A defined BTH opcode: its extension headers in order, and whether payload follows them.

    ``payload`` is true for what is trimmed: SEND, WRITE and READ response of RC and UC, SEND of
    UD. A READ request, an acknowledgement or an atomic announces headers and nothing to trim.
    """

    code: int
    name: str
    extensions: tuple = ()
    payload: bool = False
    place: Place | None = None

    @property
    def extension_bytes(self):
        return sum(header.size for header in self.extensions)


def _opcodes():
    data = [
        (0x00, "SEND_FIRST", (), Place.FIRST),
        (0x01, "SEND_MIDDLE", (), Place.MIDDLE),
        (0x02, "SEND_LAST", (), Place.LAST),
        (0x03, "SEND_LAST_IMM", (IMMDT,), Place.LAST),
        (0x04, "SEND_ONLY", (), Place.ONLY),
        (0x05, "SEND_ONLY_IMM", (IMMDT,), Place.ONLY),
        (0x06, "WRITE_FIRST", (RETH,), Place.FIRST),
        (0x07, "WRITE_MIDDLE", (), Place.MIDDLE),
        (0x08, "WRITE_LAST", (), Place.LAST),
        (0x09, "WRITE_LAST_IMM", (IMMDT,), Place.LAST),
        (0x0A, "WRITE_ONLY", (RETH,), Place.ONLY),
        (0x0B, "WRITE_ONLY_IMM", (RETH, IMMDT), Place.ONLY),
    ]
    rc_data = [
        (0x0D, "READ_RESPONSE_FIRST", (AETH,), Place.FIRST),
        (0x0E, "READ_RESPONSE_MIDDLE", (), Place.MIDDLE),
        (0x0F, "READ_RESPONSE_LAST", (AETH,), Place.LAST),
        (0x10, "READ_RESPONSE_ONLY", (AETH,), Place.ONLY),
        (0x16, "SEND_LAST_INV", (IETH,), Place.LAST),
        (0x17, "SEND_ONLY_INV", (IETH,), Place.ONLY),
    ]
    rc_control = [
        (0x0C, "READ_REQUEST", (RETH,)),
        (0x11, "ACKNOWLEDGE", (AETH,)),
        (0x12, "ATOMIC_ACKNOWLEDGE", (AETH, ATOMIC_ACK_ETH)),
        (0x13, "COMPARE_SWAP", (ATOMIC_ETH,)),
        (0x14, "FETCH_ADD", (ATOMIC_ETH,)),
    ]
    for code, name, extensions, place in data + rc_data:
        yield Opcode(code, f"RC_{name}", extensions, True, place)
    for code, name, extensions in rc_control:
        yield Opcode(code, f"RC_{name}", extensions)
    for code, name, extensions, place in data:
        yield Opcode(0x20 + code, f"UC_{name}", extensions, True, place)
    yield Opcode(0x64, "UD_SEND_ONLY", (DETH,), True, Place.ONLY)
    yield Opcode(0x65, "UD_SEND_ONLY_IMM", (DETH, IMMDT), True, Place.ONLY)
    yield Opcode(0x81, "CNP")


#: Every defined opcode by code. Reserved and undefined codes are absent: they announce nothing.
OPCODES = {opcode.code: opcode for opcode in _opcodes()}

#: The longest chain of headers the parser follows.
MAX_HEADER_BYTES = (ETHERNET.size + 2 * VLAN.size + IPV6.size + UDP.size + BTH.size
                    + max(opcode.extension_bytes for opcode in OPCODES.values()))
