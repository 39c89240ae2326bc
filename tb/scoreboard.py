# SPDX-License-Identifier: Apache-2.0
"""In-order comparison that says where, when, which, expected and received, and looks both ways.

Built on :class:`cocotb_bus.scoreboard.Scoreboard`. Nothing passes by being absent: at the end
nothing may be left, and a least number must have been compared.
"""

from dataclasses import dataclass

from agents import Frame, now
from cocotb_bus.scoreboard import Scoreboard as BusScoreboard

__all__ = ["Expected", "Scoreboard", "bytes_difference", "fields_difference"]

#: Bytes shown on each side of the first that differs.
CONTEXT = 8


@dataclass
class Expected:
    """A transaction to come, and what it comes from, for the message."""

    value: object
    about: str = ""

    def __eq__(self, received):
        return self.value == received


def bytes_difference(expected, received):
    """A line for the first byte that differs, with its neighbours; empty where none does."""
    if expected == received:
        return ""
    common = min(len(expected), len(received))
    at = next((n for n in range(common) if expected[n] != received[n]), common)
    window = slice(max(0, at - CONTEXT), at + CONTEXT + 1)
    return (f"byte {at} differs, of {len(expected)} expected and {len(received)} received\n"
            f"  from byte {window.start}: expected {expected[window].hex(' ')}\n"
            f"  from byte {window.start}: received {received[window].hex(' ')}")


def fields_difference(shape, expected, received):
    """The fields of two ints that differ, by an Amaranth layout."""
    want, got = shape.from_bits(expected), shape.from_bits(received)
    names = [name for name, _ in want.shape()]
    return ", ".join(f"{name}: expected {want[name]:#x}, received {got[name]:#x}"
                     for name in names if want[name] != got[name])


class Scoreboard(BusScoreboard):
    """Monitors on one side, lists of :class:`Expected` on the other."""

    def __init__(self, dut):
        super().__init__(dut)
        self.compared = {}
        self._shapes = {}

    def add_interface(self, monitor, expected_output, shape=None, **options):
        """Compare what ``monitor`` receives with ``expected_output``, a list, in order.

        ``shape`` is the Amaranth layout of ints, for messages by field.
        """
        where = monitor.name
        self._shapes[where] = shape
        self.compared[where] = 0

        def is_expected(transaction):
            assert expected_output, (f"{where} @ cycle {now()}, number {self.compared[where]}: "
                                     f"nothing was to come, received {transaction!r}")

        monitor.add_callback(is_expected)
        super().add_interface(monitor, expected_output, **options)

    def compare(self, got, exp, log, strict_type=True):
        """Called by the base class with each pair."""
        where = log.name.rpartition(".")[2]
        number = self.compared[where]
        self.compared[where] += 1
        if exp != got:
            raise AssertionError(f"{where} @ cycle {now()}, number {number} ({exp.about}): "
                                 f"{self._difference(where, exp.value, got)}")

    def _difference(self, where, expected, received):
        if isinstance(expected, Frame):
            parts = [bytes_difference(expected.data, received.data)]
            parts += [f"{name}: expected {getattr(expected, name)}, "
                      f"received {getattr(received, name)}"
                      for name in ("error", "side")
                      if getattr(expected, name) != getattr(received, name)]
            return "; ".join(part for part in parts if part)
        if self._shapes[where] is not None:
            return fields_difference(self._shapes[where], expected, received)
        return f"expected {expected!r}, received {received!r}"

    def left(self):
        """What is still expected, as (port, :class:`Expected`)."""
        return [(monitor.name, item) for monitor, items in self.expected.items()
                for item in items]

    def finish(self, at_least):
        """The end: nothing is left, and ``at_least`` transactions were compared in all."""
        left = self.left()
        if left:
            where, item = left[0]
            raise AssertionError(f"{where} @ cycle {now()}: {len(left)} expected and never came, "
                                 f"first after {self.compared[where]}: {item.about}")
        total = sum(self.compared.values())
        assert total >= at_least, f"{total} transactions compared, at least {at_least} wanted"
