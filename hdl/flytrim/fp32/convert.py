# SPDX-License-Identifier: Apache-2.0
"""Between binary32 and its 16-bit relatives, bfloat16 and binary16."""

from amaranth import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .minmax import is_nan
from .number import FP32
from .steps import run

__all__ = ["Narrow", "Widen"]


class Widen(wiring.Component):
    """``z``, binary32, is exactly ``a``; IEEE 754-2019, section 5.4.2.

    A NaN becomes the canonical one.

    Parameters
    ----------
    fmt : Format
        Of ``a``: no wider than binary32 in exponent and fraction.
    latency : int
        Cycles, 0 or 1. There is neither stall nor reset.
    quiet : bool
        Without it a NaN keeps its bits, at the upper end of the fraction, and raises nothing: what
        follows will find a signalling one.

    Members
    -------
    a : number of ``fmt``
    z : the same as binary32
    flags : bit 4 is invalid, which a signalling NaN raises; the others are zero
    """

    def __init__(self, fmt, latency=1, *, quiet=True):
        if latency not in (0, 1):
            raise ValueError(f"latency is 0 or 1 cycles, not {latency!r}")
        self.fmt, self.latency, self._quiet = fmt, latency, quiet
        super().__init__({"a": In(fmt.width), "z": Out(32), "flags": Out(5)})

    def elaborate(self, platform):
        m = Module()
        result = run(m, (self.widen,), ("widen",) * self.latency, a=self.a)
        m.d.comb += [self.z.eq(result["z"]), self.flags.eq(result["flags"])]
        return m

    def widen(self, a):
        x, rebias = self.fmt.layout(a), FP32.bias - self.fmt.bias
        nan, signalling = is_nan(self.fmt, a)
        fraction, exponent = x.fraction, (x.exponent + rebias)[:FP32.exponent_bits]
        if rebias:
            # A subnormal is normal here: its leading one goes to where it is not stored.
            bits, shift = x.fraction, []
            for level in reversed(range((len(bits) - 1).bit_length())):
                step = 1 << level
                shift.insert(0, ~bits[len(bits) - step:].any())
                bits = Mux(shift[0], Cat(Const(0, step), bits[:len(bits) - step]), bits)
            tiny, exists = ~x.exponent.any(), x.fraction.any()
            fraction = Mux(tiny, Cat(Const(0, 1), bits[:-1]), fraction)
            exponent = Mux(tiny, exists.replicate(FP32.exponent_bits) & (rebias - Cat(shift)),
                           Mux(x.exponent.all(), FP32.special, exponent))
        below = Const(0, FP32.fraction_bits - len(fraction))
        z, flags = Cat(below, fraction, exponent[:8], x.sign), Cat(Const(0, 4), signalling)
        return {"z": Mux(nan, FP32.nan, z), "flags": flags} if self._quiet else {
            "z": z, "flags": Const(0, 5)}


#: The steps of :class:`Narrow` that a register stands behind, by latency.
REGISTERS = {1: ("round",), 2: ("shift", "round"), 3: ("scale", "shift", "round")}


class Narrow(wiring.Component):
    """``z`` is ``a`` of binary32, rounded to nearest, ties to even; IEEE 754-2019, section 5.4.2.

    What is too large becomes infinite, what is too small subnormal or zero; a NaN becomes the
    canonical one.

    Parameters
    ----------
    fmt : Format
        Of ``z``: narrower than binary32 in its fraction, no wider in its exponent.
    latency : int
        Cycles, 1 to 3. There is neither stall nor reset.

    Members
    -------
    a : binary32
    z : number of ``fmt``
    flags : from bit 4: invalid, 0, overflow, underflow, inexact. Tininess is found after rounding.
    """

    def __init__(self, fmt, latency=2):
        if latency not in REGISTERS:
            raise ValueError(f"latency is 1 to 3 cycles, not {latency!r}")
        self.fmt, self.latency = fmt, latency
        #: What is subtracted from an exponent; bits of a significand until it is rounded.
        self._rebias, self._kept = FP32.bias - fmt.bias, fmt.significand_bits + 2
        super().__init__({"a": In(32), "z": Out(fmt.width), "flags": Out(5)})

    def elaborate(self, platform):
        m = Module()
        result = run(m, (self.scale, self.shift, self.round), REGISTERS[self.latency], a=self.a)
        m.d.comb += [self.z.eq(result["z"]), self.flags.eq(result["flags"])]
        return m

    def scale(self, a):
        """How far the significand goes down to the least exponent there is."""
        x = FP32.layout(a)
        normal, special = x.exponent.any(), x.exponent.all()
        nan, signalling = is_nan(FP32, a)
        exponent = Cat(x.exponent[0] | ~normal, x.exponent[1:])
        # Less by one than the exponent to be, as the leading bit is added to it.
        above = (exponent - (self._rebias + 1)).as_signed()
        tiny, below = above[-1], -above
        levels = self._kept.bit_length()
        far = below[levels:].any()
        return {
            "significand": Cat(x.fraction, normal), "sign": x.sign,
            "distance": Mux(tiny, below[:levels] | far.replicate(levels), 0),
            "exponent": Mux(tiny, 0, above[:self.fmt.exponent_bits]),
            "infinite": ~tiny & (above >= self.fmt.special - 1) & ~nan,
            "special": special, "nan": nan, "signalling": signalling,
        }

    def shift(self, significand, distance, **rest):
        dropped = len(significand) - self._kept
        bits, sticky = significand[dropped:], significand[:dropped].any()
        for level, by in enumerate(distance):
            step = min(1 << level, len(bits))
            sticky = sticky | (by & bits[:step].any())
            bits = Mux(by, bits[step:], bits)
        return rest | {"bits": bits, "sticky": sticky}

    def round(self, bits, sticky, exponent, sign, infinite, special, nan, signalling):
        # From bit 0: what tells a tie, the guard bit, the significand.
        below = bits[0] | sticky
        up = bits[1] & (bits[2] | below)
        packed = (Cat(bits[2:-1], exponent)
                  + Cat(up, Const(0, self.fmt.fraction_bits - 1), bits[-1]))[:self.fmt.width - 1]
        z = self.fmt.layout(Cat(packed, sign))
        overflow = (infinite | z.exponent.all()) & ~special
        inexact = (below | bits[1]) & ~special
        # It rounds up to a normal number, whatever the exponents, where all that counts are ones.
        tiny = ~bits[-1] & ~bits[:-1].all()
        return {
            "z": Mux(nan, self.fmt.nan, Mux(infinite, Cat(Const(self.fmt.infinity, len(packed)),
                                                          sign), z)),
            "flags": Cat(inexact | overflow, tiny & inexact, overflow, Const(0, 1), signalling),
        }
