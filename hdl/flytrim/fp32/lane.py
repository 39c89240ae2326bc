# SPDX-License-Identifier: Apache-2.0
"""One lane of a reduction: of each child one number, joined with those of its neighbours."""

import functools
import operator

from amaranth import Module, Mux
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..logic import delayed
from .adder import check_latency
from .node import Node
from .plain import Plain

__all__ = ["OnceLane", "TreeLane"]

#: Of a node that makes no sum of numbers, in cycles.
PLAIN_LATENCY = 2


class Lane(wiring.Component):
    """A number of each child in, one at each output of the tree out, in every cycle.

    There is neither stall nor reset.

    Attributes
    ----------
    shape : Shape
    latencies : list of int
        Cycles to each output.

    Members
    -------
    x : of each child; an absent one brings what changes no result
    op : bits of :class:`~flytrim.fp32.node.Operation`, for each block of children
    integer : operands and result are integers, for each block
    z, flags : of each output; flags from bit 4: invalid, 0, overflow, underflow, inexact
    """

    def __init__(self, shape, latencies):
        self.shape, self.latencies = shape, latencies
        outputs = len(shape.outputs)
        super().__init__({
            "x": In(data.ArrayLayout(32, shape.children)),
            "op": In(data.ArrayLayout(3, shape.blocks)), "integer": In(shape.blocks),
            "z": Out(data.ArrayLayout(32, outputs)), "flags": Out(data.ArrayLayout(5, outputs))})

    def tree(self, m, make, latency):
        """[(result, flags)] at each output of a tree of components of two operands."""
        shape = self.shape
        # Flags are a list of what is to be joined by or; the children have none.
        below = [(self.x[n], []) for n in range(shape.children)]
        controls = {n: (self.op[n], self.integer[n]) for n in range(shape.blocks)}
        results = {}
        for level in range(1, shape.levels + 1):
            nodes = []
            for n in range(shape.nodes(level)):
                name, pair = f"node_{level}_{n}", below[2 * n:2 * n + 2]
                raised = [flag for _, flags in pair for flag in flags]
                if raised:
                    raised = [delayed(m, _any(raised), latency, name=f"{name}_flags")]
                if len(pair) == 2:
                    m.submodules[name] = node = make()
                    op, integer = controls[shape.block(level, n)]
                    m.d.comb += [node.a.eq(pair[0][0]), node.b.eq(pair[1][0]), node.op.eq(op),
                                 node.integer.eq(integer)]
                    nodes.append((node.z, [node.flags, *raised]))
                else:
                    nodes.append((delayed(m, pair[0][0], latency, name=name), raised))
                results[level, n] = nodes[-1]
            below = nodes
            if level < shape.levels:
                controls = {n: tuple(
                    delayed(m, value, latency, name=f"{what}_{level}_{n}")
                    for what, value in zip(("op", "integer"), controls[n], strict=True))
                    for n in {shape.block(level + 1, n) for n in range(shape.nodes(level + 1))}}
        return [(z, _any(flags)) for z, flags in (results[each] for each in shape.outputs)]


class TreeLane(Lane):
    """Every result is made of results of two operands, each of them rounded.

    A sum of n children differs from the exact one by less than its depth, log2(n) rounded up,
    times half a unit in the last place of the largest sum on the way to it.

    Parameters
    ----------
    shape : Shape
    latency : int
        Of a node, in cycles, 3 to 11.
    """

    def __init__(self, shape, latency=8):
        check_latency(latency)
        self._latency = latency
        super().__init__(shape, [level * latency for level, _ in shape.outputs])

    def elaborate(self, platform):
        m = Module()
        results = self.tree(m, lambda: Node(latency=self._latency), self._latency)
        for n, (z, flags) in enumerate(results):
            m.d.comb += [self.z[n].eq(z), self.flags[n].eq(flags)]
        return m


class OnceLane(Lane):
    """Sums of numbers are rounded once, all else is made in a tree.

    Each output has a sum of its own.

    Parameters
    ----------
    shape : Shape
    make : callable
        Makes a sum of so many operands, such as :class:`~flytrim.fp32.fused.FusedSum`.
    """

    def __init__(self, shape, make):
        self._sums = [make(len(shape.span(*output))) for output in shape.outputs]
        self._early = [PLAIN_LATENCY * level for level, _ in shape.outputs]
        super().__init__(shape, [max(each.latency, early) for each, early in zip(
            self._sums, self._early, strict=True)])

    def elaborate(self, platform):
        m = Module()
        others = self.tree(m, lambda: Plain(PLAIN_LATENCY), PLAIN_LATENCY)
        for n, (output, late, each, other, early) in enumerate(zip(
                self.shape.outputs, self.latencies, self._sums, others, self._early, strict=True)):
            block = self.shape.block(*output)
            is_sum = delayed(m, ~self.op[block][2] & ~self.integer[block], late, name=f"is_sum_{n}")
            m.submodules[f"sum_{n}"] = each
            m.d.comb += [each.x[place].eq(self.x[child])
                         for place, child in enumerate(self.shape.span(*output))]
            m.d.comb += each.present.eq(-1)
            for target, once, plain, name in (
                    (self.z[n], each.z.as_value(), other[0], "z"),
                    (self.flags[n], each.flags, other[1], "flags")):
                m.d.comb += target.eq(Mux(
                    is_sum, delayed(m, once, late - each.latency, name=f"sum_{name}_{n}"),
                    delayed(m, plain, late - early, name=f"plain_{name}_{n}")))
        return m


def _any(flags):
    return functools.reduce(operator.or_, flags)
