# SPDX-License-Identifier: Apache-2.0
"""Puts a block between registers and few pins, so that it can be placed, routed and timed alone."""

import functools
import operator

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Lanes"]


class Lanes(wiring.Component):
    """Some blocks of one kind side by side, every input of them behind a register.

    The registers are one long chain: no logic, and one pin. The outputs of one block are pins,
    those of several are reduced by exclusive or, four at a time between registers, so that none of
    the blocks is optimised away.

    Parameters
    ----------
    make : callable
        Makes a block.
    count : int
        How many.
    """

    def __init__(self, make, count=1):
        self._blocks = [make() for _ in range(count)]
        inputs = self._values(self._blocks[0], In)
        outputs = self._values(self._blocks[0], Out)
        #: Flip-flops of the chain, which are none of the blocks.
        self.chain = count * sum(map(len, inputs))
        super().__init__({"i": In(1), "o": Out(sum(map(len, outputs)))})

    def _values(self, block, flow):
        return [Value.cast(getattr(block, name))
                for name, member in block.signature.members.items() if member.flow is flow]

    def elaborate(self, platform):
        m = Module()
        before, results = self.i, []
        for n, block in enumerate(self._blocks):
            m.submodules[f"lane_{n}"] = block
            for value in self._values(block, In):
                # With a reset, or a block's first register would be merged with the next bit's.
                chain = Signal(len(value), name=f"lane_{n}_i")
                m.d.sync += chain.eq(Cat(before, chain))
                m.d.comb += value.eq(chain)
                before = chain[-1]
            results.append(Cat(self._values(block, Out)))
        while len(results) > 1:
            results = [self._reduced(m, results[n:n + 4]) for n in range(0, len(results), 4)]
        m.d.comb += self.o.eq(results[0])
        return m

    def _reduced(self, m, values):
        there, result = [], Signal(len(values[0]), reset_less=True)
        for value in values:
            there.append(Signal(len(value), reset_less=True))
            m.d.sync += there[-1].eq(value)
        m.d.sync += result.eq(functools.reduce(operator.xor, there))
        return result
