# SPDX-License-Identifier: Apache-2.0
"""AXI4 slave that is written to: a memory that takes its time, and may refuse."""

from collections import deque

from pacing import FULL_RATE, ticks

from .clock import now
from .rules import StallRules

__all__ = ["AxiMemory"]

_OKAY, _SLVERR = 0, 2
_PAGE = 4096
_ADDRESS = ("awid", "awaddr", "awlen", "awsize", "awburst", "awcache", "awprot")
_DATA = ("wdata", "wstrb", "wlast")


class AxiMemory:
    """Takes bursts and answers them, those of one ID in order, and holds the master to the rules.

    Every byte goes to ``write``, called with address and bytes, unless its page of 4 KB is one of
    ``refused``: then its burst is answered with an error.

    Parameters
    ----------
    edges : Edges
    prefix : str
        Of the ports.
    width : int
        Bits a beat.
    rng : random.Random
    write : callable
    pacing : Pacing
        ``sink`` is how often it takes, and how soon it answers.

    Attributes
    ----------
    refused : numbers of pages
    bursts : (cycle of its last beat, ID, address, beats) of each
    most : bursts that were on their way at one time
    held : while set, it answers nothing
    """

    def __init__(self, edges, prefix, width, rng, write, *, pacing=FULL_RATE):
        self._edges, self._prefix, self._lanes, self._rng = edges, prefix, width // 8, rng
        self._write, self._pacing = write, pacing
        self._paces = {channel: ticks(pacing.sink, rng) for channel in "awb"}
        self.refused, self.bursts, self.most, self.held = set(), [], 0, False
        self._start_over()
        edges.every(self._step)

    def _start_over(self):
        self._addresses, self._beats = deque(), []
        self._answers, self._offered = {}, None
        self._rules = {channel: StallRules(f"{self._prefix}_{channel}") for channel in "aw"}
        self._ready = {"a": False, "w": False}
        for name in ("awready", "wready", "bvalid"):
            self._signal(name).value = 0

    def _signal(self, name):
        return getattr(self._edges.dut, f"{self._prefix}_{name}")

    def _values(self, names):
        return {name: int(self._signal(name).value) for name in names}

    def _step(self):
        if self._edges.in_reset:
            self._start_over()
            return
        self._answer()
        self._take("a", "aw", _ADDRESS, self._address)
        self._take("w", "w", _DATA, self._data)
        self.most = max(self.most, len(self._addresses) + sum(map(len, self._answers.values())))

    def _take(self, channel, name, fields, then):
        valid = bool(self._signal(f"{name}valid").value)
        values = self._values(fields) if valid else None
        self._rules[channel].sample(valid, self._ready[channel],
                                    tuple(values.values()) if valid else None)
        if valid and self._ready[channel]:
            then(**values)
        level = self._ready[channel]
        following = (valid and not level) if self._pacing.waits else next(self._paces[channel])
        if following != level:
            self._signal(f"{name}ready").value = int(following)
            self._ready[channel] = following

    def _address(self, awid, awaddr, awlen, awsize, awburst, awcache, awprot):
        where = f"@ cycle {now()}: burst of {awlen + 1} from {awaddr:#x}"
        assert (awburst, 1 << awsize, awaddr % self._lanes) == (1, self._lanes, 0), where
        end = awaddr + (awlen + 1) * self._lanes - 1
        assert end // _PAGE == awaddr // _PAGE, f"{where} crosses a page"
        self._addresses.append((awid, awaddr, awlen + 1))

    def _data(self, wdata, wstrb, wlast):
        assert self._addresses, f"@ cycle {now()}: a beat before its address"
        ident, address, beats = self._addresses[0]
        at = address + len(self._beats) * self._lanes
        self._beats.append((at, wdata.to_bytes(self._lanes, "little"), wstrb))
        assert wlast == (len(self._beats) == beats), f"@ cycle {now()}: wlast {wlast}"
        if not wlast:
            return
        refused = address // _PAGE in self.refused
        for at, data, strobes in self._beats:
            assert strobes, f"@ cycle {now()}: a beat of no byte at {at:#x}"
            for start, count in _runs(strobes):
                if not refused:
                    self._write(at + start, data[start:start + count])
        self._addresses.popleft()
        self._beats = []
        self.bursts.append((now(), ident, address, beats))
        self._answers.setdefault(ident, deque()).append(_SLVERR if refused else _OKAY)

    def _answer(self):
        if self._offered is not None:
            if not self._signal("bready").value:
                return
            self._answers[self._offered].popleft()
            self._offered = None
        waiting = [ident for ident, answers in self._answers.items() if answers]
        if waiting and not self.held and next(self._paces["b"]):
            self._offered = self._rng.choice(waiting)
            self._signal("bid").value = self._offered
            self._signal("bresp").value = self._answers[self._offered][0]
        self._signal("bvalid").value = int(self._offered is not None)


def _runs(strobes):
    """(first lane, lanes) of each stretch of set strobes."""
    lane = 0
    while strobes >> lane:
        while not strobes >> lane & 1:
            lane += 1
        start = lane
        while strobes >> lane & 1:
            lane += 1
        yield start, lane - start
