# SPDX-License-Identifier: Apache-2.0
"""AXI at the edge of the device: the only place that knows its signal names and packing rules.

Inside, a frame is a lane of :class:`flytrim.context.Received` beats; outside it is AXI4-Stream with
byte 0 of the frame in ``tdata[7:0]`` (AMBA 4 AXI4-Stream, ARM IHI 0051A). ``tuser`` bit 0 on the
last beat marks a bad frame; the bits above are the side band, taken on the first beat.
"""

import enum

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .context import Received
from .packet import Packet, thermometer

__all__ = ["AxiLite", "PacketSink", "PacketSource", "RecordSource", "Response", "axi_members",
           "axil_members", "axis_members", "wire"]


class Response(enum.IntEnum):
    """AXI response codes in use."""

    OKAY = 0
    SLVERR = 2
    #: Nothing has this address.
    DECERR = 3


class AxiLite(wiring.Signature):
    """AXI4-Lite with 32 data bits, seen from the master."""

    def __init__(self, address_width):
        super().__init__({
            "awaddr": Out(address_width), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
            "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
            "bresp": In(2), "bvalid": In(1), "bready": Out(1),
            "araddr": Out(address_width), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
            "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
        })


def axil_members(prefix, address_width):
    """Flat members of an AXI4-Lite slave, by port name."""
    return {f"{prefix}_{name}": member.flip()
            for name, member in AxiLite(address_width).members.items()}


def axi_members(prefix, width, *, ids):
    """Flat members of an AXI4 master that only writes, by port name; 64 bits of address.

    ``ids`` is the bits of an ID. AXI4 is ARM IHI 0022E.
    """
    return {f"{prefix}_{name}": member for name, member in {
        "awid": Out(ids), "awaddr": Out(64), "awlen": Out(8), "awsize": Out(3), "awburst": Out(2),
        "awcache": Out(4), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
        "wdata": Out(width), "wstrb": Out(width // 8), "wlast": Out(1), "wvalid": Out(1),
        "wready": In(1),
        "bid": In(ids), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
    }.items()}


def axis_members(prefix, direction, width, *, user=0, keep=True, ready=True):
    """Flat members of an AXI4-Stream, by port name; ``direction`` is that of ``tdata``."""
    members = {f"{prefix}_tdata": direction(width), f"{prefix}_tvalid": direction(1)}
    if keep:
        members |= {f"{prefix}_tkeep": direction(width // 8), f"{prefix}_tlast": direction(1)}
    if user:
        members[f"{prefix}_tuser"] = direction(user)
    if ready:
        members[f"{prefix}_tready"] = direction(1).flip()
    return members


def wire(m, outer, prefix, inner, own=None):
    """Connects the ports of ``outer`` named ``prefix`` to the same ports of ``inner``.

    There they are named ``own``, its ``prefix`` if not given.
    """
    for name, member in outer.signature.members.items():
        if not name.startswith(f"{prefix}_"):
            continue
        here, there = getattr(outer, name), getattr(
            inner, name.replace(prefix, own or inner.prefix, 1))
        m.d.comb += there.eq(here) if member.flow is In else here.eq(there)


class PacketSink(wiring.Component):
    """Receive port: AXI4-Stream in, a lane of frames out. Never stalls.

    ``o`` is combinational, at most six levels of logic behind the ports: the parser's first
    register is this port's, too.

    A beat that breaks the packing rules (a hole in ``tkeep``, a partial ``tkeep`` before the last
    beat, no byte at all) counts as a full one, with zeros where no byte was given, and marks its
    frame as bad. A frame longer than ``max_frame`` is ended there
    with the error flag and ``oversize``, and the rest of it discarded up to its last beat.

    Parameters
    ----------
    config : NicConfig
    """

    prefix = "axis"

    def __init__(self, config):
        self._config = config
        super().__init__({
            **axis_members("axis", In, config.width, user=1 + config.side_width),
            "o": Out(stream.Signature(Received(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes = self._config, self._config.lanes
        out = self.o.payload
        m.d.comb += self.axis_tready.eq(1)

        # The last beat that a frame may have, and how many bytes of it.
        index = Signal(range(config.max_beats))
        allowed = config.max_frame - (config.max_beats - 1) * lanes
        at_limit = index == config.max_beats - 1
        discard, bad = Signal(), Signal()

        keep = Signal(lanes)
        m.d.comb += keep.eq(self.axis_tkeep & Mux(at_limit, Const((1 << allowed) - 1, lanes),
                                                  Const(-1, lanes)))
        # The last lane in use is the one whose next lane is empty: one-hot, but for a hole.
        ends = keep & ~(keep >> 1)
        count = Cat(Cat(ends[lane] for lane in range(lanes) if lane + 1 >> bit & 1).any()
                    for bit in range(lanes.bit_length()))
        malformed = Signal()
        m.d.comb += malformed.eq((~keep & (keep >> 1)).any() | ~keep[0]
                                 | (~self.axis_tlast & ~self.axis_tkeep[-1]))
        over = at_limit & (~self.axis_tlast | self.axis_tkeep[allowed:].any())

        take = Signal()
        m.d.comb += [
            take.eq(self.axis_tvalid & ~discard),
            self.o.valid.eq(take),
            out.packet.data.eq(Cat(self.axis_tdata.word_select(lane, 8) & keep[lane].replicate(8)
                                   for lane in range(lanes))),
            out.packet.count.eq(Mux(malformed, Mux(at_limit, allowed, lanes), count)),
            out.packet.last.eq(self.axis_tlast | over),
            out.packet.error.eq(bad | malformed | over | (self.axis_tlast & self.axis_tuser[0])),
            out.first.eq(index == 0),
            out.oversize.eq(over),
        ]
        if config.side_width:
            m.d.comb += out.packet.side.eq(self.axis_tuser[1:])
        with m.If(take):
            m.d.sync += [index.eq(index + 1), bad.eq(bad | malformed)]
            with m.If(self.axis_tlast | over):
                m.d.sync += [index.eq(0), bad.eq(0), discard.eq(~self.axis_tlast)]
        with m.If(self.axis_tvalid & self.axis_tlast):
            m.d.sync += discard.eq(0)
        return m


class PacketSource(wiring.Component):
    """Transmit port: a stream of packets in, AXI4-Stream out. Wires only."""

    prefix = "axis"

    def __init__(self, width, *, side_width=0):
        self._side_width = side_width
        super().__init__({
            "i": In(stream.Signature(Packet(width, side_width))),
            **axis_members("axis", Out, width, user=1 + side_width),
        })

    def elaborate(self, platform):
        m = Module()
        packet = self.i.payload
        m.d.comb += [
            self.axis_tdata.eq(packet.data),
            self.axis_tkeep.eq(thermometer(packet.count, len(self.axis_tkeep))),
            self.axis_tlast.eq(packet.last),
            self.axis_tuser[0].eq(packet.error & packet.last),
            self.axis_tvalid.eq(self.i.valid),
            self.i.ready.eq(self.axis_tready),
        ]
        if self._side_width:
            m.d.comb += self.axis_tuser[1:].eq(packet.side)
        return m


class RecordSource(wiring.Component):
    """Record port: a stream of structs in, AXI4-Stream with one beat a record out. Wires only."""

    prefix = "axis"

    def __init__(self, shape, width):
        super().__init__({
            "i": In(stream.Signature(shape)),
            **axis_members("axis", Out, width, keep=False),
        })

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.axis_tdata.eq(self.i.payload),
            self.axis_tvalid.eq(self.i.valid),
            self.i.ready.eq(self.axis_tready),
        ]
        return m
