# SPDX-License-Identifier: Apache-2.0
"""A group as the model sees it: who is reduced together, how, and what results leave with."""

import ipaddress
from dataclasses import dataclass

from .flow import Flow

__all__ = ["Child", "Group", "Header"]


@dataclass(frozen=True, kw_only=True)
class Header:
    """The headers that results leave a port with.

    Parameters
    ----------
    src_mac, dst_mac : int
        48 bits, the first on the wire uppermost.
    src, dst : ipaddress.IPv4Address or ipaddress.IPv6Address
        Addresses, both of one kind.
    dqpn, psn : int
        Destination queue pair; PSN of the result of offset 0.
    opcode : int
        Of a whole message of SEND or WRITE.
    udp_sport, udp_dport : int
    vlan, pcp : int or None, int
        ID of the VLAN tag, none where it is None; priority.
    dscp, ecn, ttl, flow_label, pkey : int
        Fields of IP header and BTH.
    va, rkey : int
        Address of the result of offset 0 and R_Key, of a WRITE.
    qkey, src_qp : int
        Of a SEND of UD.
    """

    src_mac: int
    dst_mac: int
    src: object
    dst: object
    dqpn: int
    psn: int = 0
    opcode: int = 0x24
    udp_sport: int = 49152
    udp_dport: int = 4791
    vlan: int | None = None
    pcp: int = 0
    dscp: int = 0
    ecn: int = 2
    ttl: int = 64
    flow_label: int = 0
    pkey: int = 0xFFFF
    va: int = 0
    rkey: int = 0
    qkey: int = 0
    src_qp: int = 0

    def __post_init__(self):
        for field in ("src", "dst"):
            object.__setattr__(self, field, ipaddress.ip_address(getattr(self, field)))
        if self.src.version != self.dst.version:
            raise ValueError("header: src and dst must be of one IP version")


@dataclass(frozen=True)
class Child:
    """A member of a group: its flow, the port that enters on, the PSN it begins with.

    What it gets leaves that port with ``header``. Where it is a ``relay``, another switch, its
    immediates tell of what its payloads lack.
    """

    flow: Flow
    port: int
    header: Header
    start_psn: int = 0
    relay: bool = False


@dataclass(frozen=True)
class Group:
    """Flows that are reduced together.

    Parameters
    ----------
    name : str
        For people.
    children : tuple of Child
        In the order of summation, which is that of their ports; at most one a port.
    op : str
        ``sum``, ``min`` or ``max``.
    dtype : str
        ``fp32``, ``int32``, ``bf16`` or ``fp16``.
    nan : str
        ``propagate``: a minimum or maximum with NaN is NaN; ``ignore``: it is that of the others.
    window : int
        Packets that a child may be ahead, a power of two.
    base : int
        First of its 2 ``window`` slots, a multiple of their number.
    timeout : int
        Cycles until stragglers are told of; 0 never tells.
    parent : Child or None
        Who gets what the children have together, and answers with the result. It is a relay.
    resend : int
        Cycles until a parent is asked again; 0 never asks.
    sources, receivers : tuple of int or None
        Ports of children whose payloads are reduced, and of those that get the payload of results;
        None is all of them.
    """

    name: str
    children: tuple
    op: str = "sum"
    dtype: str = "fp32"
    nan: str = "propagate"
    window: int = 128
    base: int = 0
    timeout: int = 0
    parent: Child | None = None
    resend: int = 0
    sources: tuple | None = None
    receivers: tuple | None = None

    def __post_init__(self):
        for name in ("sources", "receivers"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.ports)

    @property
    def ports(self):
        """The ports of its children, in order."""
        return tuple(child.port for child in self.children)

    @property
    def members(self):
        """Its children and its parent, if it has one."""
        return self.children if self.parent is None else (*self.children, self.parent)

    @property
    def relays(self):
        """The ports of members whose immediates count."""
        return tuple(each.port for each in self.members if each.relay or each is self.parent)
