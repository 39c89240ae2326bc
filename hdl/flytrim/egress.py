# SPDX-License-Identifier: Apache-2.0
"""Egress: results with their headers, and what is forwarded, frame by frame to one port."""

from amaranth import Cat, Module, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from .axis import PacketSource, axis_members, wire
from .encapsulator import Encapsulation, Encapsulator
from .group import GROUP_BITS, Template
from .headers import ICRC_BYTES, MAX_HEADER_BYTES
from .logic import select
from .packet import Packet
from .reduction.child import GroupEntry, Result
from .reduction.lives import Lives
from .stream import Queue, RoundRobin, SteadyQueue

__all__ = ["Egress"]

#: Beats on their way from the encapsulator when ``room`` is looked at.
IN_FLIGHT = 8


class Egress(wiring.Component):
    """Sends results under their headers, and forwarded frames between them.

    A source that has begun a frame sends it to its end; between frames all that wait take turns.
    With nothing in the way, the first beat of a frame leaves 6 cycles behind the first beat of the
    result, whose record must have come before.

    A result that gets its headers when its group was stopped, or started again, might get those of
    another life: it leaves as a bad frame.

    Parameters
    ----------
    config : SwitchConfig
    in_flight : int
        Beats and records that may still come when ``room`` is looked at.

    Members
    -------
    records, beats : lanes of :class:`Result` and of payloads
    room : there is room for a result of a whole slot and ``in_flight`` beats and records
    written, group, headers : strobe: ``headers`` become those of ``group``
    placed, placed_group, entry : strobe: ``entry`` becomes that of ``placed_group``
    running : a bit a group: its results count
    forwarded : streams of frames without gaps
    axis_* : AXI4-Stream, never with a gap inside a frame
    """

    def __init__(self, config, in_flight):
        self._config, self._in_flight = config, in_flight
        super().__init__({
            "records": In(stream.Signature(Result, always_ready=True)),
            "beats": In(stream.Signature(Packet(config.width), always_ready=True)),
            "room": Out(1),
            "written": In(1),
            "group": In(GROUP_BITS),
            "headers": In(Template),
            "placed": In(1),
            "placed_group": In(GROUP_BITS),
            "entry": In(GroupEntry),
            "running": In(config.groups),
            "forwarded": In(stream.Signature(Packet(config.width))).array(config.ports),
            **axis_members("axis", Out, config.width, user=1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        margin = config.slot_beats + self._in_flight
        depth = 1 << (2 * margin - 1).bit_length()
        m.submodules.records_queue = records = Queue(Result, depth=depth, margin=margin)
        m.submodules.beats_queue = beats = SteadyQueue(
            Packet(config.width), depth=depth, margin=margin)
        m.submodules.encapsulator = encapsulator = Encapsulator(config.width)
        longest = -(-(MAX_HEADER_BYTES + config.slot_bytes + ICRC_BYTES) // config.lanes)
        margin = longest + IN_FLIGHT
        m.submodules.frames_queue = frames = SteadyQueue(
            Packet(config.width), depth=1 << (2 * margin - 1).bit_length(), margin=margin)
        connect(m, flipped(self.records), records.i)
        connect(m, flipped(self.beats), beats.i)
        connect(m, beats.o, encapsulator.i)
        connect(m, encapsulator.o, frames.i)
        m.d.comb += [
            self.room.eq(records.room & beats.room),
            encapsulator.room.eq(frames.room),
            records.commit.eq(1),
        ]
        self._address(m, records.o, encapsulator.i_header)
        self._arbitrate(m, frames.o)
        return m

    def _address(self, m, records, headers):
        """From a result to the headers that it leaves under."""
        m.submodules.templates = templates = memory.Memory(
            shape=Template, depth=max(2, self._config.groups), init=[])
        m.submodules.lives = lives = Lives(self._config, 1)
        write, read = templates.write_port(), templates.read_port(domain="comb")
        result, header = records.payload, Signal(Encapsulation, reset_less=True)
        m.d.comb += [
            write.addr.eq(self.group), write.data.eq(self.headers), write.en.eq(self.written),
            lives.placed.eq(self.placed), lives.group.eq(self.placed_group),
            lives.entry.eq(self.entry), lives.running.eq(self.running),
            lives.of[0].group.eq(result.group), lives.of[0].life.eq(result.life),
            read.addr.eq(result.group),
            headers.payload.eq(header),
            records.ready.eq(~headers.valid | headers.ready),
        ]
        with m.If(records.ready):
            m.d.sync += [
                headers.valid.eq(records.valid),
                header.header.eq(read.data),
                header.psn.eq(read.data.psn + result.offset),
                header.address.eq(
                    read.data.va + (result.offset << ceil_log2(self._config.slot_bytes))),
                header.length.eq(result.length),
                header.ce.eq(result.ce),
                header.void.eq(~lives.runs[0]),
                header.immediate.eq(result.missing),
            ]

    def _arbitrate(self, m, results):
        """One source after the other, a frame each."""
        sources = [results, *self.forwarded]
        m.submodules.turns = turns = RoundRobin(len(sources))
        m.submodules.source = port = PacketSource(self._config.width)
        wire(m, self, "axis", port)
        # A source is held from the moment its frame is offered, lest it change while it waits.
        held, holding, chosen = Signal(len(sources)), Signal(), Signal(len(sources))
        over = Signal()
        m.d.comb += [
            turns.requests.eq(Cat(source.valid for source in sources)),
            chosen.eq(turns.grant),
            port.i.valid.eq((Cat(source.valid for source in sources) & chosen).any()),
            port.i.payload.eq(select(
                zip(chosen, (source.payload.as_value() for source in sources), strict=True))),
            *(source.ready.eq(pick & port.i.ready)
              for source, pick in zip(sources, chosen, strict=True)),
            over.eq(port.i.valid & port.i.ready & port.i.payload.last),
            turns.served.eq(over),
        ]
        with m.If(holding):
            m.d.comb += chosen.eq(held)
        with m.If(over):
            m.d.sync += holding.eq(0)
        with m.Elif(port.i.valid):
            m.d.sync += [holding.eq(1), held.eq(chosen)]
