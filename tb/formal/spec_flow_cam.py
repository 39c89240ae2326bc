# SPDX-License-Identifier: Apache-2.0
"""FlowCam: a lookup sees every entry wholly before or wholly after a command, and one at most."""

from amaranth import Cat, Const, Mux, Signal, Value
from amaranth.lib import data
from proof import Fault, Opened, Proof, Spec

from flytrim.context import FlowContext, FlowKey, Lookup
from flytrim.flow_cam import FlowCam, FlowCommand, FlowOperation, FlowStatus

Entry = data.StructLayout({"valid": 1, "key": FlowKey, "context": FlowContext})
OPTIONS = ("check_vlan", "vlan", "check_sport", "sport")


class FlowCamSpec(Spec):
    """Keeps a table that changes all at once, in the cycle in which a command is over.

    A lookup's answer must be that of the table as it is in the cycle of the lookup, before the
    change or after it: number, context and port, all of the same table. A flow starts anew while a
    lookup still sees the table without it.
    """

    def __init__(self, flows, *, narrow):
        self.flows, self.narrow = flows, narrow

    def specify(self, m):
        cam = FlowCam(self.flows)
        m.submodules.cam = self.inner = Opened(cam)
        m.d.comb += cam.key_again.eq(cam.i.payload)
        self.free(cam.i.valid, cam.commands.valid, cam.commands.payload.operation,
                  cam.commands.payload.flow)
        for struct in (cam.i.payload, cam.commands.payload.key, cam.commands.payload.context):
            if self.narrow:
                self._few_bits(m, struct)
            else:
                self.free(struct)
        commands, numbers = cam.commands, range(self.flows)

        busy, command = Signal(), Signal(FlowCommand)
        table = [Signal(Entry, name=f"entry_{n}") for n in numbers]
        expected = self._expected(m, table, command)
        after = [self._entry(f"after_{n}") for n in numbers]
        present = [self._entry(f"present_{n}") for n in numbers]
        over = Signal()
        m.d.comb += over.eq(busy & commands.ready)
        succeeds = busy & (expected == FlowStatus.DONE)
        for n in numbers:
            target = succeeds & (command.flow == n) & self._is(
                command, "INSERT", "REPLACE", "DELETE")
            inserts = command.operation != FlowOperation.DELETE
            m.d.comb += [
                after[n].eq(table[n]),
                present[n].eq(Mux(over, after[n], table[n])),
            ]
            with m.If(target):
                m.d.comb += after[n].valid.eq(inserts)
                m.d.comb += [after[n].key.eq(command.key), after[n].context.eq(command.context)]
            m.d.sync += table[n].eq(present[n])
        with m.If(commands.ready):
            m.d.sync += [busy.eq(commands.valid), command.eq(commands.payload)]

        answer = self._lookup(m, present, cam.i.payload)
        result = cam.o.payload.as_value()
        asked = self.past(cam.i.valid, 2)
        self.check("answers_in_time", cam.o.valid == asked)
        self.check("of_one_whole_table", ~asked | (result == self.past(answer.as_value(), 2)))
        self.check("holds_between", asked | (result == self.past(result)))
        self.check("status_is_right", ~over | (cam.status == expected))
        self.check("one_entry_a_key", Cat(
            ~(a.valid & b.valid & (Value.cast(a.key) == Value.cast(b.key)))
            for n, a in enumerate(present) for b in present[:n]).all())
        told = self._strobes(m, cam, command, busy, over, succeeds, present)
        running = Signal(range(self.flows + 8))
        m.d.sync += running.eq(Mux(commands.ready, 0, running + 1))
        self.check("command_ends", running <= self.flows + 5)
        self._invariants(cam, table, after, present, command, busy, expected, running, told)
        self.cover("hit", asked & cam.o.payload.hit & (cam.o.payload.flow == self.flows - 1))
        self.cover("changed_under_way", self.past(over, 2) & asked & self.past(asked)
                   & cam.o.payload.hit & ~self.past(cam.o.payload.hit))
        self.cover("overlap", over & (cam.status == FlowStatus.OVERLAP))
        self.cover("read", over & self.past(cam.reads) & cam.found.context.disabled)
        self.cover("restarted", over & succeeds & self._is(command, "RESTART"))

    def _is(self, command, *operations):
        return command.operation.matches(*(FlowOperation[name] for name in operations))

    def _strobes(self, m, cam, command, busy, over, succeeds, present):
        """What is told of a command beside its status; gives which of it was told so far."""
        self.check("number_is_of_the_command", ~busy | (cam.number == command.flow))
        told = []
        for name, operations in (("restarts", ("INSERT", "RESTART")), ("reads", ("READ",))):
            strobe, seen = getattr(cam, name), Signal(name=f"{name}_seen")
            m.d.sync += seen.eq(~cam.commands.ready & (seen | strobe))
            self.check(f"{name}_once", ~strobe | (busy & ~over & ~seen))
            self.check(f"{name}_as_it_should",
                       ~over | (seen == (succeeds & self._is(command, *operations))))
            told.append(seen)
        self.check("number_is_there_before", ~cam.restarts | (
            (self.past(cam.number) == cam.number) & (self.past(cam.number, 2) == cam.number)))
        for n, entry in enumerate(present):
            self.check(f"found_is_entry_{n}", ~(self.past(cam.reads) & (command.flow == n)) | (
                Value.cast(cam.found) == Value.cast(entry)[1:]))
        return told

    def _invariants(self, cam, table, after, present, command, busy, expected, running, told):
        """What the table and its copy hold, and how far a command under way has come."""
        m, inner, flows = self.m, self.inner, self.flows
        held, number = inner["_elaborate_commands.held"], inner["number"]
        check, search, read, commit, settle = (inner.state(name) for name in (
            "Check", "Search", "Read", "Commit", "Settle"))
        ready = cam.commands.ready
        writes = busy & (expected == FlowStatus.DONE)
        # These two read the table through; the others go ahead at once.
        searches = self._is(command, "INSERT", "REPLACE")
        self.invariant("busy_until_ready", busy | ready)
        self.invariant("held_is_command", ~busy | (Value.cast(held) == Value.cast(command)))
        self.invariant("nothing_said_yet", ready | (cam.status == FlowStatus.DONE))
        self.invariant("ready_is", ready == inner.state("Ready"))
        for n in range(flows):
            self.invariant(f"changing_{n}_is", inner["changing"][n] == (
                settle & (command.flow == n) & ~self._is(command, "RESTART")))

        rows = []
        for n in range(flows):
            look = inner["copy"].read_port(domain="comb")
            m.d.comb += look.addr.eq(n)
            rows.append(look.data)
            self.invariant(f"valid_{n}_is", inner["valids"][n] == present[n].valid)
            self.invariant(f"key_{n}_is", Value.cast(inner["keys"][n])
                           == Value.cast(present[n].key))
            self.invariant(f"context_{n}_is", Value.cast(inner["contexts"][n])
                           == Value.cast(table[n].context))
            row = Mux(settle, Value.cast(after[n]), Value.cast(present[n]))
            self.invariant(f"copy_{n}_is", Value.cast(rows[n]) == row[1:])

        # The search: what is read, what was read before, and what is known to be no collision.
        passed = search | commit | settle
        self.invariant("passed_the_check", ~passed | writes | (
            expected == FlowStatus.DUPLICATE) | (expected == FlowStatus.OVERLAP))
        self.invariant("row_is", ~passed | (inner["row"] == command.flow[:len(inner["row"])]))
        self.invariant("searched_is", ~search | searches)
        self.invariant("read_is", read == (busy & ~ready & ~check & self._is(command, "READ")))
        self.invariant("reads_what", ~read | (writes & (number == command.flow)))
        self.invariant("told_at_the_end", ready | ~Cat(told).any())
        self.invariant("number_in_range", ~search | (number <= flows + 1))
        self.invariant("reading_is", ~(check | search) | (inner["reading"] == (number != 0)))
        self.invariant("starts_at_zero", ~check | (number == 0))
        self.invariant("running_is", ready | (
            running == Mux(check, 0, Mux(search, number + 1,
                                           Mux(searches, flows + 3, 1) + settle))))
        clashes, differ = Signal(flows), Signal(flows)
        for n, entry in enumerate(table):
            itself = (command.operation == FlowOperation.REPLACE) & (command.flow == n)
            m.d.comb += [
                clashes[n].eq(entry.valid & (Value.cast(entry.key) == Value.cast(command.key))
                              & ~itself),
                differ[n].eq(Cat(getattr(entry.context, name) != getattr(command.context, name)
                                 for name in OPTIONS).any()),
            ]
            self.invariant(f"reads_{n}", ~(search & (number == n + 1)) | (
                (inner["read_number"] == n)
                & (Value.cast(inner["read"].data) == Value.cast(rows[n]))))
            self.invariant(f"found_{n}", ~(search & (number == n + 2)) | (
                (inner["collides"] == clashes[n])
                & (~clashes[n] | (inner["overlaps"] == differ[n]))))
            self.invariant(f"no_clash_{n}", ~((commit | settle) & searches | (
                search & (number > n + 2))) | ~clashes[n])
        self.invariant("found_nothing_yet", ~(search & (number < 2)) | ~inner["collides"])

    def _few_bits(self, m, struct):
        """Anything in the outermost bits of each field, zero between."""
        for name, _ in data.Layout.cast(struct.shape()):
            field = Value.cast(getattr(struct, name))
            ends = Signal(min(2, len(field)), name=f"ends_{name}")
            self.free(ends)
            m.d.comb += [field[0].eq(ends[0]), field[-1].eq(ends[-1])]

    def _entry(self, name):
        return Signal(Entry, name=name)

    def _expected(self, m, table, command):
        """The status that the command must end with."""
        status = Signal(4, name="expected")
        occupied = Cat(entry.valid & (command.flow == n) for n, entry in enumerate(table)).any()
        clash, options_differ = Const(0), Const(0)
        for n, entry in enumerate(table):
            same = entry.valid & (Value.cast(entry.key) == Value.cast(command.key)) & ~(
                (command.operation == FlowOperation.REPLACE) & (command.flow == n))
            differ = Cat(getattr(entry.context, name) != getattr(command.context, name)
                         for name in OPTIONS).any()
            clash, options_differ = clash | same, options_differ | (same & differ)
        m.d.comb += status.eq(FlowStatus.DONE)
        with m.If(~self._is(command, *FlowOperation.__members__)):
            m.d.comb += status.eq(FlowStatus.UNKNOWN)
        with m.Elif(command.flow >= self.flows):
            m.d.comb += status.eq(FlowStatus.BAD_NUMBER)
        with m.Elif((command.operation == FlowOperation.INSERT) & occupied):
            m.d.comb += status.eq(FlowStatus.OCCUPIED)
        with m.Elif((command.operation != FlowOperation.INSERT) & ~occupied):
            m.d.comb += status.eq(FlowStatus.EMPTY)
        with m.Elif(self._is(command, "INSERT", "REPLACE") & clash):
            m.d.comb += status.eq(Mux(options_differ, FlowStatus.OVERLAP, FlowStatus.DUPLICATE))
        return status

    def _lookup(self, m, table, key):
        result = Signal(Lookup, name="answer")
        for n, entry in enumerate(table):
            with m.If(entry.valid & (entry.key.dport == key.dport)):
                m.d.comb += result.dport_known.eq(1)
            with m.If(entry.valid & (Value.cast(entry.key) == Value.cast(key))):
                m.d.comb += [result.hit.eq(1), result.flow.eq(n), result.context.eq(entry.context)]
        return result


FILE = "flow_cam.py"
FAULTS = (
    Fault(name="context changes with the key", file=FILE,
          old="fresh.context.as_value(), changing[n]", new="fresh.context.as_value(), changes",
          caught=("of_one_whole_table",)),
    Fault(name="entry is valid before its key is there", file=FILE,
          old="with m.If(changing[n]):", new="with m.If(changes):",
          caught=("of_one_whole_table",)),
    Fault(name="search skips the last entry", file=FILE,
          old="number == self._flows + 1", new="number == self._flows",
          caught=("status_is_right", "one_entry_a_key")),
    Fault(name="refused insert clears the entry", file=FILE,
          old="m.d.sync += self.status.eq(FlowStatus.OCCUPIED)",
          new="m.d.sync += [self.status.eq(FlowStatus.OCCUPIED),"
              " valids.bit_select(entry, 1).eq(0)]",
          caught=("of_one_whole_table", "status_is_right")),
    Fault(name="replaced flow starts anew", file=FILE,
          old="restarts_one | (held.operation == FlowOperation.INSERT)", new="1",
          caught=("restarts_as_it_should",)),
    Fault(name="reads the entry in front", file=FILE,
          old="Mux(reads_one, entry, 0)", new="Mux(reads_one, entry - 1, 0)",
          caught=("found_is_entry_*",)),
    Fault(name="restart writes the entry", file=FILE,
          old="written.eq(~restarts_one)", new="written.eq(1)",
          caught=("of_one_whole_table",)),
)

PROOFS = [Proof(name=name, says="wholly old or new, one hit, status and no change",
                spec=lambda flows=flows, narrow=narrow: FlowCamSpec(flows, narrow=narrow),
                depth=3, reach=22, solver="yices", faults=FAULTS if name == "flow_cam_2" else ())
          for name, flows, narrow in (("flow_cam_2", 2, True), ("flow_cam_3", 3, True),
                                      ("flow_cam_all", 2, False))]
