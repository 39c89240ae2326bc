# SPDX-License-Identifier: Apache-2.0
"""RegisterBank: the AXI4-Lite handshake, and what a write may and may not change."""

from amaranth import Cat, Const, Mux, Signal, Value
from proof import Fault, Opened, Proof, Spec
from register_map import WORD, registers_of

from flytrim.registers import load
from flytrim.registers.bank import RegisterBank

OKAY, SLVERR = 0, 2


class BankSpec(Spec):
    """Keeps its own copy of every field, from the writes accepted and the description alone.

    What hardware drives is anything in every cycle: so what a window holds in a cycle is right to
    be read there, if its row was asked for two cycles before. An answer is of two cycles before it
    comes.
    """

    def specify(self, m):
        self.bank = bank = RegisterBank(load())
        m.submodules.bank = inner = Opened(bank)
        bus = bank.bus
        self.free(*(getattr(bus, name) for name in
                    ("awaddr", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr",
                     "arvalid", "rready")))
        # All rows of a window have the same ports.
        self.places = {}
        for register in registers_of(load()):
            self.places.setdefault(register.name, []).append(register)
        self.registers = [rows[0] for rows in self.places.values()]
        for register in self.registers:
            loadable = register.some(loadable=True)
            driven = [*(field.port for field in register.some(shown=True)),
                      *(field.set_port for field in register.some(settable=True)),
                      *(field.next_port for field in loadable),
                      *([register.load_port] if loadable else [])]
            self.free(*map(self._port, driven))
        self._writes(m, bus, inner)
        self._reads(m, bus, inner)

    def _port(self, name):
        return getattr(self.bank, name)

    def _held(self, channel, valid, ready, *payload):
        """An answer stays as it is until it is taken."""
        stalled = self.past(valid & ~ready)
        value = Value.cast(Cat(payload))
        self.check(f"{channel}_held", ~stalled | (valid & (value == self.past(value))))

    def _pending(self, accepted, answered, name):
        """How many were accepted and not yet answered."""
        count = Signal(2, name=f"{name}_pending")
        self.m.d.sync += count.eq(count + accepted - answered)
        return count

    def _writes(self, m, bus, inner):
        self._held("b", bus.bvalid, bus.bready, bus.bresp)
        accept_aw, accept_w = bus.awvalid & bus.awready, bus.wvalid & bus.wready
        answer = bus.bvalid & bus.bready
        addresses = self._pending(accept_aw, answer, "address")
        words = self._pending(accept_w, answer, "word")
        self.check("answer_for_a_pair", ~bus.bvalid | ((addresses > 0) & (words > 0)))
        waits = (addresses > 0) & (words > 0) & ~bus.bvalid
        self.check("answer_in_time", ~(self.past(waits) & self.past(waits, 2)) | bus.bvalid)
        self.check("takes_an_address", (addresses > bus.bvalid) | bus.awready)
        self.check("takes_a_word", (words > bus.bvalid) | bus.wready)

        # The pair that the next new answer is for.
        address, word, strobe = Signal(10), Signal(32), Signal(4)
        with m.If(accept_aw):
            m.d.sync += address.eq(bus.awaddr[2:])
        with m.If(accept_w):
            m.d.sync += [word.eq(bus.wdata), strobe.eq(bus.wstrb)]
        new = Signal()
        m.d.comb += new.eq(bus.bvalid & ~self.past(bus.bvalid & ~bus.bready))
        at, value, enabled = (self.past(part, 2) for part in (address, word, strobe))
        mask = Cat(bit.replicate(8) for bit in enabled)

        known = Const(0)
        self.now = {}
        for register in self.registers:
            if not register.written:
                continue
            here = Signal(name=f"at_{register.name}")
            m.d.comb += here.eq(new & (at == register.address >> 2))
            known = known | here
            told = Const(0)
            for field in register.some(written=True):
                self.now[field.port] = self._field(m, register, field, here, value, mask)
                self.check(f"field_{field.port}", self._port(field.port) == self.now[field.port])
                if field.told:
                    told = told | mask[field.low:field.low + field.width].any()
            if register.some(told=True):
                self.check(f"told_{register.name}",
                           self._port(register.told_port) == (here & told))
        self.check("slverr_unless_writable", ~new | (bus.bresp == Mux(known, OKAY, SLVERR)))

        has_address, has_data = inner["_elaborate_write.has_address"], inner["has_data"]
        applies = inner["applies"]
        self.invariant("addresses_are_right", addresses == has_address + applies + bus.bvalid)
        self.invariant("words_are_right", words == has_data + applies + bus.bvalid)
        self.invariant("one_answer", ~(applies & bus.bvalid))
        self.invariant("pair_was_kept", ~applies | (
            (inner["_elaborate_write.data"] == self.past(word))
            & (inner["_elaborate_write.address"] == self.past(address))))
        self.invariant("address_kept", ~has_address
                       | (inner["_elaborate_write.address"] == address))
        self.invariant("word_kept", ~has_data | (
            (inner["_elaborate_write.data"] == word)
            & (inner["_elaborate_write.strobe"] == strobe)))
        self.cover("write_queued", bus.bvalid & (addresses == 2) & (words == 2))
        self.cover("write_refused", new & (bus.bresp == SLVERR) & (at == 0))

    def _field(self, m, register, field, here, value, mask):
        """What a field is in this cycle, by a write that takes effect and the cycle before."""
        bits = slice(field.low, field.low + field.width)
        copy, now = Signal(field.width, init=field.reset), Signal(field.width)
        was = Const(0, field.width) if field.pulse else copy
        given, kept = (value & mask)[bits], was & ~mask[bits]
        now_written = Mux(here, was & ~given if field.clears else kept | given, was)
        if field.settable:
            now_written = now_written | self.past(self._port(field.set_port))
        if field.loadable:
            now_written = Mux(self.past(self._port(register.load_port)),
                              self.past(self._port(field.next_port)), now_written)
        m.d.comb += now.eq(now_written)
        m.d.sync += copy.eq(now)
        return now

    def _value(self, register):
        """All bits of a register as they are read in this cycle."""
        value = Const(0, WORD * register.words)
        for field in register.some(pulse=False):
            value |= (self.now[field.port] if field.written else
                      self._port(field.port) if field.shown else
                      Const(field.reset, field.width)).shift_left(field.low)
        return value

    def _reads(self, m, bus, inner):
        self._held("r", bus.rvalid, bus.rready, bus.rdata, bus.rresp)
        accept, answer = bus.arvalid & bus.arready, bus.rvalid & bus.rready
        pending = self._pending(accept, answer, "read")
        self.check("read_was_asked", ~bus.rvalid | (pending > 0))
        waits = (pending > 0) & ~bus.rvalid
        self.check("read_in_time", bus.rvalid
                   | ~Cat(self.past(waits, cycles) for cycles in range(1, 5)).all())
        self.check("takes_a_read", (pending > bus.rvalid) | bus.arready)
        address = Signal(10)
        with m.If(accept):
            m.d.sync += address.eq(bus.araddr[2:])
        new = bus.rvalid & ~self.past(bus.rvalid & ~bus.rready)

        # What the address is of, and the register's value in this cycle.
        low, high, wide, value = Signal(), Signal(), Signal(), Signal(2 * WORD)
        with m.Switch(address):
            for rows in self.places.values():
                is_wide = rows[0].words > 1
                with m.Case(*(row.address >> 2 for row in rows)):
                    m.d.comb += [low.eq(1), wide.eq(is_wide), value.eq(self._value(rows[0]))]
                if is_wide:
                    with m.Case(*((row.address >> 2) + 1 for row in rows)):
                        m.d.comb += high.eq(1)
        held, held_now = Signal(WORD), Signal(WORD)
        m.d.comb += held_now.eq(Mux(new & self.past(wide, 2), self.past(value, 2)[WORD:], held))
        m.d.sync += held.eq(held_now)
        self.check("read_is_right", ~new | Mux(
            self.past(low | high, 2), (bus.rresp == OKAY) & (
                bus.rdata == Mux(self.past(high, 2), held, self.past(value, 2)[:WORD])),
            bus.rresp == SLVERR))
        self._windows(m, address, new)

        has_address, answers = inner["_elaborate_read.has_address"], inner["answers"]
        self.invariant("reads_are_right", pending == has_address + bus.rvalid)
        self.invariant("read_kept", ~has_address | (inner["_elaborate_read.address"] == address))
        under_way = Cat(inner["steps"], answers)
        self.invariant("answers_one", ~under_way.any() | (has_address & ~bus.rvalid))
        self.invariant("one_at_a_time", (under_way & (under_way - 1)[:3]) == 0)
        self.invariant("held_is", inner["held"] == held_now)
        self.cover("read_back", new & (bus.rdata == 0x5A5A5A5A))
        self.cover("high_word", new & self.past(high, 2) & (bus.rdata == 0x5A5A5A5A))

    def _windows(self, m, address, new):
        """A row is asked for two cycles before the one in which it is read."""
        for window in {register.window for register in self.registers} - {None}:
            index, within = self._port(f"{window}__index"), Signal(name=f"within_{window}")
            row = Signal.like(index)
            rows = {}
            for register in (each for places in self.places.values() for each in places):
                if register.window == window:
                    rows.setdefault(register.row, []).append(register.address >> 2)
            with m.Switch(address):
                for number, words in rows.items():
                    with m.Case(*words):
                        m.d.comb += [row.eq(number), within.eq(1)]
            self.check(f"asks_{window}", ~(new & self.past(within, 2))
                       | (self.past(index, 4) == self.past(row, 2)))


FILE = "registers/bank.py"
FAULTS = (
    Fault(name="answer dropped at once", file=FILE,
          old="with m.If(bus.bready):\n            m.d.sync += bus.bvalid.eq(0)",
          new="with m.If(1):\n            m.d.sync += bus.bvalid.eq(0)",
          caught=("b_held",)),
    Fault(name="next write overtakes a waiting answer", file=FILE,
          old="~applies & (~bus.bvalid | bus.bready)", new="~applies",
          caught=("b_held", "takes_an_address", "takes_a_word", "answer_for_a_pair",
                  "slverr_unless_writable", "told_*", "field_*")),
    Fault(name="strobes ignored", file=FILE,
          old="strobe & chosen.replicate(4)", new="chosen.replicate(4)",
          caught=("field_*", "told_*")),
    Fault(name="unmapped read answers OKAY", file=FILE,
          old="Mux(known | wants_held, Response.OKAY, Response.SLVERR)",
          new="Response.OKAY",
          caught=("read_is_right",)),
    Fault(name="clear wins over a set", file=FILE,
          old="with m.If(sets):", new="with m.If(sets & ~loads.any()):",
          caught=("field_*",)),
    Fault(name="write wins over a load", file=FILE,
          old="with m.If(getattr(self, register.load)):",
          new="with m.If(getattr(self, register.load) & ~loads.any()):",
          caught=("field_*",)),
    Fault(name="any read takes the high word away", file=FILE,
          old="with m.If(holding):", new="with m.If(1):",
          caught=("read_is_right",)),
    Fault(name="row asked for is the one behind", file=FILE,
          old=".eq(address[row:])", new=".eq(address[row:] + 1)",
          caught=("asks_*",)),
)

PROOFS = [Proof(name="registers", says="AXI4-Lite handshake, every access answered once, fields",
                spec=BankSpec, depth=6, reach=20, solver="yices", faults=FAULTS)]
