# SPDX-License-Identifier: Apache-2.0
"""Extractor: records and payloads out of the beats of containers."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .. import headers as h
from ..context import MetaRecord
from ..logic import delayed, select
from ..packet import Packet, take, thermometer
from . import container as c
from .chains import CHAINS, chains_of
from .context import PREFIX_WORDS, Extract

__all__ = ["Extractor"]

#: Words of the first of two steps of turning.
_FINE = 4


class Extractor(wiring.Component):
    """Turns each item to lane 0 and writes a metadata record. Latency 3 cycles, never stalls.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    i : lane of :class:`Extract`
    o : lane of payloads; one of no bytes has no beat
    meta : lane of :class:`MetaRecord`, with its payload's last beat
    """

    latency = 3

    def __init__(self, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(Extract(config), always_ready=True)),
            "o": Out(stream.Signature(Packet(config.width), always_ready=True)),
            "meta": Out(stream.Signature(MetaRecord, always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        config, words = self._config, self._config.words
        fine = min(_FINE, words)
        fine_bits = (fine - 1).bit_length()
        new = self.i.payload

        # Two cycles: the first word goes to lane 0.
        coarse = Signal(32 * (words + fine - 1), reset_less=True)
        turned = Signal(config.width, reset_less=True)
        beside = {name: new[name] for name in (
            "start", "prefix", "before", "count", "ends", "container", "psn")}
        one, two = ({name: delayed(m, value, n, name=f"{name}_{n}")
                     for name, value in beside.items()} for n in (1, 2))
        valid = delayed(m, self.i.valid, 2, name="valid", reset=True)
        m.d.sync += [
            coarse.eq(Array((new.pair >> 32 * fine * n)[:len(coarse)]
                            for n in range(words // fine))[new.start[fine_bits:]]),
            turned.eq(Array((coarse >> 32 * n)[:config.width]
                            for n in range(fine))[one["start"][:fine_bits]]),
        ]

        # Third cycle: what of it is headers, what payload.
        behind = Array((turned >> 32 * n)[:config.width]
                       for n in range(PREFIX_WORDS + 1))[two["prefix"]]
        inside = Signal(config.lanes)
        m.d.comb += inside.eq(thermometer(two["count"], config.lanes))
        packet = Signal.like(self.o.payload, reset_less=True)
        m.d.sync += [
            self.o.valid.eq(valid & two["count"].any()),
            packet.data.eq(behind & Cat(bit.replicate(8) for bit in inside)),
            packet.count.eq(two["count"]),
            packet.last.eq(two["ends"]),
            packet.error.eq(0),
            self.meta.valid.eq(valid & two["ends"]),
        ]
        m.d.comb += self.o.payload.eq(packet)
        self._record(m, turned, two, valid)
        return m

    def _record(self, m, turned, item, valid):
        """The metadata record of the item that ends it, in the third cycle."""
        words, template = self._config.words, item["container"].template
        prefix = [Signal(32, name=f"prefix_{n}") for n in range(PREFIX_WORDS)]
        kept = [Signal(32, name=f"kept_{n}", reset_less=True) for n in range(PREFIX_WORDS)]
        for n, (now, old) in enumerate(zip(prefix, kept, strict=True)):
            # It is in this beat, some words behind those that came before.
            places = [(item["before"] == n - slot, turned.word_select(slot, 32))
                      for slot in range(min(n + 1, words)) if (n - slot) % min(words, 8) == 0]
            m.d.comb += now.eq(Mux(n < item["before"], old, select(places)))
            with m.If(valid):
                m.d.sync += old.eq(now)

        head, full = prefix[0], item["container"].full
        chains = chains_of(m, head[:8])

        def field(header, name):
            """A field of an extension header, by the chains that have it."""
            part = getattr(header, name)
            found = []
            for use, chain in zip(chains, CHAINS, strict=True):
                if header in chain:
                    before = sum(each.size for each in chain[:chain.index(header)])
                    raw = Cat(prefix)[8 * (c.FULL.size + before):]
                    found.append((use & full, take(raw, part)))
            return select(found)

        record = Signal(MetaRecord, reset_less=True)
        bits = {"solicited": c.FULL.solicited, "ack_request": c.FULL.ack_request,
                "ecn": c.FULL.ecn, "migreq": c.FULL.migreq, "pad_count": c.FULL.pad_count}
        m.d.sync += [
            record.flow.eq(item["container"].flow),
            record.opcode.eq(Mux(full, head[:8], template.opcode)),
            record.reason.eq(0),
            record.psn.eq(item["psn"]),
            *(record[name].eq(Mux(full, take(head, part), template[name]))
              for name, part in bits.items()),
            record.length.eq(Mux(full, take(head, c.FULL.length), template.message_bytes)),
            record.cut.eq(0),
            record.immediate.eq(field(h.IMMDT, "immediate") | field(h.IETH, "rkey")
                                | Cat(field(h.AETH, "msn"), field(h.AETH, "syndrome"))),
            record.address.eq(field(h.RETH, "address")),
            record.rkey.eq(field(h.RETH, "rkey") | field(h.DETH, "qkey")),
            record.dma_length.eq(field(h.RETH, "dma_length")
                                 | Cat(field(h.DETH, "src_qp"), Const(0, 8))),
        ]
        m.d.comb += self.meta.payload.eq(record)
