# SPDX-License-Identifier: Apache-2.0
"""What the slots of a switch cost, and the rate that they sustain."""

import math
from dataclasses import dataclass

from .config import SwitchConfig
from .reduction.nodes import Nodes

__all__ = ["KINDS", "PARTS", "Blocks", "Memory", "Part", "Rate", "memories", "rate"]



@dataclass(frozen=True)
class Blocks:
    """A kind of memory block: its name, and (bits, rows) of each shape that it can have."""

    name: str
    shapes: tuple

    def needed(self, bits, rows):
        """How many blocks hold so many rows of so many bits."""
        return min(-(-bits // wide) * -(-rows // deep) for wide, deep in self.shapes)


# AMD UG573, UltraScale Architecture Memory Resources; Lattice FPGA-TN-02204, ECP5 Memory Usage.
BRAM36 = Blocks("BRAM36", ((72, 512), (36, 1024), (18, 2048), (9, 4096)))
URAM288 = Blocks("URAM288", ((72, 4096),))
EBR18 = Blocks("EBR18", ((36, 512), (18, 1024), (9, 2048)))
#: What memories are told in where no part is named.
KINDS = (BRAM36, URAM288)


@dataclass(frozen=True)
class Memory:
    """Memories of one kind: what they hold, how many there are, and what each is."""

    name: str
    count: int
    bits: int
    rows: int

    @property
    def total_bits(self):
        return self.count * self.bits * self.rows

    def blocks(self, kind):
        """How many :class:`Blocks` of a kind all of them take."""
        return self.count * kind.needed(self.bits, self.rows)


@dataclass(frozen=True)
class Part:
    """A device and its memory: (blocks, how many it has), the largest blocks first."""

    name: str
    memory: tuple

    def placed(self, wanted):
        """Blocks that ``wanted`` memories take, by name: (taken, how many there are).

        Each memory goes whole into the first kind of blocks that has room for it, and into the last
        kind where none has, of which then more are taken than there are.
        """
        taken = [0] * len(self.memory)
        for memory in wanted:
            needs = [kind.needed(memory.bits, memory.rows) for kind, _ in self.memory]
            for _ in range(memory.count):
                place = next((n for n, (_, count) in enumerate(self.memory)
                              if taken[n] + needs[n] <= count), -1)
                taken[place] += needs[place]
        return {kind.name: (used, count)
                for used, (kind, count) in zip(taken, self.memory, strict=True)}


#: Parts by name. AMD DS965, DS962, DS963 for the Alveo cards; Lattice FPGA-DS-02012 for ECP5.
PARTS = {part.name: part for part in (
    Part("u50", ((URAM288, 640), (BRAM36, 1344))),
    Part("u250", ((URAM288, 1280), (BRAM36, 2688))),
    Part("u280", ((URAM288, 960), (BRAM36, 2016))),
    Part("ecp5-85", ((EBR18, 208),)),
)}


def memories(config):
    """The :class:`Memory` kinds of a :class:`SwitchConfig`'s slots."""
    # A bit of parity for each word.
    bits, rows = config.width + config.width // 32, config.slots * config.slot_beats
    blocks = len(Nodes(config.ports).leads)
    return (Memory("payload", config.ports, bits, rows), Memory("results", blocks, bits, rows))


@dataclass(frozen=True)
class Rate:
    """What a child of a group can send for ever, in Gb/s of payload.

    ``line`` is what link and data path let through, ``sustained`` the rate of a group that has the
    whole window, ``shared`` that of each of as many groups as there may be, with equal windows of
    ``share`` packets, or None where there are fewer packets than groups. ``enough`` is the window,
    a power of two, that sustains the line rate.
    """

    line: float
    sustained: float
    shared: float | None
    share: int
    enough: int


def rate(config: SwitchConfig, *, clock_mhz, link_gbps, rtt_us, straggle_us):
    """The :class:`Rate` of a switch.

    A packet's place in the window is free again once its result has come back and the next one has
    arrived: a round trip and what the slowest child is behind.
    """
    line = min(link_gbps, config.width * clock_mhz / 1000)
    turn_us, payload_kbit = rtt_us + straggle_us, 8 * config.slot_bytes / 1000

    def sustained(window):
        return min(line, window * payload_kbit / turn_us)

    share = config.window >> (config.groups - 1).bit_length()
    # A ratio of decimals may be a hair beyond a whole number.
    packets = math.ceil(line * turn_us / payload_kbit - 1e-9)
    return Rate(line, sustained(config.window), sustained(share) if share else None, share,
                1 << max(0, packets - 1).bit_length())
