# SPDX-License-Identifier: Apache-2.0
"""A register bank held in every cycle against what its description says."""

import random
from collections import Counter, deque

import cocotb
from agents import AxiLite, AxiLiteError, Edges, now
from register_map import WORD, registers_of

__all__ = ["BankBench", "Oracle"]

OKAY, SLVERR = 0, 2


class Oracle:
    """What a bank holds and answers, from its description alone.

    Attributes
    ----------
    words : address to (register, which of its words), of every word that can be read
    ports : what each output is in this cycle
    held : the high word that the next read of one gives
    met : what happened at one time, counted
    """

    def __init__(self, top):
        self.registers = registers_of(top)
        self.words = {register.address + 4 * part: (register, part)
                      for register in self.registers for part in range(register.words)}
        self.written = [register for register in self.registers if register.written]
        self._fields = {register: register.some(written=True) for register in self.written}
        self.met = Counter()
        self.reset()

    def reset(self):
        self.held = 0
        self.ports = {field.port: field.reset for fields in self._fields.values()
                      for field in fields}
        self.ports |= {register.told_port: 0 for register in self.written
                       if register.some(told=True)}

    def clock(self, inputs, write=None):
        """The next cycle; ``inputs`` are those of the one before, by port, 0 where there is none.

        ``write`` is (address, value, strobe) of the write that takes effect, the response to which
        is returned.
        """
        target, part = self.words.get(write[0], (None, 0)) if write else (None, 0)
        for register in self.written:
            strobes = 0
            if register is target:
                strobes = sum(0xFF << 8 * byte for byte in range(4) if write[2] >> byte & 1)
            self._clock(register, inputs, write[1] << WORD * part if strobes else 0,
                        strobes << WORD * part)
        return OKAY if target and target.written else SLVERR

    def _clock(self, register, inputs, value, strobes):
        loads, told = inputs.get(register.load_port, 0), False
        for field in self._fields[register]:
            given, enabled = field.of(value), field.of(strobes)
            told |= field.told and enabled > 0
            was = 0 if field.pulse else self.ports[field.port]
            ones, sets = given & enabled, inputs.get(field.set_port, 0)
            is_now = was & ~ones if field.clears else was & ~enabled | ones
            self.ports[field.port] = (
                inputs[field.next_port] if loads and field.loadable else is_now | sets)
            if field.clears and sets & ones & was:
                self.met[field.port, "set and cleared"] += 1
            if loads and enabled:
                self.met[field.port, "loaded and written"] += 1
        if register.told_port in self.ports:
            self.ports[register.told_port] = int(told)

    def read(self, address, inputs):
        """(response, word, high word that is held behind it), as read in this cycle."""
        register, part = self.words.get(address, (None, 0))
        if not register:
            return SLVERR, None, self.held
        if part:
            return OKAY, self.held, self.held
        value = sum(self._seen(field, inputs) << field.low for field in register.fields)
        return (OKAY, value & (1 << WORD) - 1,
                value >> WORD if register.words > 1 else self.held)

    def _seen(self, field, inputs):
        if field.pulse:
            self.met[field.port, "read in its pulse"] += self.ports[field.port]
            return 0
        if field.written:
            return self.ports[field.port]
        return inputs[field.port] if field.shown else field.reset


class BankBench:
    """Drives the bank whose ports are named ``<bank>__...``, and plays the hardware around it.

    At every edge all outputs and every new answer are compared with the :class:`Oracle`.

    Attributes
    ----------
    inputs : what hardware drives in this cycle, by port
    rows : what it keeps for windows, by (port, row)
    hardware : function that is called in each cycle and returns changes of ``inputs``
    since_write, since_read : cycles since the last request was complete
    """

    def __init__(self, dut, top, bank="bank"):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.edges, self.oracle = Edges(dut), Oracle(top)
        self._bank, self._handles = bank, {}
        self._bus = AxiLite(dut, f"{bank}__bus_", self.rng)
        self.hardware, self.rows, self.inputs = dict, {}, {}
        self._windows = {}
        for register in self.oracle.registers:
            for field in register.some(shown=True):
                if register.window:
                    self._windows.setdefault(register.window, set()).add(field)
                    self.rows[field.port, register.row] = self.random(field)
                self.inputs[field.port] = self.random(field)
            for field in register.some(settable=True):
                self.inputs[field.set_port] = 0
            for field in register.some(loadable=True):
                self.inputs[register.load_port] = 0
                self.inputs[field.next_port] = self.random(field)
        self._drive(self.inputs)
        self._start_over()
        self.edges.every(self._step)

    def random(self, field):
        return self.rng.getrandbits(field.width)

    def names(self):
        """Every port but those of the bus."""
        return {*self.oracle.ports, *self.inputs, *(f"{window}__index" for window in self._windows)}

    async def read(self, address):
        """A word; None where the answer is an error."""
        try:
            return await self._bus.read(address)
        except AxiLiteError:
            return None

    async def write(self, address, value, strobe=0xF):
        """Whether the write was answered with OKAY."""
        await self._bus.post(address, value, strobe)
        return await self.answer(address)

    async def post(self, address, value, strobe=0xF):
        await self._bus.post(address, value, strobe)

    async def answer(self, address):
        try:
            await self._bus.answer(address)
        except AxiLiteError:
            return False
        return True

    def port(self, name):
        if name not in self._handles:
            self._handles[name] = getattr(self.dut, f"{self._bank}__{name}")
        return self._handles[name]

    def value(self, name):
        return int(self.port(name).value)

    def _start_over(self):
        self.oracle.reset()
        self._addresses, self._words, self._reads = deque(), deque(), deque()
        self._waits = {"b": False, "r": False}
        # What the read that waits would give: an answer is of two cycles before it comes.
        self._answers = deque(maxlen=2)
        self._before, self._shown = {}, {}
        self.since_write = self.since_read = 0

    def _step(self):
        if self.edges.in_reset:
            self._start_over()
            return
        self._check_write()
        self._check_read()
        self._take_requests()
        self._before, changes = dict(self.inputs), self.hardware()
        for window, fields in self._windows.items():
            self._shown[window] = row = self.value(f"{window}__index")
            changes |= {field.port: self.rows[field.port, row] for field in fields}
        self._drive(changes)

    def _drive(self, changes):
        for name, value in changes.items():
            self.port(name).value = value
        self.inputs.update(changes)

    def _comes(self, channel):
        """Whether an answer comes in this cycle."""
        valid = self.value(f"bus__{channel}valid")
        comes = valid and not self._waits[channel]
        self._waits[channel] = valid and not self.value(f"bus__{channel}ready")
        return comes

    def _check_write(self):
        where, comes = f"{self._bank} @ cycle {now()}", self._comes("b")
        write = (self._addresses.popleft(), *self._words.popleft()) if comes else None
        response = self.oracle.clock(self._before, write)
        if comes:
            assert self.value("bus__bresp") == response, f"{where}: response to {write}"
        for name, expected in self.oracle.ports.items():
            assert self.value(name) == expected, f"{where}: {name}, the last write was {write}"

    def _check_read(self):
        where = f"{self._bank} @ cycle {now()}"
        if self._comes("r"):
            address = self._reads.popleft()
            (response, word, held), shown = self._answers[0]
            self._answers.clear()
            assert self.value("bus__rresp") == response, f"{where}: response to {address:#x}"
            if not response:
                register, part = self.oracle.words[address]
                assert part or shown.get(register.window, 0) == register.row, (
                    f"{where}: index of {register.window} for {address:#x}")
                assert self.value("bus__rdata") == word, f"{where}: read of {address:#x}"
            self.oracle.held = held
        if self._reads:
            self._answers.append((self.oracle.read(self._reads[0], self.inputs),
                                  dict(self._shown)))

    def _take_requests(self):
        def taken(channel):
            return self.value(f"bus__{channel}valid") and self.value(f"bus__{channel}ready")

        self.since_write += 1
        self.since_read += 1
        address, word = taken("aw"), taken("w")
        if address:
            self._addresses.append(self.value("bus__awaddr"))
        if word:
            self._words.append((self.value("bus__wdata"), self.value("bus__wstrb")))
        if (address or word) and len(self._addresses) == len(self._words):
            self.since_write = 0
        if taken("ar"):
            self._reads.append(self.value("bus__araddr"))
            self.since_read = 0
