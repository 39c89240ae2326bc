# SPDX-License-Identifier: Apache-2.0
"""Holds what a switch has counted against what came and what left."""

from typing import NamedTuple

from ..verdict import Reason, Verdict
from .compare import Difference

__all__ = ["Counts", "check_counts", "read_counts"]


class Counts(NamedTuple):
    """What a switch has counted.

    ``switch`` is a :class:`flytrim.driver.SwitchCounters`, ``groups`` the
    :class:`flytrim.driver.GroupCounters` of each group, ``reasons`` frames by reason, of each port.
    """

    switch: object
    groups: list
    reasons: list


def read_counts(switch, setup):
    """The :class:`Counts` of a :class:`flytrim.driver.Switch` that was set up so."""
    return Counts(
        switch.counters(), [switch.group_counters(number) for number in range(len(setup.groups))],
        [{reason: count.frames for reason, count in switch.port(port).counters().reasons.items()}
         for port in range(setup.config.ports)])


def check_counts(counts, setup, check, agreed):
    """Hold counters against a :class:`SwitchCheck` and what it has agreed to.

    Raises :class:`Difference`.
    """
    for port, of_port in enumerate(counts.switch.ports):
        where, expected = f"port {port}", check.reasons[port]
        _hold_reasons(where, expected, counts.reasons[port])
        told = of_port.contributions + of_port.duplicates + of_port.out_of_window + of_port.bounds
        _hold(where, "packets of children", expected[Reason.NONE], told)
        _hold(where, "packets longer than a slot", check.bounds[port], of_port.bounds)
        _hold(where, "results that left", agreed.results[port], of_port.results + of_port.replays)
        _hold(where, "results", sum(agreed.finished[number]
                                    for number, group in enumerate(setup.groups)
                                    if port in group.ports), of_port.results)
    for number, group in enumerate(setup.groups):
        where, of_group = f'group "{group.name}"', counts.groups[number]
        _hold(where, "results", agreed.finished[number], of_group.results)
        _hold(where, "flushed", 0, of_group.flushed)
    _hold("all ports", "overflow", agreed.no_room,
          sum(reasons[Reason.OVERFLOW] for reasons in counts.reasons))


def _hold_reasons(where, expected, told):
    """What would be passed by and lacks room is counted for that alone."""
    lacking = 0
    for reason in Reason:
        if reason.verdict is Verdict.BYPASS and told[reason] <= expected[reason]:
            lacking += expected[reason] - told[reason]
        elif reason is not Reason.OVERFLOW:
            _hold(where, reason, expected[reason], told[reason])
    _hold(where, Reason.OVERFLOW, lacking, told[Reason.OVERFLOW])


def _hold(where, what, expected, told):
    if expected != told:
        raise Difference(None, f"counters of {where}: {what}", expected, told)
