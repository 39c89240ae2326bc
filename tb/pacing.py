# SPDX-License-Identifier: Apache-2.0
"""Pacing profiles: how often a source offers a beat and a sink takes one.

Each finds faults that the others miss: a full-rate pair shows bubbles, a sparse source shows use of
what is not valid, a sparse sink shows what changes while it waits, and a sink that looks for
``valid`` first shows a ``valid`` that waits for ``ready``.
"""

from dataclasses import dataclass

import cocotb

__all__ = ["EVERY", "FULL_RATE", "Pacing", "ticks"]


@dataclass(frozen=True)
class Pacing:
    """A pair of rates, in transfers a cycle.

    Parameters
    ----------
    name : str
        For test names.
    source, sink : float
        How often the source offers, the sink takes; 1 is every cycle.
    waits : bool
        The sink raises ``ready`` only in the cycle after it saw ``valid``, for one transfer.
    """

    name: str
    source: float = 1.0
    sink: float = 1.0
    waits: bool = False


FULL_RATE = Pacing("full_rate")
#: Every profile, as a parameter of a cocotb test with a readable name.
EVERY = tuple(cocotb.Param(pacing, name=pacing.name) for pacing in (
    FULL_RATE,
    Pacing("sparse_source", source=0.4),
    Pacing("sparse_sink", sink=0.4),
    Pacing("both_sparse", source=0.5, sink=0.5),
    Pacing("sink_waits_for_valid", waits=True),
))


def ticks(rate, rng):
    """Endless yes and no, yes at ``rate`` on average.

    Steady stretches alternate with patchy ones: a single rate throughout would almost never give
    the long stall or the long burst that fills and empties a queue.
    """
    if rate >= 1:
        while True:
            yield True
    while True:
        length = rng.randrange(1, 40)
        if rng.random() < 0.5:
            for _ in range(length):
                yield rng.random() < rate
        else:
            steady = rng.random() < rate
            for _ in range(length):
                yield steady
