# SPDX-License-Identifier: Apache-2.0
"""Floating-point adder: one path, one result a cycle, registers where the latency wants them."""

from amaranth import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .lead import lead
from .number import FP32
from .steps import inputs, run

__all__ = ["Adder", "check_latency"]

#: The steps that a register stands behind, by latency; one stands behind the last one, too.
REGISTERS = {
    3: "align_far lead_far",
    4: "swap add lead_near",
    5: "swap add normalize_far normalize_last",
    6: "swap align_near add normalize_far normalize_last",
    7: "swap align_near add lead_far lead_near normalize_last",
    8: "compare swap align_near add lead_far lead_near normalize_last",
    9: "compare swap align_near add lead_far normalize_far lead_near normalize_last",
    10: "compare swap align_far align_last add lead_far normalize_far lead_near normalize_last",
    11: "decode compare swap align_far align_last add lead_far normalize_far lead_near "
        "normalize_last",
}
#: What is true of integers alone, in an adder of numbers alone.
NEVER = Const(0, 1)


def check_latency(latency):
    """``ValueError`` unless an adder can take so many cycles."""
    if latency not in REGISTERS:
        raise ValueError(f"latency is {min(REGISTERS)} to {max(REGISTERS)} cycles, not {latency!r}")


class Adder(wiring.Component):
    """``z = a + b`` of IEEE 754-2019, section 5.4.1, rounded to nearest, ties to even.

    Subnormals, signed zeros and infinities are done right; every NaN that comes out is the
    canonical one. One sum a cycle, ``latency`` cycles later; there is neither stall nor reset.

    The operand of the larger exponent stays, the other one is shifted to it; they are added or
    subtracted, what comes out is shifted up to its leading one, and rounded. These ideas keep it
    small:

    * Operands are swapped by their exponents alone. Where these are equal the difference may be
      negative, and its magnitude is the complement plus one. Such a difference is exact, so the
      rounding has nothing else to do and adds the one: ones are shifted in behind a complement,
      which is what rounds up.
    * An operand's exponent that is less by ``d`` gives ``-d`` or its complement ``d - 1`` as the
      distance, whichever way round they are; the swap itself shifts by the one that is missing.
    * The leading one is looked for while it is shifted up, not before. A result may be shifted by
      its exponent at most, or it is subnormal; that takes a bit of the exponent a step.
    * Infinities and NaNs pass with their leading bit off. A quiet NaN is cleared, as is a number
      added to an infinity. So the sum is zero unless there was a signalling NaN.

    Parameters
    ----------
    fmt : Format
        Of the operands and the result.
    latency : int
        Cycles, 3 to 11.

    Members
    -------
    a, b : operands
    z : sum
    flags : from bit 4: invalid, 0, overflow, underflow, inexact. A sum never underflows: one that
        is subnormal is exact.
    """

    def __init__(self, fmt=FP32, latency=8, **more):
        check_latency(latency)
        self.fmt, self.latency = fmt, latency
        #: Bits of a shift: as far as moves a significand and two bits out of sight.
        self._levels = (fmt.significand_bits + 2).bit_length()
        super().__init__({"a": In(fmt.width), "b": In(fmt.width),
                          "z": Out(fmt.width), "flags": Out(5)} | more)

    def elaborate(self, platform):
        m = Module()
        result = run(m, self.steps, REGISTERS[self.latency].split() + ["round"], **inputs(self))
        m.d.comb += [self.z.eq(result["z"]), self.flags.eq(result["flags"])]
        return m

    @property
    def steps(self):
        return (self.decode, self.compare, self.swap, self.align_far, self.align_near,
                self.align_last, self.add, self.lead_far, self.normalize_far, self.lead_near,
                self.normalize_near, self.normalize_last, self.round)

    def decode(self, a, b, integer=NEVER):
        """What exponents say. That of subnormals is one, as that of the least normal numbers.

        An ``integer`` is no number of the format, so it is neither infinite nor NaN.
        """
        a, b = self.fmt.layout(a), self.fmt.layout(b)
        parts, special, quiet = {}, [], []
        for name, x in (("a", a), ("b", b)):
            above = x.exponent[1:].any()
            special.append(x.exponent.all() & ~integer)
            quiet.append(special[-1] & x.fraction[-1])
            parts |= {
                f"exponent_{name}": Cat(x.exponent[0] | ~above, x.exponent[1:]),
                f"significand_{name}": Cat(
                    x.fraction, (above | x.exponent[0]) & ~special[-1]),
                f"sign_{name}": x.sign,
            }
        infinities = special[0] & special[1]
        opposite = infinities & (a.sign ^ b.sign)
        quiet_any, special_any = quiet[0] | quiet[1], special[0] | special[1]
        return parts | {
            "clear_large": quiet[0] | (quiet[1] & ~special[0]),
            "clear_small": quiet[1] | (special[0] ^ special[1]),
            "subtract": (a.sign ^ b.sign) & ~special_any,
            "special": special_any,
            "nan": quiet_any | opposite,
            "invalid": opposite & ~quiet_any,
        }

    def compare(self, exponent_a, exponent_b, **rest):
        difference = (exponent_a - exponent_b)[:len(exponent_a) + 1]
        return rest | {"exponent_a": exponent_a, "exponent_b": exponent_b,
                       "difference": difference}

    def swap(self, difference, exponent_a, exponent_b, significand_a, significand_b, sign_a, sign_b,
             clear_large, clear_small, **rest):
        swap = difference[-1]
        distance = difference[:-1] ^ swap.replicate(len(difference) - 1)
        far = distance[self._levels:].any()
        large = Mux(swap, significand_b, significand_a)
        # A bit further down where swapped: the distance is one less then.
        small = Mux(swap, Cat(significand_a, Const(0, 1)), Cat(Const(0, 1), significand_b))
        return rest | {
            "exponent": Mux(swap, exponent_b, exponent_a),
            "sign": Mux(swap, sign_b, sign_a),
            "large": Mux(clear_large, 0, large),
            # With room for a guard and a round bit.
            "small": Cat(Const(0, 1), Mux(clear_small, 0, small)),
            "distance": distance[:self._levels] | far.replicate(
                min(self._levels, len(distance))),
            "sticky": Const(0, 1),
        }

    def align_far(self, **values):
        return self._shift_down(range(self._levels - 1, 2, -1), **values)

    def align_near(self, **values):
        return self._shift_down((2, 1), **values)

    def align_last(self, subtract, **values):
        values = self._shift_down((0,), **values)
        del values["distance"]
        small = values["small"]
        return values | {"small": small ^ subtract.replicate(len(small)),
                         "carry": subtract & ~values["sticky"], "subtract": subtract}

    def _shift_down(self, levels, small, distance, sticky, **rest):
        """By those powers of two that ``distance`` has; what falls off is kept in ``sticky``."""
        for level in levels:
            if level < len(distance):
                step = min(1 << level, len(small))
                sticky = sticky | (distance[level] & small[:step].any())
                small = Mux(distance[level], small[step:], small)
        return rest | {"small": small, "distance": distance, "sticky": sticky}

    def add(self, large, small, subtract, carry, **rest):
        # One bit below the lowest carries in; one above the highest is a carry or a sign.
        total = (Cat(Const(1, 1), Const(0, 2), large, Const(0, 1))
                 + Cat(carry, small, subtract))[1:len(small) + 2]
        return rest | {"total": total, "subtract": subtract}

    def lead_far(self, total, exponent, subtract, special, nan, invalid, sign, **rest):
        """How far the leading one is up from there, roughly; signs; what overflows for sure."""
        negative = subtract & total[-1]
        bits = total ^ total[-1].replicate(len(total))
        enough = exponent[self._levels:].any()
        shift, enough = lead(range(self._levels - 1, 2, -1), bits, exponent, enough, subtract)
        zero = ~total.any()
        signalling = special & ~zero
        carried = total[-1] & ~subtract
        top = exponent[2:].all()
        return rest | {
            "total": total, "exponent": exponent, "shift": shift, "enough": enough,
            "negative": negative,
            "sign": (sign ^ negative) & ~(subtract & zero) & ~(nan | signalling),
            "nan": nan | signalling, "invalid": invalid | signalling, "special": special,
            "over": carried & top & exponent[1] & ~special,
            # One below infinity, if it is not shifted up by two or more.
            "brim": top & ~special & Mux(carried, ~exponent[1] & exponent[0],
                                         exponent[1] & ~exponent[0]),
        }

    def normalize_far(self, total, shift, negative, **rest):
        """Shifts by that, and takes the magnitude."""
        total = self._shift_up(range(3, self._levels), shift, total, Const(0, 1))
        return rest | {"bits": total ^ negative.replicate(len(total)), "shift": shift,
                       "negative": negative}

    def lead_near(self, bits, shift, exponent, enough, **rest):
        near, enough = lead((2, 1), bits, exponent, enough, Const(1, 1))
        return rest | {"bits": bits, "shift": Cat(near, shift), "exponent": exponent,
                       "enough": enough}

    def normalize_near(self, bits, shift, negative, **rest):
        return rest | {"bits": self._shift_up((1, 2), shift, bits, negative), "shift": shift,
                       "negative": negative}

    def normalize_last(self, bits, shift, exponent, enough, negative, sticky, brim,
                       wraps=NEVER, **rest):
        """Shifts by the last bit, and decides on rounding.

        A sum that ``wraps`` is of integers: its upper part is in the exponent, and a carry into
        that is where a leading bit would be.
        """
        last = ~bits[-1] & (enough | exponent[0])
        below = bits[0] | sticky
        up = Mux(last, bits[1] & (bits[2] | below), bits[2] & (bits[3] | bits[1] | below))
        inexact = (below | bits[1] | (bits[2] & ~last)) & ~negative
        bits = Mux(last, Cat(Const(0, 1), bits[:-1]), bits)
        # The exponent changes by one less the shift, whose negative is this without a chain.
        change = Cat(~last | wraps, *(bit ^ shift[:n].any() for n, bit in enumerate(shift)),
                     shift.any().replicate(len(exponent)))[:len(exponent)]
        leads = bits[-1]
        return rest | {
            "fraction": bits[3:-1], "up": up, "inexact": inexact,
            "exponent": Mux(leads | wraps, exponent, 0), "change": Mux(leads, change, 0),
            "brim": brim & ~shift.any(),
        }

    def _shift_up(self, levels, shift, bits, fill):
        for level, by in zip(levels, shift, strict=False):
            step = min(1 << level, len(bits))
            bits = Mux(by, Cat(fill.replicate(step), bits[:len(bits) - step]), bits)
        return bits

    def round(self, fraction, up, inexact, exponent, change, sign, special, nan, invalid, over,
              brim):
        # A carry out of the fraction goes to the exponent, to infinity at last.
        packed = (Cat(Const(1, 1), fraction, exponent)
                  + Cat(up, Const(0, len(fraction)), change))[1:self.fmt.width]
        infinite = special | over
        overflow = over | (brim & packed[self.fmt.fraction_bits])
        z = self.fmt.layout(Cat(packed, sign))
        return {
            "z": Cat(Mux(infinite, 0, z.fraction[:-1]), Mux(infinite, nan, z.fraction[-1]),
                     Mux(infinite, self.fmt.special, z.exponent), sign),
            "flags": Cat((inexact | over) & ~special, Const(0, 1), overflow, Const(0, 1), invalid),
        }
