# SPDX-License-Identifier: Apache-2.0
"""Former: what a packet's metadata record is in a container."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .. import headers as h
from ..context import MetaRecord
from ..logic import select
from ..packet import reverse_bytes
from . import container as c
from .chains import CHAINS, chains_of, prefix_words
from .context import LeanContext, ToFrame, WriteContext

__all__ = ["Former"]


class Former(wiring.Component):
    """Finds each record's flow, decides between bare and full, writes the headers of a full one.

    Latency 2 cycles, a record a cycle. Packets that are damaged, of a flow without context, of an
    opcode without payload or of more than 4,096 bytes are to be dropped.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    write : lane of :class:`WriteContext`
    i : stream of :class:`MetaRecord`
    o : stream of :class:`ToFrame`
    """

    def __init__(self, config):
        self._config = config
        super().__init__({
            "write": In(stream.Signature(WriteContext, always_ready=True)),
            "i": In(stream.Signature(MetaRecord)),
            "o": Out(stream.Signature(ToFrame)),
        })

    def elaborate(self, platform):
        m = Module()
        flows, new = self._config.flows, self.i.payload
        m.submodules.contexts = contexts = memory.Memory(shape=LeanContext, depth=flows, init=[])
        write, read = contexts.write_port(), contexts.read_port()
        enabled = Signal(flows)
        m.d.comb += [
            write.en.eq(self.write.valid & (self.write.payload.flow < flows)),
            write.addr.eq(self.write.payload.flow),
            write.data.eq(self.write.payload.context),
        ]
        with m.If(write.en):
            m.d.sync += enabled.bit_select(self.write.payload.flow, 1).eq(
                self.write.payload.enable)

        # First cycle: the context is read.
        found, known = Signal(), Signal()
        record = Signal(MetaRecord, reset_less=True)
        through, advance = Signal(), Signal()
        m.d.comb += [
            through.eq(~self.o.valid | self.o.ready),
            advance.eq(~found | through),
            self.i.ready.eq(advance),
            read.addr.eq(new.flow),
            read.en.eq(advance),
        ]
        with m.If(advance):
            m.d.sync += [found.eq(self.i.valid), record.eq(new),
                         known.eq((new.flow < flows) & enabled.bit_select(new.flow[:6], 1))]

        # Second cycle: what is to be done.
        template, context, out = read.data.template, read.data, Signal(ToFrame, reset_less=True)
        chains = chains_of(m, record.opcode)
        plain = chains[list(CHAINS).index(())]
        bits = ("solicited", "ack_request", "ecn", "migreq", "pad_count")
        bare = (plain & (record.opcode == template.opcode)
                & (record.length == template.message_bytes) & record.length.any()
                & Cat(record[name] == template[name] for name in bits).all())
        head = Cat(record.opcode, Const(0, 1), record.pad_count, record.migreq, record.ecn,
                   record.ack_request, record.solicited, reverse_bytes(record.length))
        words = Mux(bare, 0, prefix_words(chains))
        with m.If(through):
            m.d.sync += [
                self.o.valid.eq(found),
                out.record.eq(record),
                out.context.eq(context),
                out.drop.eq(record.reason.any() | ~known | ~chains.any()
                            | (record.length > c.MAX_PAYLOAD)),
                out.full.eq(~bare),
                out.has_payload.eq(record.length.any()),
                out.prefix_words.eq(words),
                out.size.eq(((record.length + 3) >> 2) + words),
                out.prefix.as_value().eq(Mux(bare, 0, Cat(
                    head, self._extensions(record, chains)))),
            ]
        m.d.comb += self.o.payload.eq(out)
        return m

    def _extensions(self, record, chains):
        """The extension headers as bytes on the wire, zeros behind them."""
        of_reth = reverse_bytes(Cat(record.dma_length, record.rkey, record.address))
        each = {
            h.RETH: of_reth,
            h.DETH: reverse_bytes(Cat(record.dma_length, record.rkey)),
            h.IMMDT: reverse_bytes(record.immediate),
            h.IETH: reverse_bytes(record.immediate),
            h.AETH: reverse_bytes(record.immediate),
        }
        return select((use, Cat(*(each[part] for part in chain), Const(0, 8 * c.MAX_PREFIX))[
            :8 * (c.MAX_PREFIX - c.FULL.size)]) for use, chain in zip(chains, CHAINS, strict=True))
