# SPDX-License-Identifier: Apache-2.0
"""LeanLink: both ends of a lean link, the framer of one direction and the restorer of the other."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from ..axis import PacketInlet, PacketSource, RecordSource, axil_members, axis_members, wire
from ..config import MAX_FRAME
from ..context import MetaRecord
from ..packet import Packet
from ..stream import Queue
from .control import LeanControl
from .credits import CREDIT_BITS, Credits
from .framer import LAG, Framer
from .restorer import Restorer

__all__ = ["LeanLink"]

ADDRESS_WIDTH = 12
#: Metadata records that wait to be framed.
RECORDS = 256
_META_WIDTH = 256


class LeanLink(wiring.Component):
    """Trimmed packets to containers, and containers to trimmed packets.

    Packets come as a ``TrimNic`` gives them, and leave like that: payloads, and a metadata record
    a packet.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    s_axis_trim_*, s_axis_meta_* : payloads to be framed, and their records
    m_axis_link_* : containers, or the Ethernet frames around them
    s_axis_link_* : the same from the far end; ``tready`` is always 1
    m_axis_trim_*, m_axis_meta_* : payloads that are restored, and their records
    m_credit, s_credit : beats that there is room for here, and at the far end; not over Ethernet
    s_axil_* : registers, AXI4-Lite
    """

    def __init__(self, config):
        self._config, width = config, config.width
        super().__init__({
            **axis_members("s_axis_trim", In, width, user=1),
            **axis_members("s_axis_meta", In, _META_WIDTH, keep=False),
            **axis_members("m_axis_link", Out, width, user=1),
            **axis_members("s_axis_link", In, width, user=1),
            **axis_members("m_axis_trim", Out, width, user=1),
            **axis_members("m_axis_meta", Out, _META_WIDTH, keep=False),
            **({} if config.ethernet else {"m_credit": Out(CREDIT_BITS),
                                           "s_credit": In(CREDIT_BITS)}),
            **axil_members("s_axil", ADDRESS_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.control = control = LeanControl(config, ADDRESS_WIDTH)
        m.submodules.framer = framer = Framer(config)
        m.submodules.restorer = restorer = Restorer(config)
        wire(m, self, "s_axil", control)
        connect(m, control.framer, framer.write)
        connect(m, control.restorer, restorer.write)
        m.d.comb += [getattr(control, name).eq(getattr(end, name)) for end, names in (
            (framer, ("opened", "dropped")),
            (restorer, ("ended", "fault", "lost", "missing"))) for name in names]

        # To the link. A payload waits for its record, whatever its length.
        m.submodules.inlet = inlet = PacketInlet(config.width)
        m.submodules.payloads = payloads = Queue(
            Packet(config.width), depth=1 << (2 * MAX_FRAME // config.lanes).bit_length(),
            margin=LAG)
        m.submodules.records = records = Queue(MetaRecord, depth=RECORDS, margin=LAG)
        m.submodules.out = out = PacketSource(config.width)
        wire(m, self, "s_axis_trim", inlet)
        m.d.comb += [
            inlet.o.ready.eq(payloads.room),
            payloads.i.valid.eq(inlet.o.valid & payloads.room),
            payloads.i.payload.eq(inlet.o.payload),
            payloads.commit.eq(1),
            self.s_axis_meta_tready.eq(records.room),
            records.i.valid.eq(self.s_axis_meta_tvalid & records.room),
            records.i.payload.eq(self.s_axis_meta_tdata),
            records.commit.eq(1),
        ]
        connect(m, payloads.o, framer.i)
        connect(m, records.o, framer.i_meta)
        if config.ethernet:
            connect(m, framer.o, out.i)
        else:
            m.submodules.credits = credits_ = Credits(config)
            connect(m, framer.o, credits_.i)
            connect(m, credits_.o, out.i)
            m.d.comb += [credits_.free.eq(self.s_credit), self.m_credit.eq(restorer.free)]
        wire(m, self, "m_axis_link", out)

        # From the link.
        m.submodules.back = back = PacketInlet(config.width)
        m.submodules.trim = trim = PacketSource(config.width)
        m.submodules.meta = meta = RecordSource(MetaRecord, _META_WIDTH)
        wire(m, self, "s_axis_link", back)
        m.d.comb += [
            back.o.ready.eq(1),
            restorer.i.valid.eq(back.o.valid),
            restorer.i.payload.eq(back.o.payload),
        ]
        connect(m, restorer.o, trim.i)
        connect(m, restorer.o_meta, meta.i)
        wire(m, self, "m_axis_trim", trim)
        wire(m, self, "m_axis_meta", meta)
        return m
