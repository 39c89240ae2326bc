# SPDX-License-Identifier: Apache-2.0
"""Exact sum: fixed point over the whole range of binary32, rounded once."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from ..logic import select
from .number import FP32
from .pipeline import Pipeline, shortest, spread
from .round import Overrides, deliver, round_delays, sum_members

__all__ = ["ExactSum"]

#: Of the logic between registers where no latency is asked for, in nanoseconds without what the
#: registers and the way to them take: 230 MHz on ECP5.
LONGEST = 3.0

_WORD = 32
#: The lowest bit of the first word has half the weight of the smallest subnormal, so that the place
#: of a significand is its exponent field.
_WORDS = 9
_MOST = 1 << _WORD * _WORDS - (FP32.special - 1) - FP32.significand_bits - 1
_REACH = _WORD - 1
_PLACES = _WORD.bit_length() - 1


class ExactSum(wiring.Component):
    """The exact sum of many binary32 numbers, rounded once to nearest, ties to even.

    The result is half a unit in its last place from the exact sum at most, whatever cancels, and
    has the same bits in any order and in any grouping into beats. It costs about three times a
    fused sum.

    Numbers are added in fixed point over the whole range, 288 bits in two's complement. These are
    nine words of 32 bits. A significand, moved by the low five bits of its exponent, covers one
    word and part of the next, and the upper bits tell which; each word is added up by itself, with
    its carries kept above it. Only then do carries run from word to word. The result comes from the
    highest word that holds more than the sign and the one below.

    NaNs and infinities are as in IEEE 754-2019, section 9.4: a NaN operand, or infinities of both
    signs, give the canonical NaN; the latter and a signalling NaN raise invalid. Inexact and
    overflow are as of one addition; a sum never underflows.

    One beat a cycle, ``latency`` cycles from the last beat of a sum to its result, without a stall;
    the next sum may begin in the cycle behind. With ``beats`` of 1 every beat is a sum.

    Parameters
    ----------
    operands : int
        In a beat, from 1.
    beats : int
        Of a sum, at most; 512 operands in all of them.
    latency : int or None
        Cycles, from 1; None for 200 to 230 MHz on ECP5, the more operands the less.

    Members
    -------
    valid_i : whether there is a beat in this cycle
    last_i : whether it is the last one of its sum; where ``beats`` is more than 1
    x : operands
    present : a bit for each; those that are absent count as -0, which adds nothing to any sum
    valid_o : whether there is a sum in this cycle
    z : sum; -0 where every operand is -0 or absent
    flags : from bit 4: invalid, 0, overflow, 0, inexact
    """

    def __init__(self, operands, *, beats=1, latency=None):
        if operands < 1 or beats < 1 or not 2 <= operands * beats <= _MOST:
            raise ValueError(f"an exact sum has 2 to {_MOST} operands in all its beats, not "
                             f"{operands!r} in each of {beats!r}")
        self._operands, self._beats = operands, beats
        self._levels = ceil_log2(operands)
        self._delays = [3.0, *[1.0] * (_PLACES - 1), 1.0, *[2.0] * (self._levels + (beats > 1)),
                        3.0, 2.0, 2.6, 2.4, 2.6, 2.6, 2.0, *round_delays(_REACH)]
        self.latency = shortest(self._delays, LONGEST) if latency is None else latency
        spread(self._delays, self.latency)
        super().__init__(sum_members(operands, **({"last_i": In(1)} if beats > 1 else {})))

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self._delays, self.latency)
        several = self._beats > 1
        valid = pipe.keep("valid", self.valid_i, reset=True)
        last = pipe.keep("last", self.last_i) if several else None
        done = pipe.keep("done", self.valid_i & self.last_i if several else self.valid_i,
                         reset=True)

        def gather(bits):
            """What is or was true since the first beat."""
            seen = Signal(len(bits), name="seen")
            return self._so_far(m, seen, seen | bits, valid(), last())

        # Where each addition of the tree takes a carry, but none adds to a sum of former beats,
        # signs are relative to the first one: then there are as many carries as negations.
        reference = Const(0) if several else self.x[0].sign
        reversed_sign = pipe.keep("reversed_sign", reference)
        digits, overrides = self._digits(pipe, reference, gather if several else None)
        pipe.step()
        nodes = self._spread(pipe, *digits)
        for _ in range(self._levels):
            pipe.step()
            nodes = [self._joined(pipe, f"sum_{word}", row) for word, row in enumerate(nodes)]
        if several:
            pipe.step()
            nodes = [[self._gathered(m, pipe, word, *row[0], valid, last)]
                     for word, row in enumerate(nodes)]
        bins = [row[0][0] for row in nodes]
        total, limit, below, none = self._window(pipe, self._carry(pipe, bins))
        deliver(m, pipe, self, total=total, limit=limit, reach=_REACH, overrides=overrides,
                below=below, none=none, reversed_sign=reversed_sign)
        valid_o = Signal(name="valid_last")
        m.d.sync += valid_o.eq(done())
        m.d.comb += self.valid_o.eq(valid_o)
        return m

    def _digits(self, pipe, reference, gather):
        """Of each operand: what covers two words, which is the lower one, whether it is negated.

        A negated one is complemented, which leaves a one to be added.
        """
        numbers = [self.x[n] for n in range(self._operands)]
        leading = [number.exponent.any() for number in numbers]
        # The place of a subnormal number is that of the smallest normal one.
        places = [pipe.keep(f"place_{n}", number.exponent | ~here)
                  for n, (number, here) in enumerate(zip(numbers, leading, strict=True))]
        turned = [pipe.keep(f"turned_{n}", number.sign ^ reference)
                  for n, number in enumerate(numbers)]
        values = [Cat(number.fraction, here) & present.replicate(FP32.significand_bits)
                  for number, here, present in zip(numbers, leading, self.present, strict=True)]
        overrides = None
        for place in range(_PLACES):
            values = [self._shifted(value, at()[place], 1 << place)
                      for value, at in zip(values, places, strict=True)]
            if place < _PLACES - 1:
                values = [pipe.keep(f"shifted_{n}", value) for n, value in enumerate(values)]
                if overrides:
                    pipe.step()
                else:
                    overrides = Overrides(pipe, numbers, self.present, gather)
                values = [value() for value in values]
        values = [pipe.keep(f"digits_{n}", value ^ sign().replicate(len(value)))
                  for n, (value, sign) in enumerate(zip(values, turned, strict=True))]
        chosen = [pipe.keep(f"chosen_{n}", Cat(at()[_PLACES:] == word
                                               for word in range(_WORDS - 1)))
                  for n, at in enumerate(places)]
        return (values, chosen, turned), overrides

    @staticmethod
    def _shifted(value, moves, amount):
        """Up by that amount, or not."""
        value = Cat(value, Const(0, amount))
        return Mux(moves, (value << amount)[:len(value)], value)

    def _spread(self, pipe, values, chosen, turned):
        """For each word and operand, what to add there, and the carries that complete negations."""
        rows = []
        for word in range(_WORDS):
            row = []
            for n, (value, places, sign) in enumerate(zip(values, chosen, turned, strict=True)):
                low, high = value()[:_WORD], Cat(value()[_WORD:], sign()).as_signed()
                bits = 1 + (_WORD if word < _WORDS - 1 else len(high) - 1)
                part, carries = Const(0, bits), []
                if word:
                    part |= Mux(places()[word - 1], high, 0)
                if word < _WORDS - 1:
                    part |= Mux(places()[word], low, 0)
                    if n or self._beats > 1:
                        carries = [pipe.keep(f"carry_{word}_{n}", places()[word] & sign())]
                row.append((pipe.keep(f"addend_{word}_{n}", part[:bits].as_signed()), carries))
            rows.append(row)
        return rows

    @staticmethod
    def _total(a, b, carries):
        """a + b and one of the carries, and those that are left."""
        if not carries:
            return a + b, []
        total = Cat(1, a).as_signed() + Cat(carries[0](), b).as_signed()
        return total[1:].as_signed(), carries[1:]

    def _joined(self, pipe, name, row):
        """A level of additions over the operands of a word."""
        joined = []
        for n in range(0, len(row) - 1, 2):
            (a, a_carries), (b, b_carries) = row[n:n + 2]
            total, carries = self._total(a(), b(), a_carries + b_carries)
            joined.append((pipe.keep(f"{name}_{n}", total), carries))
        return joined + row[2 * len(joined):]

    def _gathered(self, m, pipe, word, value, carries, valid, last):
        """The sum of the beats up to this one."""
        # As many minus zeros as there may be carry a one out of the word each.
        bits = len(value()) + self._beats.bit_length()
        before = Signal(signed(bits), name=f"before_{word}")
        total, carries = self._total(before, value(), carries)
        now = self._so_far(m, before, total, valid(), last())
        return pipe.keep(f"bin_{word}", now), carries

    @staticmethod
    def _so_far(m, before, total, valid, last):
        """The total up to this beat, which ``before`` takes; after the last beat it is zero."""
        now = Signal.like(before, name=f"{before.name}_now")
        m.d.comb += now.eq(total)
        with m.If(valid):
            m.d.sync += before.eq(now)
        with m.If(valid & last):
            m.d.sync += before.eq(0)
        return now

    @staticmethod
    def _ripple(generate, propagate):
        """The carry into each place, and out of the last."""
        total = Cat(generate | propagate) + generate
        return (total ^ propagate)[:len(generate) + 1]

    def _carry(self, pipe, bins):
        """Words of 32 bits, each with a carry that is still to be added to the next one.

        What a bin holds beyond its word is added to the next word. Where that is negative it is
        made positive by a one that the word above lends, so that all carries are zero or one.
        """
        pipe.step()
        above = [each()[_WORD:].as_signed() for each in bins[:-1]]
        borrows = self._ripple(Cat(each[-1] for each in above), Cat(each == 0 for each in above))
        above = [pipe.keep(f"above_{n}", (each - borrows[n])[:len(each)].as_signed())
                 for n, each in enumerate(above)]
        lows = [pipe.keep(f"low_{n}", (each() | Const(0, signed(_WORD)))[:_WORD])
                for n, each in enumerate(bins)]

        pipe.step()
        words = [pipe.keep("word_0", Cat(lows[0](), 0))]
        for n, each in enumerate(above):
            extended = Cat(each(), each()[-1].replicate(_WORD))[:_WORD]
            words.append(pipe.keep(f"word_{n + 1}", lows[n + 1]() + extended))
        return words

    def _window(self, pipe, words):
        """The two words that the result is made of, and what stands below them."""
        pipe.step()
        values = [pipe.keep(f"value_{n}", word()[:_WORD]) for n, word in enumerate(words)]
        over = pipe.keep("over", Cat(word()[_WORD] for word in words))
        ones = pipe.keep("ones", Cat(word()[:_WORD].all() for word in words))
        zeros = pipe.keep("zeros", Cat(~word()[:_WORD].any() for word in words))
        nearly = pipe.keep("nearly", Cat(word()[1:_WORD].all() & ~word()[0] for word in words))

        pipe.step()
        carried = self._ripple(over(), ones())[:_WORDS]
        carries = pipe.keep("carries", carried)
        is_zero = pipe.keep("is_zero", ones() & carried | zeros() & ~carried)
        is_ones = pipe.keep("is_ones", nearly() & carried | ones() & ~carried)
        minus = pipe.keep("negative", values[-1]()[-1] & ~(ones()[-1] & carried[-1]))

        # The highest word that holds more than the sign, and the one below.
        pipe.step()
        holds = ~Mux(minus(), is_ones(), is_zero())
        top = [holds[n] & ~holds[n + 1:].any() for n in range(_WORDS)]
        top[0] = ~holds[1:].any()
        tops = pipe.keep("tops", Cat(top))
        below = pipe.keep("below", Cat(
            top[n] & ~is_zero()[:n - 1].all() for n in range(2, _WORDS)).any())
        none = pipe.keep("none", is_zero().all())

        pipe.step()
        high, high_carry = (pipe.keep(name, select(
            (tops()[n], value) for n, value in enumerate(choices))) for name, choices in (
                ("high", [value() for value in values]), ("high_carry", carries())))
        low, low_carry = (pipe.keep(name, select(
            (tops()[n + 1], value) for n, value in enumerate(choices))) for name, choices in (
                ("low", [value() for value in values[:-1]]), ("low_carry", carries()[:-1])))
        # The first bit of a word w has the exponent field 32 w - 23.
        limit = pipe.keep("limit", Cat(Const(_WORD - FP32.significand_bits - 1, _PLACES), select(
            (tops()[n], Const(n, _WORDS.bit_length())) for n in range(_WORDS))))

        pipe.step()
        low, high = (low() + low_carry())[:_WORD], (high() + high_carry())[:_WORD]
        return pipe.keep("total", Cat(low, high, minus()).as_signed()), limit, below, none
