# SPDX-License-Identifier: Apache-2.0
"""What becomes of a frame as Scapy reads its headers: a second opinion on the reference model.

Layers 2 to 4 are Scapy's, the transport header is that of :mod:`roce`, and the order of the reasons
is written down here once more: nothing of flytrim is used.
"""

from typing import NamedTuple

import roce
from frames import FLOWS, PAYLOAD
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, _IPv6ExtHdr, ipv6nhcls
from scapy.layers.l2 import Dot1Q, Ether
from scapy.utils import checksum

__all__ = ["Opinion", "opinion"]

_SIZES = {layer: len(layer()) for layer in (Ether, Dot1Q, IP, IPv6, UDP)} | {roce.BTH: 12}
_TPIDS, _IPV4, _IPV6 = (0x8100, 0x88A8, 0x9100), 0x0800, 0x86DD
_PORTS = {flow.udp_dport for flow in FLOWS}
_PAYLOAD = {roce.OPCODES[name]: name for name in PAYLOAD}
#: Next headers of IPv6 that Scapy has no layer of its own for: these it cannot tell from protocols.
_UNTOLD = {50, 51, 135, 139, 140, 253, 254}


class Opinion(NamedTuple):
    """A verdict by name, the reasons it may have, and for ``trim`` the payload."""

    verdict: str
    reasons: tuple
    payload: bytes | None = None


class _Bypass(Exception):
    """The headers show that a frame is not to be trimmed; the arguments are possible reasons."""


class _Reader:
    """Reads one header after the other."""

    def __init__(self, frame):
        self.frame, self.at = frame, 0

    def read(self, layer):
        """The next header as ``layer``."""
        header = self.frame[self.at:self.at + _SIZES[layer]]
        if len(header) < _SIZES[layer]:
            raise _Bypass("truncated_header")
        self.at += len(header)
        return layer(header)


def opinion(frame, error=False, max_frame=9216):
    """The :class:`Opinion` on a frame that the MAC marked bad or not."""
    try:
        flow, bth, l3, end, begin = _headers(frame)
        size, limit = end - 4 - bth.pad_count - begin, flow.message_bytes
        if limit is not None and size > limit and "ONLY" in _PAYLOAD[bth.opcode]:
            if flow.excess != "cut":
                raise _Bypass("message_length")
            size = limit
    except _Bypass as bypass:
        if len(frame) > max_frame:
            return Opinion("drop", ("oversize",))
        return Opinion("bypass", bypass.args)
    if len(frame) > max_frame:
        return Opinion("drop", ("oversize",))
    if error:
        return Opinion("drop", ("mac_error",))
    if len(frame) < end:
        return Opinion("drop", ("truncated",))
    if flow.icrc != "ignore" and frame[end - 4:end] != roce.masked_icrc(frame[l3:end - 4]):
        return Opinion("drop", ("icrc",))
    return Opinion("trim", ("none",), frame[begin:begin + size])


def _headers(frame):
    """(flow, BTH, start of IP, end of the datagram, start of the payload) of what is to trim."""
    reader = _Reader(frame)
    # An 802.3 length makes it another layer to Scapy, without a type.
    ethertype, tags = getattr(reader.read(Ether), "type", None), []
    while ethertype in _TPIDS and len(tags) < 2:
        tags.append(reader.read(Dot1Q))
        ethertype = tags[-1].type
    l3 = reader.at
    if ethertype == _IPV4:
        ip, size = _ipv4(reader)
    elif ethertype == _IPV6:
        ip, size = _ipv6(reader)
    else:
        raise _Bypass("not_ip")
    udp = reader.read(UDP)
    if udp.dport not in _PORTS:
        raise _Bypass("not_roce")
    bth = reader.read(roce.BTH)
    begin = reader.at + sum(len(layer()) for layer in roce.EXTENSIONS.get(bth.opcode, ()))
    if len(frame) < begin:
        raise _Bypass("truncated_header")
    end = reader.at - _SIZES[roce.BTH] - _SIZES[UDP] + udp.len
    if udp.len != size or begin + bth.pad_count + 4 > end:
        raise _Bypass("length")
    for flow in FLOWS:
        key = flow.src, flow.dst, flow.dqpn, flow.udp_dport
        if (key == (ip.src, ip.dst, bth.dest_qp, udp.dport)
                and flow.udp_sport in (None, udp.sport)
                and (flow.vlan is None or tags and flow.vlan == tags[0].vlan)):
            break
    else:
        raise _Bypass("no_flow")
    if bth.opcode not in _PAYLOAD or bth.tver:
        raise _Bypass("opcode")
    return flow, bth, l3, end, begin


def _ipv4(reader):
    """The header, and how many bytes it says are behind it."""
    start = reader.at
    ip = reader.read(IP)
    if ip.flags.MF or ip.frag:
        raise _Bypass("fragment")
    if ip.ihl > 5:
        raise _Bypass("ip_extension")
    if ip.version != 4 or ip.ihl < 5 or checksum(reader.frame[start:reader.at]):
        raise _Bypass("ip_header")
    if ip.proto != 17:
        raise _Bypass("not_udp")
    return ip, ip.len - 20


def _ipv6(reader):
    ip = reader.read(IPv6)
    layer = ipv6nhcls.get(ip.nh)
    if ip.nh == 44:
        raise _Bypass("fragment")
    if isinstance(layer, type) and issubclass(layer, _IPv6ExtHdr):
        raise _Bypass("ip_extension")
    if ip.nh in _UNTOLD:
        raise _Bypass("ip_extension", "not_udp", "ip_header")
    if ip.version != 6:
        raise _Bypass("ip_header")
    if layer is not UDP:
        raise _Bypass("not_udp")
    return ip, ip.plen
