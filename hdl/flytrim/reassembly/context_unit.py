# SPDX-License-Identifier: Apache-2.0
"""Context unit: from the record of a packet to what is to be done with it."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..context import MetaRecord
from ..logic import delayed
from ..verdict import Reason
from .bounds import Bounds
from .decider import Decider
from .kinds import Kind, kind_of
from .records import BYTES_BITS, CYCLE_BITS, Command, Fate, Job, Landing, Operation
from .turn import Report

__all__ = ["ContextUnit"]


class ContextUnit(wiring.Component):
    """Decides on each packet: placed, duplicate, gap, the end of a message.

    A command takes the turn of a packet and follows its way, so that whoever sees it has seen all
    packets before it and none behind it. Latency 6 cycles without multipath and 26 with it, a
    packet a cycle; work is taken while there is ``room`` behind, and never stalls from there on.
    With multipath no packet is taken for as long before and behind a command.

    Parameters
    ----------
    flows : int
        Flows; their contexts are in block RAM.
    paths : int
        The flows from 0 on that may be multipath.
    window : int
        Packets of their windows at most.

    Members
    -------
    commands : stream of :class:`Command`
    i : stream of :class:`flytrim.context.MetaRecord`
    room : ``latency`` + 1 jobs may still come
    o : lane of :class:`Job`, one a packet, and one a ``START``
    reports : lane of :class:`flytrim.reassembly.turn.Report`, with the jobs of multipath
    """

    def __init__(self, flows, *, paths=0, window=64):
        self._flows, self._paths, self._window = flows, paths, window
        #: Cycles from a turn to its job.
        self.latency = 3 + Decider.latency_with(paths) + Bounds.latency
        super().__init__({
            "commands": In(stream.Signature(Command)),
            "i": In(stream.Signature(MetaRecord)),
            "room": In(1),
            "o": Out(stream.Signature(Job, always_ready=True)),
            "reports": Out(stream.Signature(Report(window), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.landings = landings = memory.Memory(
            shape=Landing, depth=max(2, self._flows), init=[])
        m.submodules.decider = decider = Decider(self._flows, self._paths, self._window)
        m.submodules.bounds = bounds = Bounds()
        write, read = landings.write_port(), landings.read_port()
        command, cycle = self.commands.payload, Signal(CYCLE_BITS)
        m.d.sync += cycle.eq(cycle + 1)

        # First cycle: a command, or else a packet. They keep apart where a start takes a while.
        quiet, apart = Signal(range(self.latency + 1)), Signal()
        commanded, taken = (port.valid & port.ready for port in (self.commands, self.i))
        with m.If(commanded | taken):
            m.d.sync += [quiet.eq(self.latency if self._paths else 0), apart.eq(commanded)]
        with m.Elif(quiet.any()):
            m.d.sync += quiet.eq(quiet - 1)
        starts = command.operation == Operation.START
        packet, start = Signal(), Signal()
        record = Signal(MetaRecord, reset_less=True)
        m.d.comb += [
            self.commands.ready.eq(self.room & ~quiet.any()),
            self.i.ready.eq(self.room & ~self.commands.valid & ~(apart & quiet.any())),
            write.addr.eq(command.flow),
            write.data.eq(command.landing),
            write.data.enable.eq(starts),
            write.en.eq(commanded),
            read.addr.eq(self.i.payload.flow),
        ]
        m.d.sync += [
            packet.eq(taken),
            start.eq(commanded & starts),
            record.eq(self.i.payload),
        ]
        # The context that is just being written need not be read.
        given, landing = Signal(Landing, reset_less=True), Signal(Landing)
        m.d.sync += given.eq(command.landing)
        m.d.comb += landing.eq(Mux(start, given.as_value(), read.data.as_value()))
        with m.If(commanded):
            m.d.sync += record.flow.eq(command.flow)

        # Second cycle: what the opcode says, how far the RETH's address is in the buffer.
        kind = Signal(Kind)
        m.d.comb += [kind.as_value().eq(kind_of(record.opcode)), decider.number.eq(record.flow)]
        held = Signal(data.StructLayout({
            "valid": 1, "start": 1, "refused": 1, "multipath": 1, "reason": 3, "kind": Kind,
            "away": 65, "record": MetaRecord, "landing": Landing}))
        damaged, fits = record.reason != Reason.NONE, record.flow < self._paths
        m.d.sync += [
            held.valid.eq(packet | start),
            held.start.eq(start),
            held.refused.eq(damaged | ~landing.enable | (kind.response != landing.responses)
                            | landing.multipath & ~fits),
            held.multipath.eq(landing.multipath & fits),
            held.reason.eq(Mux(start, Fate.PLACED, Mux(damaged, Fate.DAMAGED, Fate.SEQUENCE))),
            held.kind.eq(kind),
            held.away.eq(record.address - landing.address),
            held.record.eq(record),
            held.landing.eq(landing),
        ]

        # Third cycle: the turn as a whole.
        turn, was = decider.i.payload, held.record
        write_room = Signal(BYTES_BITS + 1)
        m.d.comb += write_room.eq(held.landing.bytes - held.away[:BYTES_BITS])
        m.d.sync += [
            decider.i.valid.eq(held.valid),
            *(turn[name].eq(held[name])
              for name in ("start", "refused", "multipath", "reason", "kind")),
            *(turn[name].eq(was[name])
              for name in ("flow", "opcode", "immediate", "ack_request")),
            turn.length.eq(Mux(held.start, 0, was.length)),
            turn.number.eq(was.psn - held.landing.start_psn),
            turn.psn.eq(Mux(held.start, held.landing.start_psn, was.psn)),
            turn.cycle.eq(cycle),
            turn.write_room.eq(write_room),
            turn.reachable.eq(~Cat(held.away[BYTES_BITS:], write_room[-1]).any()),
            turn.bytes.eq(held.landing.bytes),
            turn.stride.eq(held.landing.stride),
            turn.paths.eq(held.landing.paths),
        ]

        # Then the flow's state, and in the last two cycles the address.
        job, span = self.o.payload, bounds.o.payload
        decided, wait = decider.o.payload, 1 + decider.latency
        m.d.comb += [
            bounds.i.valid.eq(decider.o.valid),
            bounds.i.payload.base.eq(delayed(m, held.landing.base, wait, name="base")),
            bounds.i.payload.bytes.eq(delayed(m, held.landing.bytes, wait, name="bytes")),
            *(bounds.i.payload[name].eq(decided[name]) for name in ("write", "room", "length")),
            self.o.valid.eq(bounds.o.valid),
            *(job[name].eq(span[name]) for name in ("write", "address", "length")),
            job.lost.eq(span.lost | delayed(m, decided.lost, Bounds.latency, name="lost")),
            job.news.eq(delayed(m, decided.news, Bounds.latency, name="news")),
            self.reports.valid.eq(delayed(m, decider.reports.valid, Bounds.latency, name="reports",
                                          reset=True)),
            self.reports.payload.eq(
                delayed(m, decider.reports.payload, Bounds.latency, name="report")),
        ]
        return m
