# SPDX-License-Identifier: Apache-2.0
"""A pipeline whose registers are placed by its latency, and values that keep pace with it."""

from amaranth import Signal, Value

__all__ = ["Carried", "Pipeline", "shortest", "spread"]


def spread(delays, count):
    """Where to cut a row of delays into parts so that the longest is as short as can be.

    Parameters
    ----------
    delays : sequence of number
        Of the steps in order, in any unit.
    count : int
        How many parts to make, 1 to the number of steps.

    Returns the numbers of those steps behind which a cut lies, in order, but for the last step.
    """
    if not 1 <= count <= len(delays):
        raise ValueError(f"latency must be 1 to {len(delays)} cycles, not {count!r}")
    # best[n] is (longest part, sum of squares, cuts) of the first n steps in so many parts.
    best = [(0, 0, ())] + [None] * len(delays)
    for _ in range(count):
        after = [None] * (len(delays) + 1)
        for end in range(1, len(delays) + 1):
            for start in range(end):
                if best[start]:
                    longest, squares, cuts = best[start]
                    part = sum(delays[start:end])
                    choice = max(longest, part), squares + part * part, (*cuts, end - 1)
                    after[end] = min(after[end] or choice, choice)
        best = after
    return best[-1][2][:-1]


def shortest(delays, longest):
    """How many parts it takes so that none is longer than ``longest``, or than the longest step."""
    longest = max(longest, *delays)

    def fits(count):
        cuts = (-1, *spread(delays, count), len(delays) - 1)
        return all(sum(delays[start + 1:end + 1]) <= longest
                   for start, end in zip(cuts, cuts[1:], strict=False))

    return next(count for count in range(1, len(delays) + 1) if fits(count))


class Pipeline:
    """Steps of logic in a row, with registers between some of them.

    What a step makes is handed on with :meth:`keep` and read by calling what that returns, in the
    same step or a later one: registers are added for as many cycles as lie between. The register
    behind the last step is the caller's own.

    Parameters
    ----------
    m : Module
    delays : sequence of number
        Of the steps, in any unit: the registers are placed so that the slowest part is as fast as
        can be.
    latency : int
        Cycles, with that of the last register.
    """

    def __init__(self, m, delays, latency):
        self._m, self._count = m, len(delays)
        self._registers = spread(delays, latency)
        self.number = 0

    def step(self):
        """Go on to the next step."""
        self.number += 1
        assert self.number < self._count

    def keep(self, name, value, *, reset=False):
        """A :class:`Carried` of this value, made in this step; zero after reset if so wanted."""
        value = Value.cast(value)
        signal = Signal(value.shape(), name=f"{name}_{self.number}")
        self._m.d.comb += signal.eq(value)
        return Carried(self, name, signal, reset)

    def behind(self, name, signal, number, reset):
        """The signal behind step ``number``."""
        if number not in self._registers:
            return signal
        later = Signal(signal.shape(), name=f"{name}_{number + 1}", reset_less=not reset)
        self._m.d.sync += later.eq(signal)
        return later

    def finish(self):
        """Every step must have been gone through."""
        assert self.number == self._count - 1


class Carried:
    """A value that a pipeline carries along; a call gives it as of the step that is being made.

    A call may add registers to the module, so it must not stand under a condition of the module.
    """

    def __init__(self, pipeline, name, signal, reset):
        self._pipeline, self._name, self._reset = pipeline, name, reset
        self._signal, self._number = signal, pipeline.number

    def __call__(self):
        while self._number < self._pipeline.number:
            self._signal = self._pipeline.behind(
                self._name, self._signal, self._number, self._reset)
            self._number += 1
        return self._signal
