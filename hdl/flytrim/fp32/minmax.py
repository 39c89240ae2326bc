# SPDX-License-Identifier: Apache-2.0
"""Minimum and maximum of IEEE 754-2019, the four that have an order of zeros."""

from amaranth import Cat, Const, Module, Mux
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from ..logic import delayed
from .number import FP32
from .steps import inputs, run

__all__ = ["Extreme", "MinMax", "is_nan", "takes_b"]


class Extreme(enum.IntFlag, shape=2):
    """Which of two operands; none of the flags is the smaller one, and a NaN wins."""

    GREATER = 1
    #: A NaN loses against a number: ``minimumNumber`` and ``maximumNumber``.
    NUMBER = 2


class MinMax(wiring.Component):
    """The smaller or greater one of two; IEEE 754-2019, section 9.6.

    Minus zero is less than plus zero. A NaN that comes out is the canonical one: ``minimum`` and
    ``maximum`` give it where an operand is NaN, the other two where both are. One result a cycle,
    ``latency`` cycles later; there is neither stall nor reset.

    Parameters
    ----------
    fmt : Format
        Of the operands and the result.
    latency : int
        Cycles, 1 or more; what is above 2 only delays.

    Members
    -------
    a, b : operands
    op : bits of :class:`Extreme`
    z : result
    flags : bit 4 is invalid, which a signalling NaN among the operands raises; the others are zero
    """

    def __init__(self, fmt=FP32, latency=2, **more):
        if latency < 1:
            raise ValueError(f"latency is a cycle or more, not {latency!r}")
        self.fmt, self.latency = fmt, latency
        super().__init__({"a": In(fmt.width), "b": In(fmt.width), "op": In(2),
                          "z": Out(fmt.width), "flags": Out(5)} | more)

    def elaborate(self, platform):
        m = Module()
        registers = ("order", "choose") if self.latency > 1 else ("choose",)
        result = run(m, (self.order, self.choose), registers, **inputs(self))
        for name in ("z", "flags"):
            late = delayed(m, result[name], self.latency - len(registers), name=name)
            m.d.comb += getattr(self, name).eq(late)
        return m

    def order(self, a, b, op):
        nan_a, signalling_a = is_nan(self.fmt, a)
        nan_b, signalling_b = is_nan(self.fmt, b)
        return {"a": a, "b": b, "op": op, "less": a[:-1] < b[:-1], "nan_a": nan_a, "nan_b": nan_b,
                "signalling": signalling_a | signalling_b}

    def choose(self, a, b, op, less, nan_a, nan_b, signalling):
        takes, nan = takes_b(a[-1], b[-1], less, op, nan_a, nan_b)
        return {"z": Mux(nan, self.fmt.nan, Mux(takes, b, a)),
                "flags": Cat(Const(0, 4), signalling)}


def is_nan(fmt, bits):
    """Whether bits of a format are a NaN, and a signalling one."""
    x = fmt.layout(bits)
    special, low = x.exponent.all(), x.fraction[:-1].any()
    return special & (low | x.fraction[-1]), special & low & ~x.fraction[-1]


def takes_b(sign_a, sign_b, less, op, nan_a, nan_b):
    """Whether ``b`` is what is asked for, not ``a``; and whether it is NaN instead.

    ``less`` tells that the magnitude of ``a`` is less than that of ``b``; ``op`` is bits of
    :class:`Extreme`.
    """
    greater, number = op[0], op[1]
    # Equal numbers are equal bits, so either will do.
    a_below = Mux(sign_a ^ sign_b, sign_a, less ^ sign_a)
    takes = Mux(number & (nan_a | nan_b), nan_a, ~(a_below ^ greater))
    return takes, Mux(number, nan_a & nan_b, nan_a | nan_b)
