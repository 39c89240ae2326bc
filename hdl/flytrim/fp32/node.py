# SPDX-License-Identifier: Apache-2.0
"""Sum, minimum or maximum of binary32 or 32-bit integers, chosen anew in every cycle."""

from amaranth import C, Cat, Mux
from amaranth.lib import enum
from amaranth.lib.wiring import In

from .adder import Adder
from .minmax import is_nan, takes_b

__all__ = ["Node", "Operation"]


class Operation(enum.IntFlag, shape=3):
    """What becomes of two operands; none of the flags is their sum."""

    #: The greater one, not the smaller one.
    GREATER = 1
    #: A NaN loses against a number.
    NUMBER = 2
    #: One of both.
    EXTREME = 4


class Node(Adder):
    """An :class:`Adder` that does minimum and maximum too, and all three on integers.

    Latency and registers are those of the adder; it costs more by a comparison, two tests for NaN
    and some gates. One result a cycle.

    * A minimum or maximum is chosen by the adder's own swap, and zero is added to it.
    * Integers pass as numbers: what is added to zero stays as it is, whatever its bits, where
      nothing counts as infinite or NaN.
    * A sum of integers is made in two parts, the lower one where significands are added, the upper
      one where exponents are subtracted; the carry between them comes in with the rounding.

    Parameters
    ----------
    fmt : Format
        Of the operands and the result; integers have as many bits.
    latency : int
        Cycles, 3 to 11.

    Members
    -------
    a, b : operands
    op : bits of :class:`Operation`
    integer : operands and result are integers in two's complement; sums wrap around
    z : result
    flags : from bit 4: invalid, 0, overflow, 0, inexact; zero for integers. A signalling NaN raises
        invalid in minimum and maximum, too.
    """

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords, op=In(3), integer=In(1))

    def decode(self, a, b, op, integer):
        values = super().decode(a, b, integer)
        extreme = op[2]
        wraps = integer & ~extreme
        # The parts of a sum of integers are as they are: no leading bit, no least exponent.
        for name, x in (("a", self.fmt.layout(a)), ("b", self.fmt.layout(b))):
            exponent, significand = values[f"exponent_{name}"], values[f"significand_{name}"]
            values[f"exponent_{name}"] = Cat(Mux(wraps, x.exponent[0], exponent[0]), exponent[1:])
            values[f"significand_{name}"] = Cat(significand[:-1], significand[-1] & ~wraps)
        return values | {
            "a": a, "b": b, "op": op, "integer": integer, "wraps": wraps,
            "subtract": values["subtract"] & ~extreme & ~integer,
        }

    def compare(self, a, b, op, integer, wraps, exponent_a, exponent_b, sign_a, sign_b, special,
                nan, invalid, clear_large, clear_small, **rest):
        upper_a, upper_b = Cat(exponent_a, sign_a & wraps), Cat(exponent_b, sign_b & wraps)
        upper = (Cat(C(1, 1), upper_a) + Cat(~wraps, upper_b ^ (~wraps).replicate(len(upper_b)))
                 )[1:len(upper_a) + 1]

        extreme, number = op[2], ~integer
        (nan_a, signalling_a), (nan_b, signalling_b) = (is_nan(self.fmt, x) for x in (a, b))
        # Integers of one sign have the order of their other bits, negative numbers the reverse.
        less = (a[:-1] < b[:-1]) ^ (sign_a & integer)
        takes, none = takes_b(sign_a, sign_b, less, op, nan_a & number, nan_b & number)
        none, takes = none & number, takes & extreme
        chosen = Mux(takes, self.fmt.layout(b).exponent.all(), self.fmt.layout(a).exponent.all())
        return rest | {
            "wraps": wraps, "sign_b": sign_b, "exponent_b": exponent_b,
            "exponent_a": Mux(wraps, upper[:-1], exponent_a),
            "sign_a": Mux(wraps, upper[-1], sign_a),
            "difference": Mux(wraps, 0, Cat(upper[:-1], Mux(extreme, takes, upper[-1]))),
            "special": Mux(extreme, (chosen & number) | none, special),
            "nan": Mux(extreme, none, nan),
            "invalid": Mux(extreme, (signalling_a | signalling_b) & number, invalid),
            "clear_large": Mux(extreme, none, clear_large),
            "clear_small": clear_small | extreme,
        }

    def lead_far(self, wraps, **values):
        values = super().lead_far(**values)
        return values | {"brim": values["brim"] & ~wraps, "wraps": wraps}

    def lead_near(self, wraps, **values):
        values = super().lead_near(**values)
        return values | {"wraps": wraps, "enough": values["enough"] | wraps,
                         "shift": values["shift"] & (~wraps).replicate(len(values["shift"]))}

    def normalize_last(self, wraps, exponent, sign, **values):
        values = super().normalize_last(wraps=wraps, exponent=exponent, **values)
        carry = values["change"][0] & exponent.all()
        return values | {"sign": sign ^ (carry & wraps)}
