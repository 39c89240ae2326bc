# SPDX-License-Identifier: Apache-2.0
"""Reference model of ``TrimNic``: what becomes of one frame, in plain Python.

Fast enough to judge every frame of a capture: fields are read in place, the first reason that
applies ends the work, and one result is made a frame. Offsets and opcodes are this file's own,
taken from RFC 791, RFC 8200, RFC 768 and InfiniBand Architecture volume 1, chapter 9; the ICRC from
its annex A17.
"""

from struct import Struct
from typing import NamedTuple
from zlib import crc32

from ..verdict import Reason, Verdict

__all__ = ["Judgement", "NicModel"]

_TRIM, _BYPASS, _DROP = Verdict.TRIM, Verdict.BYPASS, Verdict.DROP
_R = Reason

# Sizes in bytes of RETH, ImmDt, the R_Key to invalidate, AETH, DETH, AtomicETH, AtomicAckETH.
_EXTENSION_SIZES = {"r": 16, "i": 4, "v": 4, "a": 4, "d": 8, "x": 28, "k": 8}

_SEND_WRITE = {0: "", 1: "", 2: "", 3: "i", 4: "", 5: "i",
               6: "r", 7: "", 8: "", 9: "i", 10: "r", 11: "ri"}
_WITH_PAYLOAD = {
    **_SEND_WRITE, **{0x20 + op: chain for op, chain in _SEND_WRITE.items()},
    13: "a", 14: "", 15: "a", 16: "a", 22: "v", 23: "v", 0x64: "d", 0x65: "di",
}
_WITHOUT_PAYLOAD = {12: "r", 17: "a", 18: "ak", 19: "x", 20: "x", 0x81: ""}
_ONLY = {4, 5, 10, 11, 16, 23, 0x24, 0x25, 0x2A, 0x2B, 0x64, 0x65}


def _opcode_row(opcode):
    """(extension bytes, has payload, is ONLY, offset of RETH, offset of ImmDt or IETH).

    Offsets count from the start of the BTH; 0 stands for an absent header.
    """
    chain = _WITH_PAYLOAD.get(opcode, _WITHOUT_PAYLOAD.get(opcode, ""))
    offsets, end = {}, 12
    for letter in chain:
        offsets[letter] = end
        end += _EXTENSION_SIZES[letter]
    return (end - 12, opcode in _WITH_PAYLOAD, opcode in _ONLY,
            offsets.get("r", 0), offsets.get("i", offsets.get("v", 0)))


_OPCODES = [_opcode_row(opcode) for opcode in range(256)]

_TAGS = frozenset((b"\x81\x00", b"\x88\xa8", b"\x91\x00"))
# IPv6 extension headers but the fragment header: hop-by-hop, routing, ESP, AH, destination
# options, mobility, HIP, shim6 and the two for experiments.
_EXTENSION_HEADERS = frozenset((0, 43, 50, 51, 60, 135, 139, 140, 253, 254))

_read_ipv4 = Struct(">BBHxxHxB").unpack_from    # version and IHL, TOS, length, flags, protocol
_read_ipv6 = Struct(">HxxHB").unpack_from       # version and class, length, next header
_read_udp = Struct(">HHH").unpack_from          # source port, destination port, length
_read_bth = Struct(">BB6xI").unpack_from        # opcode, flags, acknowledge request and PSN
_read_reth = Struct(">QII").unpack_from         # address, R_Key, DMA length
_read_word = Struct(">I").unpack_from


_LRH_CRC = crc32(b"\xff" * 8)    # what stands for the local route header in front


def _icrc_holds(frame, l3, l4, end):
    """Whether the last four bytes before ``end`` are the ICRC of the datagram they close."""
    masked = bytearray(frame[l3:end - 4])
    if l4 - l3 == 20:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF    # TOS, TTL, checksum
    else:
        masked[0] |= 0x0F                                         # traffic class, flow label
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF                                          # hop limit
    udp = l4 - l3
    masked[udp + 6] = masked[udp + 7] = masked[udp + 12] = 0xFF   # checksum; FECN, BECN, reserved
    return crc32(masked, _LRH_CRC).to_bytes(4, "little") == frame[end - 4:end]


class Judgement(NamedTuple):
    """What becomes of one frame.

    Every field from ``opcode`` on is one of the metadata record, in its units, and None for a
    frame without a record. A frame has a record exactly when it was admitted to trim.
    """

    verdict: Verdict
    reason: Reason
    #: Number of the flow whose key, VLAN and source port the frame has; None when the headers
    #: sent it to bypass before, or because of, that comparison.
    flow: int | None
    #: The payload that leaves, for a damaged frame what there was of it; None without record.
    payload: bytes | None
    #: What leaves by bypass; for an oversize frame its first ``max_frame`` bytes.
    bypass: bytes | None
    #: The error flag on the last beat of what leaves.
    error: bool
    opcode: int | None = None
    psn: int | None = None
    pad_count: int | None = None
    solicited: int | None = None
    ack_request: int | None = None
    ecn: int | None = None
    length: int | None = None
    cut: int | None = None
    immediate: int | None = None
    address: int | None = None
    rkey: int | None = None
    dma_length: int | None = None

    def overflowed(self):
        """The same frame where the output's queue has no room for it: nothing of it leaves.

        The reason is ``overflow`` unless a drop reason with a smaller code applies as well.
        """
        dropped = self.verdict is _DROP
        return Judgement(_DROP, self.reason if dropped else _R.OVERFLOW, self.flow,
                         None, None, False)


class NicModel:
    """Judges frames as a ``TrimNic`` with these flows does.

    Parameters
    ----------
    flows : iterable of Flow
        Registered flows; a flow's place is its number.
    max_frame : int
        Longest frame in bytes, without FCS.
    ports : iterable of int
        UDP destination ports that count as registered beside those of the flows.

    Raises ``ValueError`` when two flows have one key, or keys that differ only in VLAN or UDP
    source port.
    """

    def __init__(self, flows, max_frame=9216, ports=()):
        self.flows = tuple(flows)
        self.max_frame = max_frame
        self._ports = frozenset((*ports, *(flow.udp_dport for flow in self.flows)))
        self._table = {}
        for number, flow in enumerate(self.flows):
            other = self._table.setdefault(flow.key, (number, flow))[1]
            if other is not flow:
                raise ValueError(f"flows {other.name!r} and {flow.name!r} have one key")

    def judge(self, frame, mac_error=False):
        """What becomes of ``frame``, bytes without FCS, that the MAC marked bad or not."""
        size = len(frame)
        if size < 14:
            return self._bypass(_R.TRUNCATED_HEADER, frame, mac_error)

        ethertype, l3 = frame[12:14], 14
        while ethertype in _TAGS and l3 < 22:
            if size < l3 + 4:
                return self._bypass(_R.TRUNCATED_HEADER, frame, mac_error)
            ethertype = frame[l3 + 2:l3 + 4]
            l3 += 4

        if ethertype == b"\x08\x00":
            l4 = l3 + 20
            if size < l4:
                return self._bypass(_R.TRUNCATED_HEADER, frame, mac_error)
            first, ecn, ip_end, fragment, protocol = _read_ipv4(frame, l3)
            if fragment & 0x3FFF:
                return self._bypass(_R.FRAGMENT, frame, mac_error)
            if first & 15 > 5:
                return self._bypass(_R.IP_EXTENSION, frame, mac_error)
            # The sum of 16-bit words in ones' complement is the number modulo 2^16 - 1.
            if first != 0x45 or int.from_bytes(frame[l3:l4], "big") % 0xFFFF:
                return self._bypass(_R.IP_HEADER, frame, mac_error)
            addresses = frame[l3 + 12:l4]
            ip_end += l3
        elif ethertype == b"\x86\xdd":
            l4 = l3 + 40
            if size < l4:
                return self._bypass(_R.TRUNCATED_HEADER, frame, mac_error)
            first, ip_end, protocol = _read_ipv6(frame, l3)
            if protocol == 44:
                return self._bypass(_R.FRAGMENT, frame, mac_error)
            if protocol in _EXTENSION_HEADERS:
                return self._bypass(_R.IP_EXTENSION, frame, mac_error)
            if first >> 12 != 6:
                return self._bypass(_R.IP_HEADER, frame, mac_error)
            ecn = first >> 4
            addresses = frame[l3 + 8:l4]
            ip_end += l4
        else:
            return self._bypass(_R.NOT_IP, frame, mac_error)

        if protocol != 17:
            return self._bypass(_R.NOT_UDP, frame, mac_error)
        bth = l4 + 8
        if size < bth:
            return self._bypass(_R.TRUNCATED_HEADER, frame, mac_error)
        sport, dport, udp_length = _read_udp(frame, l4)
        if dport not in self._ports:
            return self._bypass(_R.NOT_ROCE, frame, mac_error)
        if size < bth + 12:
            return self._bypass(_R.TRUNCATED_HEADER, frame, mac_error)

        opcode, flags, ack_psn = _read_bth(frame, bth)
        extension, has_payload, only, reth, immediate = _OPCODES[opcode]
        begin = bth + 12 + extension
        if size < begin:
            return self._bypass(_R.TRUNCATED_HEADER, frame, mac_error)
        pad_count = flags >> 4 & 3
        length = udp_length - 24 - extension - pad_count
        if ip_end - l4 != udp_length or length < 0:
            return self._bypass(_R.LENGTH, frame, mac_error)

        number, flow = self._table.get(
            addresses + frame[l4 + 2:l4 + 4] + frame[bth + 5:bth + 8], (None, None))
        if flow is None or flow.disabled or (
                flow.udp_sport is not None and flow.udp_sport != sport):
            return self._bypass(_R.NO_FLOW, frame, mac_error)
        if flow.vlan is not None and (
                l3 == 14 or (frame[14] & 15) << 8 | frame[15] != flow.vlan):
            return self._bypass(_R.NO_FLOW, frame, mac_error)

        if not has_payload or flags & 15:
            return self._bypass(_R.OPCODE, frame, mac_error, number)
        cut = 0
        if only and flow.message_bytes is not None and length > flow.message_bytes:
            if flow.excess == "bypass":
                return self._bypass(_R.MESSAGE_LENGTH, frame, mac_error, number)
            cut = length - flow.message_bytes
            length = flow.message_bytes

        verdict, reason = _TRIM, _R.NONE
        end = begin + length
        if size > self.max_frame:
            verdict, reason = _DROP, _R.OVERSIZE
            end = min(end, self.max_frame)
        elif mac_error:
            verdict, reason = _DROP, _R.MAC_ERROR
        elif size < ip_end:
            verdict, reason = _DROP, _R.TRUNCATED
        elif flow.icrc == "check" and not _icrc_holds(frame, l3, l4, ip_end):
            verdict, reason = _DROP, _R.ICRC
        payload = frame[begin:end]
        return Judgement(
            verdict, reason, number, payload, None, reason is not _R.NONE,
            opcode, ack_psn & 0xFFFFFF, pad_count, flags >> 7, ack_psn >> 31, ecn & 3,
            len(payload), cut, _read_word(frame, bth + immediate)[0] if immediate else 0,
            *(_read_reth(frame, bth + reth) if reth else (0, 0, 0)))

    def _bypass(self, reason, frame, mac_error, number=None):
        """The judgement of a frame that its headers send to bypass."""
        if len(frame) > self.max_frame:
            return Judgement(_DROP, _R.OVERSIZE, number, None, frame[:self.max_frame], True)
        return Judgement(_BYPASS, reason, number, None, frame, bool(mac_error))
