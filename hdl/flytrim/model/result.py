# SPDX-License-Identifier: Apache-2.0
"""The frames that results leave a switch in, header by header.

Layouts are this file's own, from RFC 791, RFC 8200, RFC 768 and InfiniBand Architecture volume 1,
chapter 9; the ICRC from its annex A17.
"""

import struct
from zlib import crc32

__all__ = ["result_frame"]

#: By opcode, the extension headers behind the BTH: d DETH, r RETH, i ImmDt.
_EXTENSIONS = {0x04: "", 0x05: "i", 0x0A: "r", 0x0B: "ri", 0x24: "", 0x25: "i", 0x2A: "r",
               0x2B: "ri", 0x64: "d", 0x65: "di"}
_MIN_FRAME = 60
_DONT_FRAGMENT = 0x4000
#: The migration state is "migrated", as that of all queue pairs that never migrate.
_MIGRATED = 0x40
#: What stands for the local route header in front of what the ICRC covers.
_LRH_CRC = crc32(b"\xff" * 8)
_CONGESTED = 3


def result_frame(header, payload, offset, *, stride, congested=False, missing=0):
    """The frame of the result of ``offset``, without FCS.

    Parameters
    ----------
    header : flytrim.model.Header
        What it leaves with.
    stride : int
        Bytes from one result's address to the next one's.
    congested : bool
        Whether a contribution met congestion.
    missing : int
        The immediate: a bit mask of the ports it was made without.
    """
    bth = _transport(header, payload, offset, stride, missing)
    length = 8 + len(bth) + 4
    udp = struct.pack(">HHHH", header.udp_sport, header.udp_dport, length, 0)
    tos = header.dscp << 2 | (_CONGESTED if congested else header.ecn)
    ip, masked_ip = (_ipv6 if header.src.version == 6 else _ipv4)(header, length, tos)
    masked = masked_ip + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:]
    icrc = crc32(masked, _LRH_CRC).to_bytes(4, "little")
    return (_ethernet(header) + ip + udp + bth + icrc).ljust(_MIN_FRAME, b"\0")


def _transport(header, payload, offset, stride, missing):
    """BTH, extension headers, payload and pad."""
    pad = -len(payload) % 4
    parts = [struct.pack(">BBHII", header.opcode, _MIGRATED | pad << 4, header.pkey, header.dqpn,
                         (header.psn + offset) % (1 << 24))]
    for letter in _EXTENSIONS[header.opcode]:
        if letter == "d":
            parts.append(struct.pack(">II", header.qkey, header.src_qp))
        elif letter == "r":
            parts.append(struct.pack(">QII", (header.va + offset * stride) % (1 << 64), header.rkey,
                                     len(payload)))
        else:
            parts.append(struct.pack(">I", missing))
    return b"".join([*parts, payload, bytes(pad)])


def _ethernet(header):
    tag = b"" if header.vlan is None else struct.pack(">HH", 0x8100, header.pcp << 13 | header.vlan)
    kind = b"\x86\xdd" if header.src.version == 6 else b"\x08\x00"
    return header.dst_mac.to_bytes(6, "big") + header.src_mac.to_bytes(6, "big") + tag + kind


def _ipv4(header, length, tos):
    """(header, header as the ICRC takes it)."""
    def packed(tos, ttl, checksum):
        return struct.pack(">BBHHHBBH", 0x45, tos, 20 + length, 0, _DONT_FRAGMENT, ttl, 17,
                           checksum) + header.src.packed + header.dst.packed

    total = sum(struct.unpack(">10H", packed(tos, header.ttl, 0)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return packed(tos, header.ttl, total ^ 0xFFFF), packed(0xFF, 0xFF, 0xFFFF)


def _ipv6(header, length, tos):
    def packed(tos, label, hops):
        return struct.pack(">IHBB", 6 << 28 | tos << 20 | label, length, 17,
                           hops) + header.src.packed + header.dst.packed

    return packed(tos, header.flow_label, header.ttl), packed(0xFF, 0xFFFFF, 0xFF)
