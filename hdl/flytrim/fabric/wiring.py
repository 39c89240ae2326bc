# SPDX-License-Identifier: Apache-2.0
"""Addresses, queue pairs and PSNs of what goes over each connection, and the groups that say so."""

import random
from typing import NamedTuple

from ..model import Child, Flow, Group, Header
from .packets import Channel
from .topology import Peer

__all__ = ["Edge", "edges", "switch_group"]

_SWITCH_MAC, _SWITCH_BYTE = 0x0200_0000_00FE, 254
_HOST_MAC = 0x0200_0000_0100
#: First queue pair numbers: of contributions and of results, of hosts and of switches.
_UP_QPN = {"host": 0x100, "switch": 0x180}
_DOWN_QPN = {"host": 0x200, "switch": 0x280}


class Edge(NamedTuple):
    """A child, the switch that it contributes to, and the port there.

    ``up`` and ``down`` are the channels of contributions and of results.
    """

    child: Peer
    device: int
    port: int
    up: Channel
    down: Channel


def edges(devices, seed, packets):
    """All edges of a topology, by child, those of hosts first.

    PSNs begin at random, so far below their end that they wrap within so many ``packets``.
    """
    found = [_edge(child, number, port, seed, packets) for number, device in enumerate(devices)
             for port, child in enumerate(device.children)]
    return {edge.child: edge for edge in sorted(found, key=lambda edge: edge.child)}


def switch_group(plan, number):
    """The :class:`flytrim.model.Group` that switch ``number`` of a plan is told of."""
    device = plan.devices[number]
    children = []
    for port, peer in enumerate(device.children):
        edge = plan.edges[peer]
        children.append(_member(port, peer, edge.up, edge.down))
    parent = None
    if device.parent:
        own = plan.edges[Peer("switch", number)]
        parent = _member(len(children), device.parent, own.down, own.up)
    return Group("allreduce", tuple(children), op=plan.op, dtype=plan.dtype, window=plan.window,
                 parent=parent, resend=plan.resend(number))


def _edge(child, device, port, seed, packets):
    switch = Peer("switch", device)
    rng = random.Random(f"{seed} psn {child.kind} {child.number}")
    up_psn, down_psn = (-rng.randint(1, packets) % (1 << 24) for _ in range(2))
    # What a switch sends, up or down, tells of what it lacks.
    return Edge(child, device, port,
                _channel(child, switch, _UP_QPN[child.kind] + child.number, up_psn,
                         child.kind == "switch"),
                _channel(switch, child, _DOWN_QPN[child.kind] + child.number, down_psn, True))


def _channel(source, target, qpn, psn, immediate):
    (src_mac, src), (dst_mac, dst) = _address(source), _address(target)
    return Channel(src_mac=src_mac, dst_mac=dst_mac, src=src, dst=dst, qpn=qpn, psn=psn,
                   immediate=immediate)


def _address(peer):
    if peer.kind == "host":
        return (_HOST_MAC + peer.number).to_bytes(6, "big"), f"10.0.0.{peer.number + 1}"
    return ((_SWITCH_MAC - peer.number).to_bytes(6, "big"),
            f"10.0.0.{_SWITCH_BYTE - peer.number}")


def _member(port, peer, comes, leaves):
    """What a switch is told of a peer: the flow that comes from it, and headers of what leaves."""
    return Child(
        Flow(peer.name.replace(" ", ""), comes.src, comes.dst, comes.qpn), port,
        Header(src_mac=int.from_bytes(leaves.src_mac, "big"),
               dst_mac=int.from_bytes(leaves.dst_mac, "big"), src=leaves.src, dst=leaves.dst,
               dqpn=leaves.qpn, psn=leaves.psn, opcode=leaves.opcode, udp_sport=leaves.sport),
        comes.psn, relay=peer.kind == "switch")
