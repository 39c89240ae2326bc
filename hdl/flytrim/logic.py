# SPDX-License-Identifier: Apache-2.0
"""Logic that is to come out just so: flat selection, and registers in several copies."""

from amaranth import Cat, Signal, Value

__all__ = ["KEEP", "Copies", "copies_for", "delayed", "exceeds", "load_soon", "same_parts",
           "select"]

#: Attribute of signals that synthesis must leave alone: not merge with an equal one, not fold into
#: what they drive. Vivado honours it on registers and wires; ``flytrim synth`` sets it on the cells
#: of registers before Yosys looks for equal ones.
KEEP = {"keep": "true"}
#: Bits that a copy selects or enables; it has a few loads beside them, 64 at most in all.
BITS = 48


def select(choices):
    """AND-OR of (condition, value) pairs; zero where no condition holds."""
    result = 0
    for condition, value in choices:
        result = result | (condition.replicate(len(value)) & value)
    return result


def exceeds(a, b):
    """``a > b`` of two values of one length, as a tree: sooner known than a chain of carries."""
    return _compare(a, b)[0]


def _compare(a, b):
    """Whether ``a`` is greater, and whether they are equal."""
    assert len(a) == len(b)
    if len(a) == 1:
        return a & ~b, a == b
    half = len(a) // 2
    (low_more, low_same), (high_more, high_same) = (_compare(a[part], b[part]) for part in (
        slice(half), slice(half, None)))
    return high_more | high_same & low_more, high_same & low_same


def same_parts(a, b):
    """``a == b`` in parts of 18 bits, each of which is two levels of lookup tables."""
    assert len(a) == len(b)
    return Cat(a[n:n + 18] == b[n:n + 18] for n in range(0, len(a), 18))


def delayed(m, value, cycles, *, name, reset=False):
    """``value`` some cycles later, of the same shape; zero before where ``reset`` is set."""
    for n in range(cycles):
        later = Signal(value.shape(), name=f"{name}_{n + 1}_later", reset_less=not reset)
        m.d.sync += later.eq(value)
        value = later
    return value


def copies_for(bits):
    """How many copies serve so many bits."""
    return -(-bits // BITS)


class Copies:
    """A register of a few bits, held once for up to 48 of the bits that it selects or enables.

    All copies hold the same at all times. Each has the attribute ``keep``, without which synthesis
    would merge them again.

    Parameters
    ----------
    m : Module
    value : ValueLike
        What the register takes at each clock edge.
    bits : int
        How many bits it serves.
    name : str
        Of the register.
    reset : int
        Value after reset; None for a register that needs none.
    """

    def __init__(self, m, value, bits, *, name, reset=None):
        value, count = Value.cast(value), copies_for(bits)
        # All copies serve as many, but for the last.
        self._bits, self._part = bits, -(-bits // max(1, count))
        self._copies = [
            Signal(len(value), name=f"{name}_{n}", attrs=KEEP,
                   init=reset or 0, reset_less=reset is None)
            for n in range(count)] if len(value) else [value] * count
        if len(value):
            m.d.sync += [copy.eq(value) for copy in self._copies]

    def __iter__(self):
        return iter(self._copies)

    def __getitem__(self, n):
        return self._copies[n]

    def of(self, bit):
        """The copy that serves this bit."""
        return self._copies[bit // self._part]

    def parts(self):
        """(copy, slice of the bits that it serves), for all of them."""
        for n, copy in enumerate(self._copies):
            yield copy, slice(self._part * n, min(self._part * (n + 1), self._bits))


def load_soon(m, target, value, soon, *, name, reset=0):
    """``target`` takes ``value`` a cycle behind ``soon``, and after reset where ``reset`` is set.

    The enables are :class:`Copies` named ``name``.
    """
    for load, part in Copies(m, soon, len(target), name=name, reset=reset).parts():
        with m.If(load):
            m.d.sync += target[part].eq(value[part])
