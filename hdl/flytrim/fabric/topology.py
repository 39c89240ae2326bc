# SPDX-License-Identifier: Apache-2.0
"""Who is connected to whom: hosts and switches in a star, a tree or a ring."""

from typing import NamedTuple

__all__ = ["TOPOLOGIES", "Device", "Peer", "topology"]

TOPOLOGIES = ("star", "tree", "ring")


class Peer(NamedTuple):
    """A host or a switch, which are numbered apart."""

    kind: str   # "host" or "switch"
    number: int

    @property
    def name(self):
        return f"{self.kind} {self.number}"


class Device(NamedTuple):
    """A switch: its children at ports 0 and up, and its parent at the port behind them, or None."""

    children: tuple
    parent: Peer | None

    @property
    def ports(self):
        """The peer at each port."""
        return self.children if self.parent is None else (*self.children, self.parent)


def topology(name, nodes, radix):
    """The switches of a topology, a tuple of :class:`Device`; the root is the last one.

    Parameters
    ----------
    name : str
        ``star``: one switch. ``tree``: switches of ``radix`` children at the most, as alike as can
        be, level by level up to one. ``ring``: a switch a host, each the parent of the one before;
        what they have together comes back the same way from the last one.
    nodes : int
        Hosts.
    radix : int
        Children of a switch, of a tree alone.
    """
    level = [Peer("host", node) for node in range(nodes)]
    groups = []
    if name == "ring":
        for node, host in enumerate(level):
            groups.append((Peer("switch", node - 1), host) if node else (host,))
    else:
        while not groups or len(level) > 1:
            above = _shared_out(level, len(level) if name == "star" else radix)
            level = [Peer("switch", len(groups) + n) for n in range(len(above))]
            groups += above
    parents = {child.number: Peer("switch", number) for number, children in enumerate(groups)
               for child in children if child.kind == "switch"}
    return tuple(Device(tuple(children), parents.get(number))
                 for number, children in enumerate(groups))


def _shared_out(peers, most):
    """In their order, among as few as there can be with so many each at the most."""
    count = -(-len(peers) // most)
    ends = [len(peers) * n // count for n in range(count + 1)]
    return [peers[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
