# SPDX-License-Identifier: Apache-2.0
"""AXI4-Lite slave: a memory that takes its time."""

from collections import deque

from .clock import now

__all__ = ["AxiLiteSlave"]

_OKAY, _SLVERR = 0, 2
#: Beyond its end a slave answers with an error.
WORDS = 16


class AxiLiteSlave:
    """Answers what a master asks, a word at each address, with an error beyond ``4 * WORDS``.

    When it is ready, and when its answers come, is random. It holds the master to the rules: what
    is offered holds still until it is taken, and nothing is offered again.

    Attributes
    ----------
    words : what it holds, by address
    asked : (kind, address) of every access it has answered, in order
    silent : channels that it does not answer on for now, of "b" and "r"
    """

    def __init__(self, edges, prefix, rng):
        self._edges, self._where, self._rng = edges, prefix, rng
        self.words, self.asked, self.silent = {}, [], set()
        self._start_over()
        edges.every(self._step)

    def _start_over(self):
        self._queues = {channel: deque() for channel in ("aw", "w", "ar")}
        self._before = {}
        for name in ("awready", "wready", "arready", "bvalid", "rvalid"):
            self._signal(name).value = 0

    def _signal(self, name):
        return getattr(self._edges.dut, f"{self._where}_{name}")

    def _value(self, name):
        return int(self._signal(name).value)

    def _step(self):
        if self._edges.in_reset:
            self._start_over()
            return
        for channel, names in (("aw", ("awaddr",)), ("w", ("wdata", "wstrb")), ("ar", ("araddr",))):
            self._take(channel, tuple(map(self._value, names)))
        writes = self._queues["aw"], self._queues["w"]
        self._answer("b", all(writes), lambda: self._write(*(each.popleft() for each in writes)))
        self._answer("r", self._queues["ar"], lambda: self._read(self._queues["ar"].popleft()))

    def _take(self, channel, payload):
        valid, ready = self._value(f"{channel}valid"), self._value(f"{channel}ready")
        before = self._before.pop(channel, None)
        assert before is None or (valid and before == payload), (
            f"{self._where} @ cycle {now()}: {channel} changed while it waited")
        if valid and ready:
            assert not self._queues[channel], f"{self._where} @ cycle {now()}: {channel} twice"
            self._queues[channel].append(payload)
        elif valid:
            self._before[channel] = payload
        # Sometimes it waits for valid, sometimes it is ready before.
        self._signal(f"{channel}ready").value = int(
            not self._queues[channel] and self._rng.random() < 0.4)

    def _answer(self, channel, can, answer):
        valid, ready = self._value(f"{channel}valid"), self._value(f"{channel}ready")
        if valid and not ready:
            return
        comes = bool(can) and channel not in self.silent and self._rng.random() < 0.4
        self._signal(f"{channel}valid").value = int(comes)
        if comes:
            answer()

    def _write(self, address, word):
        (address,), (data, strobe) = address, word
        old = self.words.get(address, 0)
        mask = sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)
        if address < 4 * WORDS:
            self.words[address] = old & ~mask | data & mask
        self.asked.append(("write", address))
        self._signal("bresp").value = _OKAY if address < 4 * WORDS else _SLVERR

    def _read(self, address):
        address, = address
        self.asked.append(("read", address))
        self._signal("rdata").value = self.words.get(address, self._rng.getrandbits(32))
        self._signal("rresp").value = _OKAY if address < 4 * WORDS else _SLVERR
