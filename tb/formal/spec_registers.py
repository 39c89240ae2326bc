# SPDX-License-Identifier: Apache-2.0
"""RegisterBank: the AXI4-Lite handshake, and what a write may and may not change."""

from amaranth import Cat, Const, Mux, Signal, Value
from proof import Fault, Opened, Proof, Spec
from systemrdl.node import RegNode

from flytrim.registers import load
from flytrim.registers.bank import RegisterBank

OKAY, SLVERR = 0, 2


class BankSpec(Spec):
    """Keeps its own copy of every field, from the writes accepted and the description alone."""

    def specify(self, m):
        self.bank = bank = RegisterBank(load())
        m.submodules.bank = inner = Opened(bank)
        bus = bank.bus
        self.free(*(getattr(bus, name) for name in
                    ("awaddr", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr",
                     "arvalid", "rready")))
        self.registers = [node for node in load().descendants(unroll=True)
                          if isinstance(node, RegNode)]
        for node in self.registers:
            for field in node.fields():
                if not field.is_sw_writable and field.is_hw_writable:
                    self.free(self._port(node, field))
        self._writes(m, bus, inner)
        self._reads(m, bus, inner)

    def _port(self, node, field):
        path = node.get_rel_path(load(), array_suffix="_{index:d}", empty_array_suffix="")
        return getattr(self.bank, f"{path.replace('.', '__')}__{field.inst_name}")

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
        self.copies = {}
        for node in self.registers:
            if not node.has_sw_writable:
                continue
            here = Signal(name=f"at_{node.absolute_address:x}")
            m.d.comb += here.eq(new & (at == node.absolute_address >> 2))
            known = known | here
            for field in node.fields():
                if not field.is_sw_writable:
                    continue
                bits = slice(field.low, field.high + 1)
                copy = Signal(field.width, init=field.get_property("reset") or 0)
                after = Mux(here, (value & mask)[bits] | (copy & ~mask[bits]), copy)
                m.d.sync += copy.eq(after)
                self.copies[field.get_path()] = after
                self.check(f"field_{node.absolute_address:x}_{field.inst_name}",
                           self._port(node, field) == after)
        self.check("slverr_unless_writable", ~new | (bus.bresp == Mux(known, OKAY, SLVERR)))
        # The operation stands in the third byte; its field is the one whose writing is told.
        command = new & (at == 0x140 >> 2) & enabled[2]
        self.check("written_is_one_pulse", self.bank.flow_command__written == command)

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

    def _reads(self, m, bus, inner):
        self._held("r", bus.rvalid, bus.rready, bus.rdata, bus.rresp)
        accept, answer = bus.arvalid & bus.arready, bus.rvalid & bus.rready
        pending = self._pending(accept, answer, "read")
        self.check("read_was_asked", ~bus.rvalid | (pending > 0))
        waits = (pending > 0) & ~bus.rvalid
        self.check("read_in_time", ~(self.past(waits) & self.past(waits, 2)) | bus.rvalid)
        self.check("takes_a_read", (pending > bus.rvalid) | bus.arready)
        address = Signal(10)
        with m.If(accept):
            m.d.sync += address.eq(bus.araddr[2:])
        new = bus.rvalid & ~self.past(bus.rvalid & ~bus.rready)

        expected, known = Signal(32), Signal()
        with m.Switch(address):
            for node in self.registers:
                with m.Case(node.absolute_address >> 2):
                    m.d.comb += known.eq(1)
                    for field in node.fields():
                        fixed = not (field.is_sw_writable or field.is_hw_writable)
                        m.d.comb += expected[field.low:field.high + 1].eq(
                            field.get_property("reset") if fixed else
                            self.copies[field.get_path()]
                            if field.is_sw_writable else self._port(node, field))
        self.check("read_is_right", ~new | (
            (bus.rdata == self.past(expected))
            & (bus.rresp == Mux(self.past(known), OKAY, SLVERR))))
        has_address, answers = inner["_elaborate_read.has_address"], inner["answers"]
        self.invariant("reads_are_right", pending == has_address + bus.rvalid)
        self.invariant("read_kept", ~has_address | (inner["_elaborate_read.address"] == address))
        self.invariant("answers_one", ~answers | (has_address & ~bus.rvalid))
        self.cover("read_back", new & (bus.rdata == 0x5A5A5A5A))


FILE = "registers/bank.py"
FAULTS = (
    Fault(name="answer dropped at once", file=FILE,
          old="with m.If(bus.bready):\n            m.d.sync += bus.bvalid.eq(0)",
          new="with m.If(1):\n            m.d.sync += bus.bvalid.eq(0)",
          caught=("b_held",)),
    Fault(name="next write overtakes a waiting answer", file=FILE,
          old="~applies & (~bus.bvalid | bus.bready)", new="~applies",
          caught=("b_held", "takes_an_address", "takes_a_word", "answer_for_a_pair",
                  "slverr_unless_writable", "written_is_one_pulse", "field_*")),
    Fault(name="strobes ignored", file=FILE,
          old="strobe & chosen.replicate(4)", new="chosen.replicate(4)",
          caught=("field_*",)),
    Fault(name="unmapped read answers OKAY", file=FILE,
          old="Mux(chosen.any(), Response.OKAY, Response.SLVERR)", new="Response.OKAY",
          caught=("read_is_right",)),
)

PROOFS = [Proof(name="registers", says="AXI4-Lite handshake, every access answered once, fields",
                spec=BankSpec, depth=3, reach=8, faults=FAULTS)]
