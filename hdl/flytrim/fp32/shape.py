# SPDX-License-Identifier: Apache-2.0
"""Which children a node of a reduction stands for, and where results leave."""

from dataclasses import dataclass

from amaranth.utils import ceil_log2

__all__ = ["Shape"]


@dataclass(frozen=True)
class Shape:
    """A balanced tree over the children, in their order, and where results leave it.

    Neighbours are joined level by level; one without a neighbour goes up as it is. So a node of
    level k stands for an aligned block of 2**k children, or what there is of it.

    Attributes
    ----------
    children : int
        2 to 64.
    taps : int
        Levels below the root whose nodes have outputs of their own: 0 for none, 1 for the halves,
        2 for the quarters, too, up to all but the children themselves.
    """

    children: int
    taps: int = 0

    def __post_init__(self):
        if not 2 <= self.children <= 64:
            raise ValueError(f"a reduction has 2 to 64 children, not {self.children!r}")
        if not 0 <= self.taps < self.levels:
            raise ValueError(f"taps of {self.children} children lie on 0 to {self.levels - 1} "
                             f"levels below the root, not on {self.taps!r}")

    @property
    def levels(self):
        return ceil_log2(self.children)

    def nodes(self, level):
        """How many there are on this level; level 0 is the children."""
        return -(-self.children >> level)

    def span(self, level, n):
        """The children of a node."""
        return range(n << level, min(n + 1 << level, self.children))

    @property
    def blocks(self):
        """How many blocks of children have controls of their own: the nodes of the lowest taps."""
        return self.nodes(self.levels - self.taps)

    def block(self, level, n):
        """The block that a node's first child is in."""
        return n << level >> self.levels - self.taps

    def blocks_of(self, level, n):
        span = self.span(level, n)
        return range(self.block(0, span[0]), self.block(0, span[-1]) + 1)

    @property
    def outputs(self):
        """(level, node) of each output: the root, the halves, the quarters.

        A node of a single child has none.
        """
        return [(level, n) for level in range(self.levels, self.levels - self.taps - 1, -1)
                for n in range(self.nodes(level)) if len(self.span(level, n)) > 1]
