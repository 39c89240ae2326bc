# SPDX-License-Identifier: Apache-2.0
"""Which nodes of the tree over all ports have results, and which blocks of ports they take."""

from dataclasses import dataclass

from ..fp32.shape import Shape

__all__ = ["MAX_TAPS", "Nodes"]

#: Levels below the root with results of their own: halves and quarters.
MAX_TAPS = 2


@dataclass(frozen=True)
class Node:
    """An output of the tree: ``ports`` below it, in ``blocks``, the first of which leads."""

    number: int
    level: int
    ports: range
    blocks: range

    @property
    def lead(self):
        return self.blocks[0]

    def above(self, other):
        """Whether ``other`` is a part of this one."""
        return other is not self and other.blocks[0] in self.blocks and (
            len(other.blocks) < len(self.blocks))


class Nodes:
    """The nodes of a switch: all ports, halves and quarters, as far as these have two ports.

    Attributes
    ----------
    shape : flytrim.fp32.shape.Shape
    blocks : list of range
        Ports of each block: those of the narrowest nodes.
    """

    def __init__(self, ports):
        self.shape = Shape(ports, min(MAX_TAPS, Shape(ports).levels - 1))
        shape = self.shape
        self.nodes = [Node(number, level, shape.span(level, n), shape.blocks_of(level, n))
                      for number, (level, n) in enumerate(shape.outputs)]
        base = shape.levels - shape.taps
        self.blocks = [shape.span(base, n) for n in range(shape.blocks)]

    def __iter__(self):
        return iter(self.nodes)

    def __len__(self):
        return len(self.nodes)

    def led_by(self, block):
        """The nodes whose first block this is, widest first."""
        return [node for node in self.nodes if node.lead == block]

    def covering(self, block):
        return [node for node in self.nodes if block in node.blocks]

    @property
    def leads(self):
        """The blocks that lead a node."""
        return [block for block in range(len(self.blocks)) if self.led_by(block)]
