# SPDX-License-Identifier: Apache-2.0
"""What a switch has counted, as software reads it."""

from typing import NamedTuple

__all__ = ["GroupCounters", "PortCounters", "SwitchCounters", "read_group_counters",
           "read_switch_counters"]


class PortCounters(NamedTuple):
    """Packets of a port's children, by what became of them, and results that were sent to it."""

    contributions: int
    duplicates: int
    out_of_window: int
    bounds: int
    replays: int
    results: int


class GroupCounters(NamedTuple):
    """Slots of a group: reduced, without a result, and reduced without a child for a flush."""

    results: int
    aborted: int
    flushed: int


class SwitchCounters(NamedTuple):
    """What a switch has counted since its reset, or since its counters were cleared.

    ``ports`` is the :class:`PortCounters` of each. ``inexact``, ``overflow`` and ``invalid`` are
    results with such an element. ``in_use`` is the slots that wait for a child now, and
    ``most_in_use`` the most that ever have.
    """

    ports: tuple[PortCounters, ...]
    inexact: int
    overflow: int
    invalid: int
    in_use: int
    most_in_use: int


def read_switch_counters(switch):
    """The :class:`SwitchCounters` of a :class:`flytrim.driver.Switch`; they go on meanwhile."""
    slots = switch.read("counters.slots_in_use")
    return SwitchCounters(
        tuple(_row(switch, PortCounters, "port", number)
              for number in range(switch.identity.ports)),
        **{flag: switch.read(f"counters.{flag}")["count"]
           for flag in ("inexact", "overflow", "invalid")},
        in_use=slots["now"], most_in_use=slots["most"])


def read_group_counters(switch, number):
    """The :class:`GroupCounters` of a group."""
    return _row(switch, GroupCounters, "group", number)


def _row(switch, kind, array, number):
    return kind(*(switch.read(f"counters.{array}[{number}].{name}")["count"]
                  for name in kind._fields))
