# SPDX-License-Identifier: Apache-2.0
"""What travels beside a packet: flow key and context, metadata record, verdict record.

Each is a struct whose first field is the least significant. The two records leave the device as
the ``tdata`` of a stream, so their layouts are part of the product; fields stand on byte bounds.
"""

from amaranth.lib import data

from .headers import BTH, IPV6, L3_OFFSETS, MAX_HEADER_BYTES, UDP
from .logic import copies_for
from .packet import Packet

__all__ = ["FlowContext", "FlowKey", "FlowRecord", "Lookup", "MetaRecord", "Outcome", "Parsed",
           "Received", "RecordFields", "VerdictRecord"]

#: Behind the last byte of a frame that the ICRC masks, the first reserved byte of the BTH.
ICRC_MASKED_END = max(L3_OFFSETS) + IPV6.size + UDP.size + BTH.reserved.bit // 8 + 1
#: Bits of a frame's length in bytes.
LENGTH_BITS = 14
#: Bits of a count of bytes that goes just beyond the longest chain of headers.
SEEN_BITS = MAX_HEADER_BYTES.bit_length()


class Received(data.StructLayout):
    """A beat as it came in: the packet, whether it is the first, whether it was cut for size."""

    def __init__(self, config):
        super().__init__({
            "packet": Packet(config.width, config.side_width),
            "first": 1,
            "oversize": 1,
        })


class FlowKey(data.Struct):
    """What a flow is recognised by. IPv4 addresses stand in the low 32 bits, the rest zero."""

    ipv6: 1
    src: 128
    dst: 128
    dport: 16
    qpn: 24


class FlowContext(data.Struct):
    """What the control plane stores for a flow beside its key."""

    check_vlan: 1
    vlan: 12
    check_sport: 1
    sport: 16
    check_length: 1
    cut: 1
    check_icrc: 1
    disabled: 1
    message_bytes: 32


class FlowRecord(data.Struct):
    """What the control plane stores for a flow."""

    key: FlowKey
    context: FlowContext


class MetaRecord(data.Struct):
    """One record a trimmed packet, published with its last beat; 256 bits.

    ``reason`` is 0 for a good packet, else a drop code of :class:`flytrim.verdict.Reason`.
    ``length`` is the number of payload bytes, also the sum of the payload's beats. ``cut`` is how
    many bytes the preset message length took off. ``immediate`` holds ImmDt, or the R_Key of IETH;
    ``address``, ``rkey`` and ``dma_length`` hold RETH; fields of absent headers are zero.
    """

    flow: 16
    opcode: 8
    reason: 8
    psn: 24
    pad_count: 2
    solicited: 1
    ack_request: 1
    ecn: 2
    _reserved: 2
    length: 16
    cut: 16
    immediate: 32
    address: 64
    rkey: 32
    dma_length: 32


class VerdictRecord(data.Struct):
    """One strobe a frame, in frame order, after its last beat; 32 bits.

    ``flow`` is the number of the registered flow the frame belongs to where ``hit`` is set.
    """

    reason: 8
    verdict: 2
    hit: 1
    _reserved: 5
    flow: 16


class Outcome(data.Struct):
    """What is counted of a frame, told once its last beat was judged.

    ``bytes`` is its length. ``headers``, ``payload`` and ``cut`` count where it was trimmed: bytes
    in front of the payload, of it, and those that the preset message length took off.
    ``ends_message`` is set for an opcode of LAST or ONLY.
    """

    reason: 8
    hit: 1
    flow: 16
    bytes: LENGTH_BITS
    headers: SEEN_BITS
    payload: LENGTH_BITS
    cut: 16
    ends_message: 1


class RecordFields(data.Struct):
    """What the headers contribute to a :class:`MetaRecord`."""

    opcode: 8
    psn: 24
    pad_count: 2
    solicited: 1
    ack_request: 1
    ecn: 2
    immediate: 32
    address: 64
    rkey: 32
    dma_length: 32


class Parsed(data.StructLayout):
    """A beat, and what the frame's headers say as far as they have come.

    A field is right from the beat on that holds its last byte. ``seen`` counts the frame's bytes up
    to and including this beat, and sticks at its largest value. Whoever compares ``seen`` with
    ``header_bytes`` need not care whether the latter is right yet: it is computed from bytes that
    all stand before the shortest header's end, so once ``seen`` has reached it, it is. Until the
    frame comes to its IP header, ``header_bytes`` is at least 26 and ``seen`` at most 21, so this
    holds also for a frame that ends inside its VLAN tags.

    Members
    -------
    seen : bytes of the frame so far, at most 127
    bytes : bytes of the frame so far
    header_reason : reason found in Ethernet and IP headers, but for their lengths and checksum
    checksum : IPv4 header sum in four words, see :mod:`flytrim.checksum`
    at_beat : the number of the beat, one-hot; the last place stands for all further ones
    ipv4_at, ipv6_at : behind how many VLAN tags the header starts, one-hot; right from its first
        byte on
    place, place_again : which of the first beats this is and where the header starts, in one:
        ``at_beat[n]`` with each of ``ipv4_at``, then with each of ``ipv6_at``, for each n; twice,
        since the bits that the ICRC masks are many
    has_link, has_ip, has_udp, has_bth : the frame has reached the end of that header
    header_bytes : Ethernet to last extension header, at most 110
    length : payload bytes by UDP length, header stack and pad count; modulo 2^16
    sound : the lengths agree
    frame_bytes : where the IP datagram ends, from the frame's first byte
    frame_ends : the same from registers of their own, each for some lanes of a beat, see
        :class:`flytrim.logic.Copies`
    payload : the opcode carries payload, and TVer is 0
    only : the packet is a whole message
    key_again : the same as ``key``, for the second half of a CAM's comparisons
    record : what the metadata record takes from the headers
    """

    def __init__(self, config):
        early = len(range(0, ICRC_MASKED_END, config.lanes))
        super().__init__({
            "beat": Received(config),
            "seen": SEEN_BITS,
            "bytes": LENGTH_BITS,
            "header_reason": 8,
            "checksum": data.ArrayLayout(16, 4),
            "at_beat": early + 1,
            "ipv4_at": 3,
            "ipv6_at": 3,
            "place": 6 * early,
            "place_again": 6 * early,
            "has_link": 1,
            "has_ip": 1,
            "has_udp": 1,
            "has_bth": 1,
            "header_bytes": range(MAX_HEADER_BYTES + 1),
            "length": 16,
            "sound": 1,
            "frame_bytes": 17,
            "frame_ends": data.ArrayLayout(17, copies_for(config.width)),
            "payload": 1,
            "only": 1,
            "key": FlowKey,
            "key_again": FlowKey,
            "tagged": 1,
            "vlan": 12,
            "sport": 16,
            "record": RecordFields,
        })


class Lookup(data.Struct):
    """What the flow table knows of a key.

    ``dport_known`` says that a registered flow has the key's UDP destination port; ``flow`` and
    ``context`` are those of the flow that was ``hit``, else zero.
    """

    dport_known: 1
    hit: 1
    flow: 16
    context: FlowContext
