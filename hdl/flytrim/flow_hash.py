# SPDX-License-Identifier: Apache-2.0
"""Hashed flow table: thousands of flows in block RAM, one lookup a cycle, changed in one step."""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .context import FlowKey, FlowRecord, Lookup
from .flow_cam import FlowCommand, FlowOperation, FlowStatus
from .flow_finder import FlowFinder, Stored, merged
from .flow_hand import FlowHand
from .flow_overflow import FlowOverflow
from .place_hash import BANKS
from .port_table import PortTable

__all__ = ["FlowHash"]


class FlowHash(wiring.Component):
    """Cuckoo hashing: a place in each bank for a key, and an overflow. Latency 5, a lookup a cycle.

    The result of a lookup holds until the next one's.

    At every moment each registered entry stands once: in one of its places or in a slot of the
    overflow. Port A of a bank serves lookups alone, port B the commands. A lookup reads the banks,
    the overflow's keys and the ports as they are in one cycle, and whatever a command or a move
    changes in them changes in one cycle. So every lookup sees an entry wholly before or wholly
    after its change, and an entry that moves at its old place or its new one.

    An entry whose places are all taken takes one of them over. Its victim was copied into the spare
    slot before, which counts from the cycle on in which the place is overwritten. Then the victim
    looks for a place in its turn, and so on, for ``kicks`` moves. What has none by then stays in
    its slot, is found there just as fast, and tries again after each later command. One slot is
    always spare, so that entries can move; an entry that would need that one is refused, ``FULL``.
    This happens from about 96 % of ``flows`` on. ``REPLACE`` under the same key is never refused.

    A command ends when that is done: after some 90 cycles where nothing moves, 40 more a move, and
    with the default choices never more than 12,000. For lookups it is done in one cycle of these.
    Reset empties the table at once; commands then wait for as many cycles as a bank has places.

    Parameters
    ----------
    flows : int
        Flow numbers, as many as there are places in all banks; a power of two, 8 to 65536.
    slots : int
        Slots of the overflow, the spare one included; 2 to 15.
    ports : int
        Distinct UDP destination ports; one more is refused, ``PORTS``.
    kicks : int
        Moves that an entry without a place may cause.

    Members
    -------
    i : lane of :class:`FlowKey`, the lookups
    o : lane of :class:`Lookup`, their results in order
    commands : stream of :class:`FlowCommand`
    status : :class:`FlowStatus` of the last command, valid while ``commands.ready``
    number, restarts, reads, found : as of :class:`flytrim.flow_cam.FlowCam`; ``number`` is right
        while ``commands.ready``, and until ``restarts``
    """

    latency = FlowFinder.latency

    def __init__(self, flows, *, slots=8, ports=8, kicks=32):
        if flows not in (1 << bits for bits in range(3, 17)):
            raise ValueError(f"flows must be a power of two from 8 to 65536, not {flows!r}")
        if not 2 <= slots <= 15:
            raise ValueError(f"slots must be 2 to 15, not {slots!r}")
        if not 1 <= ports <= 64:
            raise ValueError(f"ports must be 1 to 64, not {ports!r}")
        if not 1 <= kicks <= 255:
            raise ValueError(f"kicks must be 1 to 255, not {kicks!r}")
        self._flows, self._slots, self._ports, self._kicks = flows, slots, ports, kicks
        self._places = range(flows // BANKS)
        super().__init__({
            "i": In(stream.Signature(FlowKey, always_ready=True)),
            "o": Out(stream.Signature(Lookup, always_ready=True)),
            "commands": In(stream.Signature(FlowCommand)),
            "status": Out(unsigned(4)),
            "number": Out(unsigned(16)),
            "restarts": Out(1),
            "reads": Out(1),
            "found": Out(FlowRecord),
        })

    def elaborate(self, platform):
        m = Module()
        banks = [memory.Memory(shape=Stored(self._flows), depth=len(self._places), init=[])
                 for _ in range(BANKS)]
        for n, bank in enumerate(banks):
            m.submodules[f"bank_{n}"] = bank
        m.submodules.overflow = overflow = FlowOverflow(self._flows, self._slots)
        m.submodules.ports = ports = PortTable(self._ports, self._flows)

        m.submodules.finder = finder = FlowFinder(self._flows)
        connect(m, flipped(self.i), finder.i)
        connect(m, finder.o, flipped(self.o))
        for bank, place, found in zip(banks, finder.places, finder.found, strict=True):
            read = bank.read_port()
            m.d.comb += [read.addr.eq(place), found.eq(read.data)]
        m.d.comb += [
            overflow.key.eq(finder.key),
            finder.slot_hit.eq(overflow.hit),
            finder.slot_answer.eq(overflow.answer),
            ports.port.eq(finder.key.dport),
            finder.known.eq(ports.known),
        ]
        self._elaborate_commands(m, banks, overflow, ports, finder.live)
        return m

    def _elaborate_commands(self, m, banks, overflow, ports, live):
        m.submodules.hand = hand = FlowHand(self._flows)
        # Where a number was put last, in a bank or in the overflow, which counts as one more.
        # Whether it is there still shows at that place, so nothing here need be cleared.
        layout = data.StructLayout({
            "bank": range(BANKS + 1), "place": range(max(len(self._places), self._slots))})
        m.submodules.where = where = memory.Memory(shape=layout, depth=self._flows, init=[])
        lookup, note = where.read_port(), where.write_port()
        owner = lookup.data

        operation, too_high = Signal.like(self.commands.payload.operation), Signal()
        addresses = [Signal(self._places, name=f"address_{n}") for n in range(BANKS)]
        # Banks: that the entry at hand goes to; that an old one leaves; that are not to choose
        # from; whose place is free.
        target, leaving, came_from, vacant = (
            Signal(BANKS, name=name) for name in ("target", "leaving", "came_from", "vacant"))
        leaving_slot, evicting = Signal(), Signal()
        # Behind the command itself, entries of the overflow come to hand.
        homing, slot, row = Signal(), Signal(range(self._slots)), Signal(range(self._slots + 1))
        kicks, source = Signal(range(self._kicks + 1)), Signal(BANKS + 1, init=1)
        start, clearing, commit = Signal(), Signal(), Signal()

        for n, bank in enumerate(banks):
            # One address for both makes one port of the memory of them.
            read, write = bank.read_port(), bank.write_port()
            stays = hand.places[n] == owner.place
            m.d.comb += [
                read.addr.eq(addresses[n]),
                write.addr.eq(addresses[n]),
                write.data.valid.eq(target[n]),
                write.data.entry.eq(hand.entry),
                write.en.eq(clearing | (commit & (target[n] | leaving[n]))),
                hand.banks[n].eq(read.data),
            ]
            m.d.sync += vacant[n].eq(Mux(leaving[n], stays, ~read.data.valid))
        m.d.comb += [
            live.eq(~clearing),
            hand.command.eq(self.commands.payload),
            hand.start.eq(start),
            hand.source.eq(source),
            hand.overflow.valid.eq(overflow.row_valid),
            hand.overflow.entry.eq(overflow.read),
            overflow.entry.eq(hand.taken),
            overflow.row.eq(row),
            overflow.publish.eq(commit & evicting),
            overflow.release.eq(commit & (homing | leaving_slot)),
            overflow.released.eq(Mux(homing, slot, owner.place)),
            ports.adds.eq(operation != FlowOperation.DELETE),
            ports.added.eq(hand.entry.key.dport),
            ports.drops.eq(operation != FlowOperation.INSERT),
            ports.commit.eq(commit & ~homing),
            self.number.eq(hand.entry.number),
            self.found.key.eq(hand.taken.key),
            self.found.context.eq(hand.taken.context),
            lookup.addr.eq(hand.entry.number),
        ]
        # Of the entry that was taken up.
        occupied, collides, searched = (
            Signal(name=name) for name in ("occupied", "collides", "searched"))
        # Replacing an entry by a flow of the same key is no collision with itself.
        itself = (operation == FlowOperation.REPLACE) & hand.same_number
        m.d.sync += [
            occupied.eq(hand.taken_valid & hand.same_number),
            collides.eq(hand.taken_valid & hand.same_key & ~itself),
            searched.eq(Mux(overflow.empty, source[BANKS - 1],
                            source[BANKS] & (row == self._slots - 1))),
        ]
        choice = self._elaborate_choice(m, commit & evicting, leaving | came_from)

        def begin(state):
            m.d.comb += start.eq(1)
            m.next = state

        def refuse(status):
            m.d.sync += self.status.eq(status)
            m.next = "Ready"

        def aim():
            m.d.sync += [address.eq(place)
                         for address, place in zip(addresses, hand.places, strict=True)]

        with m.FSM():
            with m.State("Clear"):
                m.d.comb += clearing.eq(1)
                m.d.sync += [address.eq(address + 1) for address in addresses]
                with m.If(addresses[0] == len(self._places) - 1):
                    m.next = "Ready"
            with m.State("Ready"):
                accepted = self.commands.valid & self.commands.ready
                m.d.comb += [self.commands.ready.eq(hand.ready), hand.accept.eq(~accepted)]
                m.d.sync += [
                    operation.eq(self.commands.payload.operation),
                    too_high.eq(self.commands.payload.flow >= self._flows),
                    target.eq(0), leaving.eq(0), leaving_slot.eq(0), came_from.eq(0),
                    evicting.eq(0), homing.eq(0),
                ]
                with m.If(accepted):
                    m.d.sync += self.status.eq(FlowStatus.DONE)
                    begin("Check")
            with m.State("Check"), m.If(hand.done):
                with m.If((operation == 0) | (operation > FlowOperation.RESTART)):
                    refuse(FlowStatus.UNKNOWN)
                with m.Elif(too_high):
                    refuse(FlowStatus.BAD_NUMBER)
                with m.Else():
                    m.d.sync += [address.eq(owner.place) for address in addresses]
                    m.d.sync += [source.eq(1 << owner.bank), row.eq(owner.place)]
                    begin("Find owner")
            with m.State("Find owner"):
                m.d.comb += hand.taking.eq(1)
                with m.If(hand.done):
                    with m.If((operation == FlowOperation.INSERT) & occupied):
                        refuse(FlowStatus.OCCUPIED)
                    with m.Elif((operation != FlowOperation.INSERT) & ~occupied):
                        refuse(FlowStatus.EMPTY)
                    with m.Elif(operation == FlowOperation.READ):
                        m.d.comb += self.reads.eq(1)
                        m.next = "Ready"
                    with m.Elif(operation == FlowOperation.RESTART):
                        m.d.comb += self.restarts.eq(1)
                        m.next = "Ready"
                    with m.Else():
                        with m.If(operation != FlowOperation.INSERT):
                            m.d.sync += [
                                leaving.eq(source), leaving_slot.eq(source[BANKS]),
                                ports.dropped.eq(hand.taken.key.dport),
                            ]
                        with m.If(operation == FlowOperation.DELETE):
                            begin("Settle")
                        with m.Else():
                            m.d.sync += [source.eq(1), row.eq(0)]
                            aim()
                            begin("Search")
            with m.State("Search"):
                m.d.comb += hand.taking.eq(1)
                with m.If(hand.done):
                    with m.If(collides):
                        refuse(Mux(hand.same_options, FlowStatus.DUPLICATE, FlowStatus.OVERLAP))
                    with m.Elif(searched):
                        m.next = "Place"
                    with m.Else():
                        with m.If(source[BANKS]):
                            m.d.sync += row.eq(row + 1)
                        with m.Else():
                            m.d.sync += source.eq(source << 1)
                        begin("Search")
            with m.State("Place"):
                with m.If(~homing & ~ports.fits):
                    refuse(FlowStatus.PORTS)
                with m.Elif(vacant.any()):
                    m.d.sync += target.eq(vacant & -vacant)
                    m.next = "Commit"
                with m.Elif(Mux(homing, kicks.any(), overflow.roomy | leaving_slot)):
                    m.d.sync += [
                        evicting.eq(1), target.eq(choice), source.eq(choice), kicks.eq(kicks - 1)]
                    begin("Evict")
                with m.Elif(homing):
                    m.next = "Scan"
                with m.Else():
                    refuse(FlowStatus.FULL)
                for n, address in enumerate(addresses):
                    with m.If(leaving[n]):
                        m.d.sync += address.eq(owner.place)
            with m.State("Evict"):
                m.d.comb += [hand.taking.eq(1), overflow.store.eq(hand.stored)]
                with m.If(hand.done):
                    m.next = "Commit"
            with m.State("Settle"), m.If(hand.done):
                m.next = "Commit"
            with m.State("Commit"):
                m.d.comb += [
                    commit.eq(1),
                    self.restarts.eq(~homing & (operation == FlowOperation.INSERT)),
                ]
                m.d.sync += [leaving.eq(0), leaving_slot.eq(0), slot.eq(overflow.spare)]
                m.next = "Note entry"
            with m.State("Note entry"):
                m.d.comb += [
                    note.en.eq(target.any()),
                    note.addr.eq(hand.entry.number),
                    note.data.bank.eq(Cat(target[1] | target[3], target[2] | target[3])),
                    note.data.place.eq(merged(addresses, target)),
                ]
                m.d.sync += homing.eq(1)
                with m.If(~homing):
                    m.d.sync += [row.eq(0), kicks.eq(self._kicks)]
                m.next = "Scan"
                with m.If(evicting):
                    m.next = "Note victim"
            with m.State("Note victim"):
                m.d.comb += [
                    note.en.eq(1),
                    note.addr.eq(hand.taken.number),
                    note.data.bank.eq(BANKS),
                    note.data.place.eq(slot),
                ]
                m.d.sync += [came_from.eq(target), evicting.eq(0)]
                begin("Copy")
            with m.State("Scan"):
                with m.If(overflow.empty | (row == self._slots)):
                    m.next = "Ready"
                with m.Else():
                    m.d.sync += source.eq(1 << BANKS)
                    begin("Load")
            with m.State("Load"):
                m.d.comb += hand.taking.eq(1)
                with m.If(hand.done):
                    m.d.sync += row.eq(row + 1)
                    m.next = "Scan"
                    with m.If(hand.taken_valid):
                        m.d.sync += [
                            slot.eq(row), kicks.eq(self._kicks), came_from.eq(0)]
                        begin("Copy")
            with m.State("Copy"):
                m.d.comb += hand.copying.eq(1)
                with m.If(hand.done):
                    aim()
                    begin("Aim")
            with m.State("Aim"), m.If(hand.done):
                m.next = "Place"

    def _elaborate_choice(self, m, step, barred):
        """The bank whose entry has to move, at random but the same in every run; none barred."""
        random = Signal(16, init=1)
        with m.If(step):
            m.d.sync += random.eq(Cat(random[2:], *(
                random[n] ^ random[n + 2] ^ random[n + 3] ^ random[n + 5] for n in range(2))))
        turn = Cat(random[:2] == n for n in range(BANKS))
        return Cat((turn[n] & ~barred[n]) | (turn[n - 1] & barred[n - 1]) for n in range(BANKS))
