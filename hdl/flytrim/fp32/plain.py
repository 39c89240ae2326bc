# SPDX-License-Identifier: Apache-2.0
"""All of a reduction that needs no sum of numbers: minimum, maximum, and integers."""

from amaranth import Mux
from amaranth.lib.wiring import In

from .minmax import MinMax, is_nan

__all__ = ["Plain"]


class Plain(MinMax):
    """A :class:`~flytrim.fp32.node.Node` but for the sum of numbers, which it does not make.

    One result a cycle, ``latency`` cycles later; there is neither stall nor reset.

    Members
    -------
    a, b : operands, binary32 or integers in two's complement
    op : bits of :class:`~flytrim.fp32.node.Operation`
    integer : operands and result are integers; sums wrap around
    z : result
    flags : bit 4 is invalid, which a signalling NaN raises; the others are zero
    """

    def __init__(self, latency=2):
        super().__init__(latency=latency, op=In(3), integer=In(1))

    def order(self, a, b, op, integer):
        nan_a, signalling_a = is_nan(self.fmt, a)
        nan_b, signalling_b = is_nan(self.fmt, b)
        # Integers of one sign have the order of their other bits, negative numbers the reverse.
        return {"a": a, "b": b, "op": op, "less": (a[:-1] < b[:-1]) ^ (a[-1] & integer),
                "nan_a": nan_a & ~integer, "nan_b": nan_b & ~integer,
                "signalling": (signalling_a | signalling_b) & ~integer,
                "total": (a + b)[:len(a)]}

    def choose(self, op, total, **values):
        result = super().choose(op=op, **values)
        return result | {"z": Mux(op[2], result["z"], total)}
