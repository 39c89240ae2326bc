# SPDX-License-Identifier: Apache-2.0
"""Normalises a sum in two's complement and rounds it, once; and what its operands override."""

from amaranth import Cat, Const, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from .number import FP32

__all__ = ["Overrides", "deliver", "round_delays", "sum_members"]

#: Bits of a sum that reach the result: the significand and a bit that tells which half.
_KEPT = FP32.significand_bits + 1


def sum_members(operands, **more):
    """Members of a sum of so many operands a beat; ``more`` stand beside ``valid_i``."""
    return {"valid_i": In(1), **more, "x": In(data.ArrayLayout(FP32.layout, operands)),
            "present": In(operands), "valid_o": Out(1), "z": Out(FP32.layout), "flags": Out(5)}


class Overrides:
    """What the operands of a sum decide by themselves, whatever their order.

    NaNs and infinities are as in IEEE 754-2019, section 9.4: the result is a NaN where an operand
    is one or infinities of both signs meet; the latter and a signalling NaN are invalid. A sum of
    zero is negative where every operand is.

    It takes two steps of the pipeline and steps once between them.

    Parameters
    ----------
    pipe : Pipeline
    numbers : list of views of ``FP32.layout``
    present : list of Value
        Operands that are absent decide nothing.
    gather : callable or None
        Where a sum has several beats, takes what is true of an operand of this beat, five bits, and
        gives what is of any up to now.
    """

    def __init__(self, pipe, numbers, present, gather=None):
        found = []
        for n, (number, here) in enumerate(zip(numbers, present, strict=True)):
            top = number.exponent.all() & here
            low = number.fraction[:-1].any()
            quiet = number.fraction[-1]
            found.append([pipe.keep(f"{name}_{n}", value) for name, value in (
                ("is_nan", top & (low | quiet)), ("is_signalling", top & low & ~quiet),
                ("is_plus", top & ~low & ~quiet & ~number.sign),
                ("is_minus", top & ~low & ~quiet & number.sign),
                ("is_positive", here & ~number.sign))])
        pipe.step()
        of_any = Cat(Cat(each() for each in kind).any() for kind in zip(*found, strict=True))
        nan, signalling, plus, minus, positive = gather(of_any) if gather else of_any
        self.nan = pipe.keep("nan", nan | plus & minus)
        self.invalid = pipe.keep("invalid", signalling | plus & minus)
        self.infinite = pipe.keep("infinite", plus | minus)
        self.minus_infinity = pipe.keep("minus_infinity", minus)
        self.all_negative = pipe.keep("all_negative", ~positive)


def _stages(reach):
    return reach.bit_length()


def round_delays(reach):
    """Delays of the steps of :func:`deliver`, in nanoseconds of an ECP5."""
    return [1.0, 1.0, 2.6, *[1.0] * _stages(reach), 1.7, 2.1, 2.6]


def _leading_zeros(nodes):
    """Joins (whether a part is empty, bits of the zeros above its highest bit), lowest first."""
    if len(nodes) == 1:
        return nodes[0]
    half = len(nodes) // 2
    (low_empty, low), (high_empty, high) = (
        _leading_zeros(nodes[:half]), _leading_zeros(nodes[half:]))
    return low_empty & high_empty, [
        *(Mux(high_empty, a, b) for a, b in zip(low, high, strict=True)), high_empty]


def deliver(m, pipe, component, *, total, limit, reach, overrides, below=None, cut=None,
            none=None, reversed_sign=None):
    """The last steps of a sum: normalise, round, and register ``z`` and ``flags``.

    A sum that is negative is neither made positive first nor negated later: -x is ~x + 1, and that
    one is added with the one that rounds. Behind the zeros shifted in, ``~x`` ends in ones, so the
    carry is known where the bits below are all zero in ``x``.

    Parameters
    ----------
    m, pipe : Module, Pipeline
    component : Component
        With the members ``z`` and ``flags``.
    total : Carried
        Signed; one bit more than its magnitude has.
    limit : Carried
        Unsigned: the exponent field of the result is one more than this where the highest bit of
        the magnitude is set, and one less for each place that it must move up. It moves no further
        than this: then it is subnormal.
    reach : int
        It need not move further than this either.
    overrides : Overrides
    below : Carried or None
        Whether anything but zeros stands below ``total``, as part of the same two's complement.
    cut : Carried or None
        Whether the operands have lost bits.
    none : Carried or None
        Whether the sum is zero; where that is not known, ``total`` tells.
    reversed_sign : Carried or None
        Whether the result has the other sign.

    Overflow and inexact are raised as by one operation. Underflow is raised where operands have
    lost bits and the result is smaller than the smallest normal number.
    """
    rows = pipe.keep("rows", Cat(limit()[3:] == n for n in range(-(-reach // 8))))
    columns = pipe.keep("columns", Cat(limit()[:3] == n for n in range(8)))
    pipe.step()
    places = _places(pipe, total, rows, columns, reach)
    none = none or pipe.keep("none", ~total().any())
    raw, minus = pipe.keep("raw", total()[:-1]), pipe.keep("minus", total()[-1])
    raw, rest = _moved(pipe, raw, places, pipe.keep("rest", below() if below else 0))

    pipe.step()
    kept = pipe.keep("kept", raw()[1:] ^ minus().replicate(_KEPT - 1))
    exponent = pipe.keep("exponent", (limit() - places())[:len(limit())])
    half, odd = raw()[0], kept()[0]
    up = pipe.keep("up", Mux(minus(), ~half | ~rest() & odd, half & (rest() | odd)))
    inexact = pipe.keep("inexact", half | rest())
    sign = pipe.keep("sign", minus() ^ reversed_sign() if reversed_sign else minus())

    # The leading bit of a normal number adds one to the exponent field, and so does a carry.
    pipe.step()
    packed = Cat(kept()[:-1], exponent())
    ones = Cat(up(), Const(0, FP32.fraction_bits - 1), kept()[-1])
    rounded = pipe.keep("rounded", (packed + ones)[:len(packed)])

    pipe.step()
    pipe.finish()
    z, flags = _overridden(m, rounded(), sign(), inexact(), none(), cut() if cut else Const(0),
                           overrides)
    m.d.comb += [component.z.eq(z), component.flags.eq(flags)]


def _places(pipe, total, rows, columns, reach):
    """How far to move up: to the highest bit that differs from the sign, or to the limit.

    It takes three steps and steps twice.
    """
    magnitude = total()[:-1] ^ total()[-1].replicate(len(total()) - 1)
    marks = [bit | rows()[n // 8] & columns()[n % 8]
             for n, bit in zip(range(reach), reversed(magnitude), strict=False)]
    beyond = (1 << _stages(reach)) - reach
    marked = pipe.keep("marked", Cat(Const(-1, beyond), *reversed(marks)))

    pipe.step()
    nodes = [_leading_zeros([(~bit, []) for bit in marked()[n:n + 4]])
             for n in range(0, len(marked()), 4)]
    nodes = [(pipe.keep(f"empty_{n}", empty), pipe.keep(f"zeros_{n}", Cat(zeros)))
             for n, (empty, zeros) in enumerate(nodes)]

    pipe.step()
    return pipe.keep("places", Cat(_leading_zeros(
        [(empty(), list(zeros())) for empty, zeros in nodes])[1]))


def _moved(pipe, raw, places, rest):
    """The highest bits once moved up, and whether any below them is set."""
    for stage in reversed(range(len(places()))):
        pipe.step()
        moved = Mux(places()[stage], raw() << (1 << stage), raw())[:len(raw())]
        # What no further move can bring to the result only counts as zero or not.
        spare = max(0, len(moved) - _KEPT - (1 << stage) + 1)
        rest = pipe.keep("rest", rest() | moved[:spare].any())
        raw = pipe.keep("raw", moved[spare:])
    assert len(raw()) == _KEPT
    return raw, rest


def _overridden(m, rounded, sign, inexact, none, lost, overrides):
    """Registers of the result and its flags: what was rounded, or what overrides that."""
    fraction, field = rounded[:FP32.fraction_bits], rounded[FP32.fraction_bits:]
    nan, special = overrides.nan(), overrides.nan() | overrides.infinite()
    minus_infinity, minus_zero = overrides.minus_infinity() & ~nan, overrides.all_negative() & ~lost
    invalid = overrides.invalid()
    over = field[FP32.exponent_bits:].any() | field[:FP32.exponent_bits].all()
    z, flags = Signal(FP32.layout, reset_less=True), Signal(5, reset_less=True)
    m.d.sync += [z.fraction.eq(fraction), z.exponent.eq(field), z.sign.eq(sign),
                 flags.eq(Cat(inexact | lost, lost & ~field.any()))]
    with m.If(none):
        m.d.sync += [z.exponent.eq(0), z.fraction.eq(0), z.sign.eq(minus_zero),
                     flags.eq(Cat(lost, lost))]
    with m.If(over):
        m.d.sync += flags.eq(0b00101)
    with m.If(special | over):
        m.d.sync += [z.exponent.eq(FP32.special), z.fraction.eq(0)]
    with m.If(special):
        m.d.sync += [z.fraction[-1].eq(nan), z.sign.eq(minus_infinity), flags.eq(invalid << 4)]
    return z, flags
