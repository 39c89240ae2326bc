# SPDX-License-Identifier: Apache-2.0
"""Flow counters: what each registered flow has brought."""

from amaranth import Module
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..context import Outcome
from ..verdict import Reason
from .counters import Counters

__all__ = ["FlowCounters"]


class FlowCounters(wiring.Component):
    """Packets and messages of each flow, 64 bits, from its registration on.

    Members
    -------
    outcomes : lane of :class:`Outcome`, from registers
    number : flow to read, or to start anew
    restarts : strobe: the counters of the flow ``number``, which has been right for two cycles,
        begin at zero
    packets, messages : of the flow that ``number`` told two cycles before; what an outcome adds is
        there 7 cycles after it
    """

    def __init__(self, flows):
        # Of one row there would be no address.
        self._flows = flows = max(2, flows)
        super().__init__({
            "outcomes": In(stream.Signature(Outcome, always_ready=True)),
            "number": In(range(flows)),
            "restarts": In(1),
            "packets": Out(64),
            "messages": Out(64),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.counters = counters = Counters(self._flows, {"packets": 1, "messages": 1})
        # The epoch that counts, by flow. Only what registers flows writes here, and only what
        # counts writes into the counters: neither waits for the other.
        m.submodules.epochs = epochs = memory.Memory(shape=1, depth=self._flows, init=[])
        look, show, turn = epochs.read_port(), epochs.read_port(), epochs.write_port()

        outcome, event = self.outcomes.payload, counters.i.payload
        m.d.sync += [
            counters.i.valid.eq(self.outcomes.valid & (outcome.reason == Reason.NONE)),
            event.row.eq(outcome.flow),
            event.amounts.packets.eq(1),
            event.amounts.messages.eq(outcome.ends_message),
        ]
        m.d.comb += [
            look.addr.eq(outcome.flow),
            event.epoch.eq(look.data),
            show.addr.eq(self.number),
            counters.index.eq(self.number),
            counters.epoch.eq(show.data),
            turn.addr.eq(self.number),
            turn.data.eq(~counters.row_epoch),
            turn.en.eq(self.restarts),
            self.packets.eq(counters.o.packets),
            self.messages.eq(counters.o.messages),
        ]
        return m
