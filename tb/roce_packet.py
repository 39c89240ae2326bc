# SPDX-License-Identifier: Apache-2.0
"""One RoCEv2 frame as a set of fields, written out through Scapy or, for volume, ``struct``.

Expectations are read from the Scapy packet; ``test_frames.py`` holds the two writers against each
other. Frames are plain bytes without FCS.
"""

import dataclasses
import functools
import ipaddress
import struct

import roce
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

__all__ = ["RocePacket"]


@functools.cache
def _packed(address):
    return ipaddress.ip_address(address).packed


@dataclasses.dataclass(kw_only=True, slots=True)
class RocePacket:
    """One RoCEv2 frame to be. Lengths, pad and checksums that are None come out right.

    ``opcode`` is a name of :data:`roce.OPCODES` or a number. ``vlans`` holds the tags from the
    outermost on, each (TPID, TCI). ``tail`` stands behind the IP datagram, before zeros to
    ``minimum`` bytes. ``pad`` is the pad count. ``icrc`` is four bytes where it is to be wrong.
    """

    opcode: int | str
    payload: bytes = b""
    src: str = "10.0.0.1"
    dst: str = "10.0.0.9"
    dqpn: int = 0x11
    udp_dport: int = roce.UDP_PORT
    udp_sport: int = 49152
    vlans: tuple = ()
    psn: int = 0
    pad: int | None = None
    icrc: bytes | None = None
    tail: bytes = b""
    minimum: int = 60
    ip_length: int | None = None
    ip_checksum: int | None = None
    udp_length: int | None = None
    udp_checksum: int = 0
    tos: int = 0
    ttl: int = 64
    identification: int = 0
    flow_label: int = 0
    solicited: int = 0
    migreq: int = 1
    tver: int = 0
    pkey: int = 0xFFFF
    fecn: int = 0
    becn: int = 0
    reserved: int = 0
    reserved7: int = 0
    ack_request: int = 0
    immediate: int = 0
    address: int = 0
    rkey: int = 0
    dma_length: int = 0
    syndrome: int = 0x1F
    msn: int = 0
    qkey: int = 0
    src_qp: int = 0
    swap: int = 0
    compare: int = 0
    original: int = 0
    src_mac: str = "02:00:00:00:00:01"
    dst_mac: str = "02:00:00:00:00:09"

    def __post_init__(self):
        self.opcode = roce.OPCODES.get(self.opcode, self.opcode)
        self.src, self.dst = str(self.src), str(self.dst)

    def to_scapy(self):
        """The packet in Scapy's layers; ``roce.build`` gives its bytes."""
        types = [tpid for tpid, _ in self.vlans] + [0x86DD if ":" in self.src else 0x0800]
        packet = Ether(src=self.src_mac, dst=self.dst_mac, type=types[0])
        for (_, tci), ethertype in zip(self.vlans, types[1:], strict=True):
            packet /= Dot1Q(prio=tci >> 13, dei=tci >> 12 & 1, vlan=tci & 0xFFF, type=ethertype)
        if ":" in self.src:
            packet /= IPv6(src=self.src, dst=self.dst, tc=self.tos, fl=self.flow_label,
                           hlim=self.ttl, plen=self.ip_length)
        else:
            packet /= IP(src=self.src, dst=self.dst, tos=self.tos, ttl=self.ttl, flags="DF",
                         id=self.identification, len=self.ip_length, chksum=self.ip_checksum)
        packet /= UDP(sport=self.udp_sport, dport=self.udp_dport, len=self.udp_length,
                      chksum=self.udp_checksum)
        names = {field.name for field in roce.BTH.fields_desc} & set(self.__slots__)
        values = {name: getattr(self, name) for name in names - {"pad"}}
        packet /= roce.BTH(dest_qp=self.dqpn, pad_count=self.pad, **values)
        for layer in roce.EXTENSIONS.get(self.opcode, ()):
            packet /= layer(**{field.name: getattr(self, field.name)
                               for field in layer.fields_desc if field.name in self.__slots__})
        return packet / Raw(self.payload) if self.payload else packet

    def ip_offset(self):
        """Where the IP header starts."""
        return 14 + 4 * len(self.vlans)

    def ip_overhead(self):
        """What the IP header's length field counts beside the UDP datagram, in bytes."""
        return 0 if ":" in self.src else 20

    def udp_size(self):
        """The true size of the UDP datagram in bytes."""
        return 8 + 12 + len(self._body()[0]) + 4

    def _body(self):
        """What stands between BTH and ICRC, and the pad count."""
        chain = roce.EXTENSIONS.get(self.opcode, ())
        body = b"".join([self._extension(layer) for layer in chain]) + self.payload
        pad = -len(body) % 4 if self.pad is None else self.pad
        return body + bytes(pad), pad

    def to_bytes(self):
        """The frame's bytes."""
        body, pad = self._body()
        bth = struct.pack(
            ">BBHII", self.opcode,
            self.solicited << 7 | self.migreq << 6 | pad << 4 | self.tver, self.pkey,
            self.fecn << 31 | self.becn << 30 | self.reserved << 24 | self.dqpn,
            self.ack_request << 31 | self.reserved7 << 24 | self.psn)
        size = 8 + 12 + len(body) + 4
        udp = struct.pack(">HHHH", self.udp_sport, self.udp_dport,
                          size if self.udp_length is None else self.udp_length, self.udp_checksum)
        datagram = self._ip(size) + udp + bth + body
        frame = self._ethernet() + datagram + (self.icrc or roce.masked_icrc(datagram))
        frame += self.tail
        return frame.ljust(self.minimum, b"\0")

    def _ethernet(self):
        link = bytes.fromhex((self.dst_mac + self.src_mac).replace(":", ""))
        tags = b"".join([struct.pack(">HH", *tag) for tag in self.vlans])
        return link + tags + (b"\x86\xdd" if ":" in self.src else b"\x08\x00")

    def _ip(self, size):
        src, dst = _packed(self.src), _packed(self.dst)
        if ":" in self.src:
            length = size if self.ip_length is None else self.ip_length
            return struct.pack(">IHBB", 6 << 28 | self.tos << 20 | self.flow_label, length, 17,
                               self.ttl) + src + dst
        length = 20 + size if self.ip_length is None else self.ip_length
        words = [0x4500 | self.tos, length, self.identification, 0x4000, self.ttl << 8 | 17,
                 0, *struct.unpack(">4H", src + dst)]
        words[5] = -sum(words) % 0xFFFF if self.ip_checksum is None else self.ip_checksum
        return struct.pack(">10H", *words)

    def _extension(self, layer):
        if layer is roce.RETH:
            return struct.pack(">QII", self.address, self.rkey, self.dma_length)
        if layer is roce.ImmDt:
            return struct.pack(">I", self.immediate)
        if layer is roce.IETH:
            return struct.pack(">I", self.rkey)
        if layer is roce.AETH:
            return struct.pack(">I", self.syndrome << 24 | self.msn)
        if layer is roce.DETH:
            return struct.pack(">II", self.qkey, self.src_qp)
        if layer is roce.AtomicETH:
            return struct.pack(">QIQQ", self.address, self.rkey, self.swap, self.compare)
        return struct.pack(">Q", self.original)
