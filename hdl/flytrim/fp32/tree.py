# SPDX-License-Identifier: Apache-2.0
"""Reduction: beats of many children in, their sum, minimum or maximum out, element by element."""

import functools

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..logic import delayed, select
from ..shared import copies
from .convert import Narrow, Widen
from .element import ElementType
from .exact import ExactSum
from .fused import FusedSum
from .lane import OnceLane, TreeLane
from .number import FP32
from .shape import Shape

__all__ = ["SUMS", "ReductionTree"]

_ONCE = {"fused": FusedSum, "exact": ExactSum}
#: What sums of numbers are made by: additions of two, each rounded; or all at once.
SUMS = ("tree", *_ONCE)
NARROW_LATENCY = 2


class ReductionTree(wiring.Component):
    """Element by element the sum, minimum or maximum of the beats of all children, a beat a cycle.

    The order of the children is fixed, so the result is the same whenever they came. Operation and
    type are chosen anew with each beat. Numbers of 16 bits are widened exactly, reduced in binary32
    and rounded once, to nearest even, on their way out.

    An absent child counts as what changes no result: -0 in sums, infinity in minimum and maximum,
    NaN where a NaN loses; of integers 0, the greatest and the smallest one.

    Where there are taps, blocks of children have controls of their own, and groups on aligned
    halves or quarters run at the same time. A group of several blocks gives each of them the same
    controls in the same cycle; only ``error_i`` may differ, and is joined by or.

    There is no stall: beats leave in order, ``latencies`` cycles behind. Nothing but valid bits is
    reset.

    Parameters
    ----------
    children, width : int
        How many, 2 to 64; bits of a beat of each, a multiple of 32.
    types : collection of ElementType
        What is built; others make no sense. With one of 16 bits there are two lanes for each 32
        bits of a beat.
    sum : str
        One of :data:`SUMS`. ``tree`` is the balanced tree of additions that any software can
        follow; ``fused`` aligns all numbers to the largest and rounds once; ``exact`` is the exact
        sum, rounded once. The last two are the same for any order of children.
    taps : int
        As in :class:`~flytrim.fp32.shape.Shape`.
    latency : int or None
        Of a node of the tree, 3 to 11 cycles, 8 if not given; or of the whole sum.
    half_rate : bool
        A single lane for each 32 bits: a beat of a type of 16 bits takes two cycles.

    Attributes
    ----------
    latencies : list of int
        Cycles from the beat to each output.

    Members
    -------
    valid_i : a beat, for each block of children
    ready_i : the beat is taken; with ``half_rate`` alone. It must stay until then
    op : bits of :class:`~flytrim.fp32.node.Operation`, for each block
    type : :class:`ElementType`, for each block; where there is a choice
    tap : levels below the root where the result leaves, for each block; where there are taps
    last_i, error_i : flags that are carried along, for each block
    present : a bit for each child
    x : beat of each child
    valid_o, last_o, error_o, z : result of each output: the root, the halves, the quarters
    flags : of each output and each 32 bits; from bit 4: invalid, 0, overflow, underflow, inexact
    """

    def __init__(self, children, width, *, types=(ElementType.FP32, ElementType.INT32), sum="tree",
                 taps=0, latency=None, half_rate=False):
        if width < 32 or width % 32:
            raise ValueError(f"a beat has 32 bits or a multiple of that, not {width!r}")
        if not types:
            raise ValueError("there is no type to reduce: name one or more")
        self._types = sorted(set(types), key=lambda each: each.value)
        narrow = any(each.narrow for each in self._types)
        if half_rate and not narrow:
            raise ValueError("half rate is for types of 16 bits, and none is named")
        self._shape, self._words = Shape(children, taps), width // 32
        self._half_rate = half_rate
        #: (lower half or all, upper half) of the bits of each word.
        parts = 1 + (narrow and not half_rate)
        lanes = copies("flytrim_lane", lambda: _lane(self._shape, sum, latency),
                       parts * self._words, ("latencies",))
        self._lanes = [lanes[n:n + parts] for n in range(0, len(lanes), parts)]
        self._before, self._behind = 1 + narrow, narrow * NARROW_LATENCY
        self.latencies = [self._before + cycles + self._behind
                          for cycles in self._lanes[0][0].latencies]
        blocks, outputs = self._shape.blocks, len(self._shape.outputs)
        super().__init__({
            "valid_i": In(blocks), **({"ready_i": Out(blocks)} if half_rate else {}),
            "op": In(data.ArrayLayout(3, blocks)),
            **({"type": In(data.ArrayLayout(ElementType, blocks))} if len(self._types) > 1 else {}),
            **({"tap": In(data.ArrayLayout(ceil_log2(taps + 1), blocks))} if taps else {}),
            "last_i": In(blocks), "error_i": In(blocks),
            "present": In(children), "x": In(data.ArrayLayout(width, children)),
            "valid_o": Out(outputs), "last_o": Out(outputs), "error_o": Out(outputs),
            "z": Out(data.ArrayLayout(width, outputs)),
            "flags": Out(data.ArrayLayout(data.ArrayLayout(5, self._words), outputs))})

    def elaborate(self, platform):
        m = Module()
        shape = self._shape
        kinds = [self._kinds(n) for n in range(shape.blocks)]
        second = self._halves(m, kinds) if self._half_rate else C(0, shape.blocks)
        self._enter(m, kinds, second)
        for n, (output, latency) in enumerate(zip(shape.outputs, self.latencies, strict=True)):
            block = shape.block(*output)
            self._carry(m, n, output, latency)
            behind = self._late(m, kinds[block], latency, n)
            for word, lanes in enumerate(self._lanes):
                self._leave(m, n, word, [self._rounded(m, lane, n, behind, f"{word}_{part}_{n}")
                                         for part, lane in enumerate(lanes)], behind)
        return m

    def _kinds(self, block):
        """For each type whether a block's beat is of it."""
        if len(self._types) == 1:
            return {self._types[0]: C(1)}
        return {each: self.type[block] == each for each in self._types}

    def _late(self, m, kinds, cycles, name):
        """The same some cycles later; of a single type there is nothing to wait for."""
        return kinds if len(kinds) == 1 else {
            each: delayed(m, kind, cycles, name=f"is_{each.name.lower()}_{name}")
            for each, kind in kinds.items()}

    def _halves(self, m, kinds):
        """Whether a beat is in its second cycle, for each block."""
        second = Signal(self._shape.blocks)
        twice = Cat(_narrow(kind) for kind in kinds)
        m.d.sync += second.eq(self.valid_i & twice & ~second)
        m.d.comb += self.ready_i.eq(second | ~twice)
        return second

    def _enter(self, m, kinds, second):
        """From beats to the lanes: widened, and where a child is absent without effect."""
        shape, early = self._shape, self._before - 1
        is_integer = [kind.get(ElementType.INT32, C(0)) for kind in kinds]
        op = [delayed(m, self.op[n], early, name=f"op_{n}_early") for n in range(shape.blocks)]
        integer = [delayed(m, kind, early, name=f"integer_{n}_early")
                   for n, kind in enumerate(is_integer)]
        kinds = [self._late(m, kind, early, f"{n}_early") for n, kind in enumerate(kinds)]
        present = delayed(m, self.present, early, name="present_early")
        nothing = [_identity(*control) for control in zip(op, integer, strict=True)]
        for word, lanes in enumerate(self._lanes):
            for part, lane in enumerate(lanes):
                name = f"lane_{word}_{part}"
                m.submodules[name] = lane
                for n in range(shape.blocks):
                    m.d.sync += [lane.op[n].eq(op[n]), lane.integer[n].eq(integer[n])]
                for child in range(shape.children):
                    block = shape.block(0, child)
                    bits = self.x[child].word_select(word, 32)
                    half = Mux(second[block], bits[16:], bits[:16]) if not part else bits[16:]
                    value = self._widened(
                        m, None if part else bits, half, kinds[block], f"{name}_x_{child}")
                    m.d.sync += lane.x[child].eq(Mux(present[child], value, nothing[block]))

    def _widened(self, m, bits, half, kinds, name):
        """The number that a child brings to a lane; ``kinds`` tell of which type it is."""
        choices = []
        for each in self._types:
            if each.narrow:
                m.submodules[f"{name}_{each.name.lower()}"] = widen = Widen(
                    each.narrow, quiet=False)
                m.d.comb += widen.a.eq(half)
                choices.append((kinds[each], widen.z))
        if bits is not None:
            choices.append((_wide(kinds), delayed(m, bits, self._before - 1, name=name)))
        return select(choices)

    def _carry(self, m, n, output, latency):
        """Flags of a beat, as far as they leave at this output."""
        block, blocks = self._shape.block(*output), self._shape.blocks_of(*output)
        valid = self.valid_i[block]
        if self._half_rate:
            valid = valid & self.ready_i[block]
        if "tap" in self.signature.members:
            valid = valid & (self.tap[block] == self._shape.levels - output[0])
        for target, value, reset in (
                (self.valid_o, valid, True), (self.last_o, self.last_i[block], False),
                (self.error_o, self.error_i[blocks.start:blocks.stop].any(), False)):
            m.d.comb += target[n].eq(
                delayed(m, value, latency, name=f"{target.name}_{n}", reset=reset))

    def _rounded(self, m, lane, n, kinds, name):
        """Result and flags of a lane, in the format of the beat."""
        z = lane.z[n]
        choices = [(_wide(kinds), delayed(m, z, self._behind, name=f"z_{name}"))]
        raised = delayed(m, lane.flags[n], self._behind, name=f"flags_{name}")
        for each in self._types:
            if each.narrow:
                m.submodules[f"{each.name.lower()}_{name}"] = narrow = Narrow(
                    each.narrow, NARROW_LATENCY)
                m.d.comb += narrow.a.eq(z)
                choices.append((kinds[each], Cat(narrow.z, C(0, 16))))
                raised = raised | narrow.flags & kinds[each].replicate(5)
        return select(choices), raised

    def _leave(self, m, n, word, results, kinds):
        """A word of a result, of one number or of two."""
        (low, raised), *upper = results
        twice = _narrow(kinds)
        if self._half_rate:
            before = [delayed(m, value, 1, name=f"first_{name}_{word}_{n}")
                      for name, value in (("z", low[:16]), ("flags", raised))]
            z = Mux(twice, Cat(before[0], low[:16]), low)
            raised = raised | before[1] & twice.replicate(5)
        elif upper:
            [(high, high_raised)] = upper
            z = Cat(low[:16], Mux(twice, high[:16], low[16:]))
            raised = raised | high_raised & twice.replicate(5)
        else:
            z = low
        m.d.comb += [self.z[n].word_select(word, 32).eq(z), self.flags[n][word].eq(raised)]


def _lane(shape, sum, latency):
    if sum == "tree":
        return TreeLane(shape, 8 if latency is None else latency)
    if sum not in _ONCE:
        raise ValueError(f"a sum is one of {', '.join(SUMS)}, not {sum!r}")
    return OnceLane(shape, functools.partial(_ONCE[sum], latency=latency))


def _identity(op, integer):
    """What an absent child counts as."""
    greater, number, extreme = op[0], op[1], op[2]
    none = Mux(number, FP32.nan, Mux(greater, FP32.infinity | 1 << 31, FP32.infinity))
    return Mux(integer, Mux(extreme, Mux(greater, 1 << 31, (1 << 31) - 1), 0),
               Mux(extreme, none, 1 << 31))


def _wide(kinds):
    """Whether elements have 32 bits; ``kinds`` tells for each type whether it is that."""
    return Cat(kind for each, kind in kinds.items() if not each.narrow).any()


def _narrow(kinds):
    return Cat(kind for each, kind in kinds.items() if each.narrow).any()
