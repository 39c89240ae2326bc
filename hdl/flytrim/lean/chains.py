# SPDX-License-Identifier: Apache-2.0
"""Which extension headers a full record has."""

from amaranth import Cat, Const, Signal

from .. import headers as h
from ..logic import select
from . import container as c

__all__ = ["CHAINS", "chains_of", "prefix_words"]

#: Chains of extension headers, and the opcodes with payload that have them.
CHAINS = {}
for _opcode in h.OPCODES.values():
    if _opcode.payload:
        CHAINS.setdefault(_opcode.extensions, []).append(_opcode.code)


def chains_of(m, opcode, *, name="chains"):
    """A bit for each of :data:`CHAINS`; none for an opcode without payload."""
    chains = Signal(len(CHAINS), name=name)
    m.d.comb += chains.eq(Cat(Cat(opcode == code for code in codes).any()
                              for codes in CHAINS.values()))
    return chains


def prefix_words(chains):
    """Words of a full record before its payload."""
    return select((use, Const(c.FULL.size + sum(part.size for part in chain) >> 2, 3))
                  for use, chain in zip(chains, CHAINS, strict=True))
