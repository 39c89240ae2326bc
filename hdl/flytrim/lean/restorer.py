# SPDX-License-Identifier: Apache-2.0
"""Restorer: containers in, packets out."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ..context import MetaRecord
from ..packet import Packet
from ..stream import Queue
from . import container as c
from .context import Announced, Useful, WriteTemplate
from .credits import CREDIT_BITS
from .extractor import Extractor
from .framer import LAG
from .receiver import Receiver, Stored
from .sifter import Sifter
from .walker import Walker

__all__ = ["Restorer"]

#: Containers that wait, of few records each; payloads and records where the sink stalls.
CONTAINERS, OUT = 128, 16
#: Beats that last for as long as it takes to pass over those without records.
USEFUL = 8


class Restorer(wiring.Component):
    """Gives the packets of good containers, a record a cycle, a longer one at a beat a cycle.

    All of a container is held until its trailer is there. The first record leaves 10 cycles behind
    the last beat of its container while nothing waits.

    Parameters
    ----------
    config : LeanConfig

    Members
    -------
    write : lane of :class:`WriteTemplate`
    i : lane of containers, or of Ethernet frames, at any rate
    o : stream of payloads
    o_meta : stream of :class:`MetaRecord`, each not before its payload's last beat
    free : beats of containers that there is room for; what came in the last cycles is not counted
    ended, fault, lost, missing : strobes, as of :class:`Receiver`
    malformed : strobe, as of :class:`Walker`
    """

    def __init__(self, config):
        self._config = config
        # Two longest containers, and what can come in a round trip.
        waiting = 2 * config.max_beats + config.round_trip + Receiver.latency + LAG
        self._depth = 1 << waiting.bit_length()
        super().__init__({
            "write": In(stream.Signature(WriteTemplate, always_ready=True)),
            "i": In(stream.Signature(Packet(config.width), always_ready=True)),
            "o": Out(stream.Signature(Packet(config.width))),
            "o_meta": Out(stream.Signature(MetaRecord)),
            "free": Out(CREDIT_BITS),
            "ended": Out(1),
            "fault": Out(c.Fault),
            "lost": Out(1),
            "missing": Out(15),
            "malformed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        margin = Receiver.latency + LAG
        m.submodules.receiver = receiver = Receiver(config)
        m.submodules.beats = beats = Queue(Stored(config), depth=self._depth,
                                           margin=config.max_beats + margin)
        # Each beat that the far end does not know of yet may be a container.
        many = 1 << (CONTAINERS + config.round_trip + margin).bit_length()
        m.submodules.containers = containers = Queue(Announced, depth=many, margin=margin)
        m.submodules.sifter = sifter = Sifter(config)
        m.submodules.useful = useful = Queue(Useful(config), depth=USEFUL, margin=1 + LAG)
        m.submodules.walker = walker = Walker(config)
        m.submodules.extractor = extractor = Extractor(config)
        m.submodules.payloads = payloads = Queue(Packet(config.width), depth=OUT,
                                                 margin=Extractor.latency + LAG)
        m.submodules.metas = metas = Queue(MetaRecord, depth=OUT, margin=Extractor.latency + LAG)

        connect(m, receiver.o, beats.i)
        connect(m, receiver.announced, containers.i)
        connect(m, beats.o, sifter.i)
        connect(m, containers.o, sifter.i_container)
        connect(m, sifter.o, useful.i)
        connect(m, useful.o, walker.i)
        connect(m, walker.o, extractor.i)
        connect(m, extractor.o, payloads.i)
        connect(m, extractor.meta, metas.i)
        connect(m, payloads.o, wiring.flipped(self.o))
        connect(m, metas.o, wiring.flipped(self.o_meta))
        # What a container must find beside its own beats is never told to be free.
        usable = self._depth - margin
        with m.If((beats.level < usable) & (containers.level < CONTAINERS)):
            m.d.sync += self.free.eq(usable - beats.level)
        with m.Else():
            m.d.sync += self.free.eq(0)
        m.d.comb += [
            *(getattr(receiver.write, part).eq(getattr(self.write, part))
              for part in ("valid", "payload")),
            *(getattr(receiver.i, part).eq(getattr(self.i, part))
              for part in ("valid", "payload")),
            receiver.room.eq(beats.room & containers.room),
            beats.commit.eq(receiver.commit),
            beats.rewind.eq(receiver.rewind),
            sifter.room.eq(useful.room),
            walker.room.eq(payloads.room & metas.room),
            *(queue.commit.eq(1) for queue in (containers, useful, payloads, metas)),
            *(getattr(self, name).eq(getattr(receiver, name))
              for name in ("ended", "fault", "lost", "missing")),
            self.malformed.eq(walker.malformed),
        ]
        return m
