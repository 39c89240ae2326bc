# SPDX-License-Identifier: Apache-2.0
"""The frames that results leave a switch in, header by header.

Layouts are this file's own, from RFC 791, RFC 8200, RFC 768 and InfiniBand Architecture volume 1,
chapter 9; the ICRC from its annex A17.
"""

import ipaddress
import struct
from dataclasses import dataclass
from zlib import crc32

__all__ = ["Template"]

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


@dataclass(frozen=True, kw_only=True)
class Template:
    """The headers that results of a group leave a port with.

    Parameters
    ----------
    dst_mac, src_mac : int
        MAC addresses, 02:00:00:00:00:01 as 0x0200_0000_0001.
    src, dst : str or ipaddress address
        IP addresses, both of one kind.
    qpn, psn : int
        Destination queue pair; PSN of the result of offset 0.
    opcode : int
        An ONLY opcode of UC, RC or UD.
    vlan_tci : int or None
        The VLAN tag, where there is one.
    va, rkey : int
        Address of the result of offset 0 and R_Key of a RETH; ``rkey`` is the Q_Key of a UD packet.
    src_qp : int
        Source queue pair of a UD packet.
    dscp, ecn, ttl, flow_label, sport, dport, pkey : int
        Fields of their names; ``ecn`` is that of results that met no congestion.
    """

    dst_mac: int
    src_mac: int
    src: object
    dst: object
    qpn: int
    psn: int = 0
    opcode: int = 0x24
    vlan_tci: int | None = None
    va: int = 0
    rkey: int = 0
    src_qp: int = 0
    dscp: int = 0
    ecn: int = 2
    ttl: int = 64
    flow_label: int = 0
    sport: int = 49152
    dport: int = 4791
    pkey: int = 0xFFFF

    def __post_init__(self):
        for name in ("src", "dst"):
            object.__setattr__(self, name, ipaddress.ip_address(getattr(self, name)))
        if self.src.version != self.dst.version:
            raise ValueError(f"{self.src} and {self.dst} are of two IP versions")
        if self.opcode not in _EXTENSIONS:
            raise ValueError(f"opcode {self.opcode:#04x} is none of a whole message")

    def frame(self, payload, offset, *, stride, congested=False, missing=0):
        """The frame of the result of ``offset``, without FCS.

        ``stride`` is the bytes from one result's address to the next one's, ``missing`` the
        immediate, ``congested`` whether a contribution met congestion.
        """
        bth = self._transport(payload, offset, stride, missing)
        length = 8 + len(bth) + 4
        udp = struct.pack(">HHHH", self.sport, self.dport, length, 0)
        tos = self.dscp << 2 | (_CONGESTED if congested else self.ecn)
        ip, masked_ip = (self._ipv6 if self.src.version == 6 else self._ipv4)(length, tos)
        masked = (masked_ip + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:])
        icrc = crc32(masked, _LRH_CRC).to_bytes(4, "little")
        return (self._ethernet() + ip + udp + bth + icrc).ljust(_MIN_FRAME, b"\0")

    def _transport(self, payload, offset, stride, missing):
        """BTH, extension headers, payload and pad."""
        pad = -len(payload) % 4
        parts = [struct.pack(">BBHII", self.opcode, _MIGRATED | pad << 4, self.pkey, self.qpn,
                             (self.psn + offset) % (1 << 24))]
        for letter in _EXTENSIONS[self.opcode]:
            if letter == "d":
                parts.append(struct.pack(">II", self.rkey, self.src_qp))
            elif letter == "r":
                parts.append(struct.pack(">QII", (self.va + offset * stride) % (1 << 64), self.rkey,
                                         len(payload)))
            else:
                parts.append(struct.pack(">I", missing))
        return b"".join([*parts, payload, bytes(pad)])

    def _ethernet(self):
        tag = b"" if self.vlan_tci is None else struct.pack(">HH", 0x8100, self.vlan_tci)
        kind = b"\x86\xdd" if self.src.version == 6 else b"\x08\x00"
        return self.dst_mac.to_bytes(6, "big") + self.src_mac.to_bytes(6, "big") + tag + kind

    def _ipv4(self, length, tos):
        """(header, header as the ICRC takes it)."""
        def header(tos, ttl, checksum):
            return struct.pack(">BBHHHBBH", 0x45, tos, 20 + length, 0, _DONT_FRAGMENT, ttl, 17,
                               checksum) + self.src.packed + self.dst.packed

        words = struct.unpack(">10H", header(tos, self.ttl, 0))
        total = sum(words)
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return header(tos, self.ttl, total ^ 0xFFFF), header(0xFF, 0xFF, 0xFFFF)

    def _ipv6(self, length, tos):
        def header(tos, label, hops):
            return struct.pack(">IHBB", 6 << 28 | tos << 20 | label, length, 17,
                               hops) + self.src.packed + self.dst.packed

        return header(tos, self.flow_label, self.ttl), header(0xFF, 0xFFFFF, 0xFF)
