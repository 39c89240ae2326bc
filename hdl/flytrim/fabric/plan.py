# SPDX-License-Identifier: Apache-2.0
"""What is chosen for an AllReduce, and what follows from that: switches, slots, timers, ring."""

import functools
from dataclasses import dataclass

from ..config import WIDTHS
from .links import WIRE_OVERHEAD
from .reference import BITS
from .topology import TOPOLOGIES, Peer, topology
from .wiring import edges, switch_group

__all__ = ["DTYPES", "OPS", "AllReduce"]

OPS = ("sum", "min", "max")
DTYPES = tuple(BITS)
#: Hosts in all.
NODES = range(2, 17)
#: Of a switch that has a parent, too.
RADIX = range(2, 16)
#: Beyond these chances a run takes too long to be worth it.
MOST_CHANCE = 0.5
#: Cycles that a switch may take for a result, generously.
_SWITCH_CYCLES = 1000


@dataclass(frozen=True, kw_only=True)
class AllReduce:
    """Hosts that have ``bytes`` of their own reduced, ``rounds`` times.

    Parameters
    ----------
    nodes : int
        Hosts, 2 to 16.
    topology : str
        One of :data:`flytrim.fabric.topology.TOPOLOGIES`.
    radix : int
        Children of a switch of a tree, at the most.
    bytes : int
        Of each host and round, whole elements; 0 is a barrier.
    op, dtype : str
        One of :data:`OPS` and of :data:`DTYPES`.
    rounds : int
    loss, duplicate, reorder
        As in :class:`~flytrim.fabric.links.Link`, of each link and direction.
    seed : int
        Of data, start PSNs and links.
    width, clock_mhz : int, float
        Bits a beat and clock of the switch; links carry as many bits a cycle.
    window : int
        Packets in flight, a power of two.
    payload : int
        Bytes of a packet, whole elements.
    delay_ns : float
        Of a link, one way.

    Raises ``ValueError`` for what cannot be.
    """

    nodes: int = 8
    topology: str = "star"
    radix: int = 4
    bytes: int = 65536
    op: str = "sum"
    dtype: str = "fp32"
    rounds: int = 10
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: int = 0
    seed: int = 1
    width: int = 512
    clock_mhz: float = 250
    window: int = 128
    payload: int = 1024
    delay_ns: float = 1000

    def __post_init__(self):
        size = self.element_bytes
        for name, good, rule in (
                ("nodes", self.nodes in NODES, f"{NODES[0]} to {NODES[-1]} hosts"),
                ("topology", self.topology in TOPOLOGIES, f"one of {', '.join(TOPOLOGIES)}"),
                ("radix", self.radix in RADIX, f"{RADIX[0]} to {RADIX[-1]} children"),
                ("bytes", self.bytes >= 0 and self.bytes % size == 0,
                 f"whole elements of {size} bytes"),
                ("rounds", self.rounds >= 1, "1 or more"),
                ("loss", 0 <= self.loss <= MOST_CHANCE, f"a chance from 0 to {MOST_CHANCE}"),
                ("duplicate", 0 <= self.duplicate <= MOST_CHANCE,
                 f"a chance from 0 to {MOST_CHANCE}"),
                ("reorder", 0 <= self.reorder <= 1000, "0 to 1000 packets"),
                ("seed", self.seed >= 0, "0 or more"),
                ("width", self.width in WIDTHS, f"one of {', '.join(map(str, WIDTHS))} bits"),
                ("clock_mhz", 0 < self.clock_mhz <= 10_000, "a clock in MHz, up to 10000"),
                ("window", self.window in (1 << n for n in range(1, 13)),
                 "a power of two from 2 to 4096 packets"),
                ("payload", size <= self.payload <= 8192 and self.payload % size == 0,
                 f"whole elements of {size} bytes, 8192 bytes at most"),
                ("delay_ns", 0 < self.delay_ns <= 1_000_000, "up to 1000000 ns"),
        ):
            if not good:
                raise ValueError(f"{name} must be {rule}, not {getattr(self, name)!r}")

    @property
    def element_bytes(self):
        return BITS[self.dtype].itemsize

    @property
    def elements(self):
        return self.bytes // self.element_bytes

    @property
    def packets(self):
        """Of a round; a barrier is one, too."""
        return -(-self.bytes // self.payload) or 1

    @property
    def slot_bytes(self):
        """The switch's: a power of two that a packet and a beat fit into."""
        return max(64, self.width // 8, 1 << (self.payload - 1).bit_length())

    @property
    def rate(self):
        """Bytes a cycle of a link."""
        return self.width // 8

    @property
    def delay(self):
        """Cycles."""
        return max(1, round(self.delay_ns * self.clock_mhz / 1000))

    @functools.cached_property
    def devices(self):
        """The switches, as :func:`flytrim.fabric.topology.topology` gives them."""
        return topology(self.topology, self.nodes, self.radix)

    @functools.cached_property
    def edges(self):
        """The :class:`flytrim.fabric.wiring.Edge` of each child, host or switch."""
        return edges(self.devices, self.seed, self.packets * self.rounds)

    @property
    def ports(self):
        """Of every switch, used or not: one program serves for all."""
        return max(2, *(len(device.ports) for device in self.devices))

    @property
    def timer(self):
        """Cycles after which a contribution is sent again: more than a round trip can take."""
        hosts = (edge.device for edge in self.edges.values() if edge.child.kind == "host")
        return self._hop + max(self.resend(device) for device in hosts)

    def resend(self, number):
        """The same of a switch's contributions to its parent; 0 of one that has none."""
        parent = self.devices[number].parent
        return 0 if parent is None else self._hop + self.resend(parent.number)

    @property
    def _hop(self):
        """Cycles of a connection and back, and in the switch between.

        All that a window has in flight may wait in front of a result, and be late.
        """
        packet = -(-(self.payload + 100) // self.rate)
        return (2 * self.delay + _SWITCH_CYCLES
                + 2 * packet * (min(self.window, self.packets) + self.reorder))

    def channels(self, node):
        """A host's (contributions, results)."""
        edge = self.edges[Peer("host", node)]
        return edge.up, edge.down

    def group(self, number=0):
        """The :class:`flytrim.model.Group` that a switch is told of."""
        return switch_group(self, number)

    def ring(self):
        """(wire bytes each way of a host's link, cycles at best) of a round of ring AllReduce.

        The hosts alone do it, in 2 (nodes - 1) steps of a part of the data each, with the headers
        of contributions, without losses and acknowledgements, through a switch without latency.
        """
        part = -(-self.elements // self.nodes) * self.element_bytes
        header = self.channels(0)[0].header_bytes
        whole, rest = divmod(part, self.payload)
        sizes = [self.payload] * whole + [rest] * (rest > 0 or not whole)
        wire = sum(max(60, header + size + -size % 4) + WIRE_OVERHEAD for size in sizes)
        steps = 2 * (self.nodes - 1)
        return steps * wire, steps * (-(-wire // self.rate) + 2 * self.delay)
