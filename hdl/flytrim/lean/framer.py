# SPDX-License-Identifier: Apache-2.0
"""Framer: packets in, containers out."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ..context import MetaRecord
from ..packet import Packet
from ..stream import Queue
from .assembler import Assembler
from .context import Beat, WriteContext
from .encloser import Encloser
from .former import Former
from .packer import Packer

__all__ = ["Framer"]

#: Beats that wait for their place behind a tag.
BEATS = 16
#: A queue's ``room`` is that of the cycle before, and shows what was written before that.
LAG = 2


class Framer(wiring.Component):
    """Packs the payloads of trimmed packets into containers.

    A record of at most a beat is accepted every cycle, a longer one at a beat a cycle, as long as
    the containers that they make, tags and trailers included, leave at less than a beat a cycle.
    The first beat of a record that does not wait leaves 12 cycles behind its metadata record.

    Over Ethernet a container leaves without a gap, when all of it is there.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    write : lane of :class:`WriteContext`. No record of the flow may be on its way.
    i_meta : stream of :class:`MetaRecord`, one a packet, not before its payload's last beat could
        be taken
    i : stream of payloads
    o : stream of containers
    opened, dropped : strobes: a container was opened; a record was dropped
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "write": In(stream.Signature(WriteContext, always_ready=True)),
            "i_meta": In(stream.Signature(MetaRecord)),
            "i": In(stream.Signature(Packet(config.width))),
            "o": Out(stream.Signature(Packet(config.width))),
            "opened": Out(1),
            "dropped": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.former = former = Former(config)
        m.submodules.assembler = assembler = Assembler(config)
        m.submodules.packer = packer = Packer(config)
        m.submodules.beats = beats = Queue(Beat(config), depth=BEATS,
                                           margin=Packer.latency + LAG)
        m.submodules.encloser = encloser = Encloser(config)
        depth = 1 << (2 * config.max_beats if config.ethernet else BEATS - 1).bit_length()
        m.submodules.out = out = Queue(Packet(config.width), depth=depth,
                                       margin=Encloser.latency + LAG)

        connect(m, wiring.flipped(self.i_meta), former.i)
        connect(m, former.o, assembler.i_record)
        connect(m, wiring.flipped(self.i), assembler.i)
        connect(m, assembler.o, packer.i)
        connect(m, packer.o, beats.i)
        connect(m, beats.o, encloser.i)
        connect(m, encloser.o, out.i)
        connect(m, out.o, wiring.flipped(self.o))
        m.d.comb += [
            former.write.valid.eq(self.write.valid),
            former.write.payload.eq(self.write.payload),
            assembler.restart.eq(self.write.valid),
            assembler.restart_flow.eq(self.write.payload.flow),
            assembler.room.eq(beats.room),
            packer.close.eq(assembler.close),
            beats.commit.eq(1),
            encloser.room.eq(out.room),
            out.commit.eq(out.i.payload.last if config.ethernet else 1),
            self.opened.eq(assembler.o.valid & assembler.o.payload.opens),
            self.dropped.eq(assembler.dropped),
        ]
        return m
