# SPDX-License-Identifier: Apache-2.0
"""Traffic beside RoCEv2, by Scapy: what a NIC sees that must leave as it came.

Slow to build: benches take it from ``frames.background_frames``, which builds each frame once.
Functions that take a packet wrap a Scapy packet from ``frames.roce_packet`` into something that
hides it from a parser.
"""

from scapy.contrib.lldp import (
    LLDPDU,
    LLDPDUChassisID,
    LLDPDUEndOfLLDPDU,
    LLDPDUPortID,
    LLDPDUTimeToLive,
)
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, fragment
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, LLC, SNAP, Dot1Q, Dot3, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

__all__ = ["IPV6_EXTENSIONS", "arp", "fragments", "icmp", "icmp6", "ieee8023", "ipv4_options",
           "ipv6_chain", "lldp", "mpls", "pause", "rocev1", "tcp", "tcp6", "triple_tag", "udp",
           "udp_packet", "vxlan"]

_MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:09"}
_IP = {"src": "10.0.0.1", "dst": "10.0.0.9"}
_IP6 = {"src": "fd00::1", "dst": "fd00::9"}

#: Extension headers of :func:`ipv6_chain`, by name.
IPV6_EXTENSIONS = {
    "hop-by-hop": lambda: IPv6ExtHdrHopByHop(),
    "routing": lambda: IPv6ExtHdrRouting(),
    "fragment": lambda: IPv6ExtHdrFragment(id=1),
    "fragment-more": lambda: IPv6ExtHdrFragment(m=1, offset=8, id=1),
    "destination": lambda: IPv6ExtHdrDestOpt(),
    "authentication": lambda: AH(spi=1, seq=1, icv=bytes(12)),
    "hop-by-hop, fragment": lambda: IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment(id=1),
}


def _link(vlan=None, outer=None):
    packet = Ether(**_MACS, type=0x88A8) / Dot1Q(vlan=outer) if outer else Ether(**_MACS)
    return packet / Dot1Q(vlan=vlan) if vlan else packet


def _padded(packet):
    return bytes(packet).ljust(60, b"\0")


def arp(vlan=None):
    """An ARP request."""
    return _padded(_link(vlan) / ARP(psrc=_IP["src"], pdst=_IP["dst"], hwsrc=_MACS["src"]))


def lldp():
    """An LLDP announcement."""
    return _padded(Ether(src=_MACS["src"], dst="01:80:c2:00:00:0e") / LLDPDU()
                   / LLDPDUChassisID(subtype=4, id=_MACS["src"]) / LLDPDUPortID(subtype=5, id=b"p1")
                   / LLDPDUTimeToLive(ttl=120) / LLDPDUEndOfLLDPDU())


def pause():
    """A MAC control frame: PFC."""
    return _padded(Ether(src=_MACS["src"], dst="01:80:c2:00:00:01", type=0x8808)
                   / Raw(b"\x01\x01\x00\x08" + bytes(16)))


def ieee8023(snap=False):
    """An 802.3 frame with a length in the place of the EtherType."""
    llc = LLC() / SNAP(code=0x0800) / IP(**_IP) if snap else LLC(dsap=0x42, ssap=0x42, ctrl=3)
    return _padded(Dot3(**_MACS) / llc / Raw(bytes(35)))


def rocev1():
    """RoCEv1: a GRH and a BTH under an EtherType of their own."""
    grh = IPv6(**_IP6, nh=0x1B, plen=20)
    return _padded(Ether(**_MACS, type=0x8915) / grh
                   / Raw(b"\x04\x40\xff\xff" + bytes(3) + b"\x11" + bytes(12)))


def mpls():
    """IPv4 under an MPLS label."""
    return _padded(Ether(**_MACS) / MPLS(label=16, s=1) / IP(**_IP) / UDP(dport=4791)
                   / Raw(bytes(24)))


def tcp(size=0, vlan=None, outer=None):
    """A TCP segment; a pure ACK carries no bytes and is padded."""
    return _padded(_link(vlan, outer) / IP(**_IP) / TCP(sport=40000, dport=22, flags="A")
                   / Raw(bytes(size)))


def tcp6():
    """A TCP segment over IPv6."""
    return _padded(_link() / IPv6(**_IP6) / TCP(sport=40000, dport=22, flags="A"))


def icmp():
    """A ping."""
    return _padded(_link() / IP(**_IP) / ICMP() / Raw(bytes(56)))


def icmp6():
    """A ping over IPv6."""
    return _padded(_link() / IPv6(**_IP6) / ICMPv6EchoRequest(data=bytes(56)))


def udp_packet(dport=53, size=32):
    """A UDP datagram that holds zeros, as Scapy layers."""
    return _link() / IP(**_IP) / UDP(sport=40000, dport=dport) / Raw(bytes(size))


def udp(dport=53, size=32):
    """A UDP datagram that holds zeros."""
    return _padded(udp_packet(dport, size))


def triple_tag(packet):
    """``packet`` under one VLAN tag more than flytrim follows."""
    tags = Dot1Q(vlan=1, type=0x8100) / Dot1Q(vlan=2, type=0x9100) / Dot1Q(vlan=3, type=packet.type)
    return bytes(Ether(**_MACS, type=0x88A8) / tags / packet.payload.copy())


def fragments(packet, size=24):
    """``packet`` in IPv4 fragments of ``size`` bytes."""
    packet = packet.copy()
    packet[IP].flags = 0
    return [_padded(part) for part in fragment(packet, size if len(packet) < 200 else 1480)]


def ipv4_options(packet):
    """``packet`` with four bytes of IPv4 options."""
    packet = packet.copy()
    packet[IP].options = [IPOption_NOP()] * 4
    return bytes(packet)


def ipv6_chain(packet, kind):
    """``packet`` with extension headers before its UDP header; ``kind`` names them."""
    link = packet.copy()
    link[IPv6].remove_payload()
    return bytes(link / IPV6_EXTENSIONS[kind]() / packet[UDP].copy())


def vxlan(packet):
    """``packet`` inside a VXLAN tunnel."""
    return bytes(_link() / IP(**_IP) / UDP(sport=40000, dport=4789) / VXLAN(vni=7) / packet.copy())
