# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 as a host's NIC writes and reads it: UC packets over IPv4, each a whole message.

Written from the wire formats alone, so that it can judge what a switch and its model send.
"""

import functools
import ipaddress
import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Channel", "FrameFault", "Packet"]

_HEADERS = struct.Struct(">6s6sH BBHHHBBH4s4s HHHH BBHB3sI")
_PORT = 4791
_MASKED_LRH = b"\xff" * 8
_SEND_ONLY, _SEND_ONLY_IMMEDIATE = 0x24, 0x25
_ECT, _CE = 2, 3
_ICRC_BYTES = 4
_SHORTEST = 60


class FrameFault(Exception):
    """A frame is not what it should be; the message says where."""


class Packet(NamedTuple):
    """What a packet brought; ``immediate`` is None where it has none."""

    psn: int
    payload: bytes
    immediate: int | None
    congested: bool


@dataclass(frozen=True, kw_only=True)
class Channel:
    """A one-way UC connection.

    Parameters
    ----------
    src_mac, dst_mac : bytes
        6 bytes each.
    src, dst : str
        IPv4 addresses.
    qpn : int
        Destination queue pair.
    psn : int
        Of the first packet.
    immediate : bool
        Whether packets have one.
    sport : int
        UDP source port.
    """

    src_mac: bytes
    dst_mac: bytes
    src: str
    dst: str
    qpn: int
    psn: int = 0
    immediate: bool = False
    sport: int = 49152

    @property
    def opcode(self):
        return _SEND_ONLY_IMMEDIATE if self.immediate else _SEND_ONLY

    @property
    def header_bytes(self):
        """Bytes of a frame beside its payload and pad."""
        return _HEADERS.size + 4 * self.immediate + _ICRC_BYTES

    def frame(self, payload, psn, *, immediate=0, congested=False):
        """A packet's frame, without FCS."""
        extension = immediate.to_bytes(4, "big") if self.immediate else b""
        pad = -len(payload) & 3
        head = _head(self, len(extension) + len(payload) + pad, pad, congested)
        frame = head + psn.to_bytes(4, "big") + extension + payload + bytes(pad)
        return (frame + _icrc(frame)).ljust(_SHORTEST, b"\0")

    def read(self, frame):
        """The :class:`Packet` of a frame, every field of which was looked at.

        Raises :class:`FrameFault` for the first that is not as it must be.
        """
        if len(frame) < _HEADERS.size + _ICRC_BYTES:
            raise FrameFault(f"{len(frame)} bytes are no packet")
        (dst_mac, src_mac, kind, version, tos, ip_length, _, fragment, ttl, protocol, _, src, dst,
         sport, dport, udp_length, checksum, opcode, flags, pkey, congestion, qpn, psn
         ) = _HEADERS.unpack_from(frame)
        pad = flags >> 4 & 3
        end = 14 + ip_length
        begin = self.header_bytes - _ICRC_BYTES
        for what, found, wanted in (
                ("destination MAC", dst_mac, self.dst_mac), ("source MAC", src_mac, self.src_mac),
                ("EtherType", kind, 0x0800), ("IP version", version, 0x45),
                ("fragment", fragment & 0x3FFF, 0), ("protocol", protocol, 17),
                ("IP checksum", _ones_sum(frame[14:34]), 0xFFFF),
                ("source address", src, _address(self.src)),
                ("destination address", dst, _address(self.dst)),
                ("time to live above 0", ttl > 0, True), ("ECN", tos & 3 in (_ECT, _CE), True),
                ("UDP source port", sport, self.sport), ("UDP destination port", dport, _PORT),
                ("UDP length", udp_length, ip_length - 20), ("UDP checksum", checksum, 0),
                ("opcode", opcode, self.opcode), ("header version", flags & 15, 0),
                ("P_Key", pkey, 0xFFFF), ("congestion bits", congestion, 0),
                ("queue pair", int.from_bytes(qpn, "big"), self.qpn),
                ("acknowledge request", psn >> 24, 0),
                ("room for the headers", end - _ICRC_BYTES - begin - pad >= 0, True),
                ("frame length", len(frame), max(end, _SHORTEST)),
                ("Ethernet pad", any(frame[end:]), False)):
            if found != wanted:
                raise FrameFault(f"{what} is {_shown(found)}, not {_shown(wanted)}")
        if frame[end - _ICRC_BYTES:end] != _icrc(frame[:end - _ICRC_BYTES]):
            raise FrameFault(f"ICRC is {frame[end - _ICRC_BYTES:end].hex()}, not "
                             f"{_icrc(frame[:end - _ICRC_BYTES]).hex()}")
        payload = frame[begin:end - _ICRC_BYTES - pad]
        if pad != -len(payload) & 3 or any(frame[begin + len(payload):end - _ICRC_BYTES]):
            raise FrameFault(f"pad of {pad} bytes behind {len(payload)}")
        immediate = int.from_bytes(frame[begin - 4:begin], "big") if self.immediate else None
        return Packet(psn, payload, immediate, tos & 3 == _CE)


@functools.lru_cache(4096)
def _head(channel, size, pad, congested):
    """All bytes in front of the PSN, for so many bytes behind the BTH and before the ICRC."""
    udp_length = 8 + 12 + size + _ICRC_BYTES

    def packed(checksum):
        return _HEADERS.pack(
            channel.dst_mac, channel.src_mac, 0x0800, 0x45, _CE if congested else _ECT,
            20 + udp_length, 0, 0x4000, 64, 17, checksum, _address(channel.src),
            _address(channel.dst), channel.sport, _PORT, udp_length, 0, channel.opcode, pad << 4,
            0xFFFF, 0, channel.qpn.to_bytes(3, "big"), 0)[:-4]

    return packed(0xFFFF - _ones_sum(packed(0)[14:34]))


@functools.cache
def _address(text):
    return ipaddress.IPv4Address(text).packed


def _ones_sum(data):
    """The sum of 16-bit words in ones' complement."""
    return sum(struct.unpack(f">{len(data) // 2}H", data)) % 0xFFFF or 0xFFFF


def _icrc(frame):
    """Of a frame up to it: over a masked LRH, and the IP packet without what routers change."""
    masked = bytearray(frame[14:])
    for place in (1, 8, 10, 11, 26, 27, 32):    # TOS, TTL, IP and UDP checksums, congestion bits
        masked[place] = 0xFF
    return zlib.crc32(_MASKED_LRH + masked).to_bytes(4, "little")


def _shown(value):
    return value.hex() if isinstance(value, bytes) else hex(value) if type(value) is int else value
