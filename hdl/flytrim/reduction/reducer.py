# SPDX-License-Identifier: Apache-2.0
"""Reducer: payloads of all ports in, results for each of them out."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Fragment
from amaranth.lib import data, fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..admission import meta_layout
from ..fp32.element import ElementType
from ..fp32.tree import ReductionTree
from ..group import GROUP_BITS, OFFSET_BITS, SLOT_BITS, Aborted, GroupCommand, Straggler
from ..logic import delayed, select
from ..packet import Packet
from ..shared import copies
from ..stream import Queue
from .arrivals import Arrivals
from .child import PHASE_BITS, GroupEntry, Job, Result, Settled
from .keeper import Keeper
from .nodes import Nodes
from .results import Outcome, Results
from .scheduler import Scheduler
from .slots import Slots

__all__ = ["Reducer", "sum_latency"]

#: Requests of a port to send a result again that can wait; more are left to be asked for once more.
AGAIN = 16
#: Aborted jobs that can wait for the keeper, beside those on their way.
FAILED = 8


def _tree(config):
    types = tuple(ElementType[name.upper()] for name in config.types)
    return ReductionTree(config.ports, config.width, types=types, sum=config.sum,
                         taps=Nodes(config.ports).shape.taps, latency=config.latency)


def sum_latency(config):
    """Cycles that the sum itself takes, of the time from contribution to result."""
    tree = _tree(config)
    # Amaranth warns of what is made and not used.
    Fragment.get(tree, None)
    return max(tree.latencies)


class Reducer(wiring.Component):
    """Reduces what the children of each group have at the same offset.

    Parameters
    ----------
    config : SwitchConfig

    Attributes
    ----------
    in_flight : int
        Beats that may still come to a port when ``room`` is looked at.

    Members
    -------
    payload, meta : of each port's trimmer
    commands, status : of groups, as :class:`Keeper` takes them
    placed, group, entry : strobe: ``entry`` becomes that of ``group``
    running : a bit a group: its results count
    room : a bit a port: for a result of a whole slot and ``in_flight`` beats
    records, beats : lanes of each port: :class:`Result`, and its payload later
    outcomes : lane of :class:`Outcome` of each block that leads
    straggler, aborted : streams to the control plane
    contribution, duplicate, out_of_window, bounds : strobes, a bit a port
    in_use : slots that wait
    """

    def __init__(self, config):
        self._config, self._nodes = config, Nodes(config.ports)
        self._tree = _tree(config)
        self._latency = max(self._tree.latencies)
        self.in_flight = self._latency + 8
        ports = config.ports

        def lane(shape):
            return stream.Signature(shape, always_ready=True)

        super().__init__({
            "payload": In(lane(Packet(config.width))).array(ports),
            "meta": In(lane(meta_layout(config.port))).array(ports),
            "commands": In(stream.Signature(GroupCommand)),
            "status": Out(4),
            "placed": Out(1),
            "group": Out(GROUP_BITS),
            "entry": Out(GroupEntry),
            "running": Out(config.groups),
            "room": In(ports),
            "records": Out(lane(Result)).array(ports),
            "beats": Out(lane(Packet(config.width))).array(ports),
            "outcomes": Out(lane(Outcome)).array(len(self._nodes.leads)),
            "straggler": Out(stream.Signature(Straggler)),
            "aborted": Out(stream.Signature(Aborted)),
            **{name: Out(ports) for name in (
                "contribution", "duplicate", "out_of_window", "bounds")},
            "in_use": Out(range(config.slots + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        config, nodes = self._config, self._nodes
        m.submodules.tree = tree = self._tree
        m.submodules.arrivals = arrivals = Arrivals(config)
        m.submodules.scheduler = scheduler = Scheduler(config, nodes)
        m.submodules.keeper = keeper = Keeper(
            config, nodes, config.slot_beats + self._latency + 8)
        slots = copies("flytrim_slots", lambda: Slots(config, len(nodes.blocks)), config.ports)
        for port, each in enumerate(slots):
            m.submodules[f"slots_{port}"] = each
        results = {}
        for block in nodes.leads:
            m.submodules[f"results_{block}"] = results[block] = Results(config, self._latency)

        connect(m, flipped(self.commands), keeper.commands)
        connect(m, keeper.straggler, flipped(self.straggler))
        connect(m, keeper.aborted, flipped(self.aborted))
        m.d.comb += [
            self.status.eq(keeper.status),
            self.in_use.eq(keeper.in_use),
            *(getattr(self, name).eq(getattr(keeper, name))
              for name in ("placed", "group", "entry", "running")),
            scheduler.room.eq(self.room),
            *(getattr(each, name).eq(getattr(keeper, name)) for name in ("placed", "group")
              for each in (arrivals, scheduler, *slots, *results.values())),
            *(each.entry.eq(keeper.entry) for each in (arrivals, scheduler, *results.values())),
            *(each.running.eq(keeper.running) for each in (scheduler, *slots, *results.values())),
        ]
        for port, each in enumerate(slots):
            self._connect_port(m, port, each, arrivals, scheduler, keeper)
        self._settle(m, slots, results, arrivals, keeper)
        self._sum(m, slots, results, scheduler, tree)
        self._leave(m, results, scheduler, keeper)
        return m

    def _connect_port(self, m, port, slots, arrivals, scheduler, keeper):
        """Contributions in, and jobs that come of them."""
        connect(m, flipped(self.payload[port]), slots.payload)
        connect(m, flipped(self.meta[port]), slots.meta)
        connect(m, slots.arrivals, arrivals.arrivals[port])
        connect(m, slots.again, arrivals.again[port])
        # A slot has one job here at a time, or one that goes up and may be overtaken by the answer.
        # What goes up is asked for again where it is lost.
        depth = self._config.slots
        m.submodules[f"jobs_{port}"] = jobs = Queue(Job, depth=2 * depth, margin=depth)
        m.submodules[f"again_{port}"] = again = Queue(Job, depth=AGAIN, margin=2)
        m.d.comb += [
            slots.place.eq(keeper.places[port]),
            slots.orders.valid.eq(keeper.order_valid[port]),
            slots.orders.payload.eq(keeper.order),
            keeper.order_ready[port].eq(slots.orders.ready),
            jobs.i.valid.eq(arrivals.jobs[port].valid
                            & (jobs.room | ~arrivals.jobs[port].payload.up)),
            jobs.i.payload.eq(arrivals.jobs[port].payload),
            jobs.commit.eq(1),
            again.i.valid.eq(arrivals.asked[port].valid & again.room),
            again.i.payload.eq(arrivals.asked[port].payload),
            again.commit.eq(1),
            *(getattr(self, name)[port].eq(getattr(slots, name)) for name in (
                "contribution", "duplicate", "out_of_window", "bounds")),
        ]
        connect(m, jobs.o, scheduler.jobs[port])
        connect(m, again.o, scheduler.again[port])

    def _settle(self, m, slots, results, arrivals, keeper):
        """What each slot is settled for, held in each block of ports for its own."""
        config, nodes = self._config, self._nodes
        ready = []
        for block, ports in enumerate(nodes.blocks):
            offsets, phases = (memory.Memory(shape=bits, depth=config.slots, init=[])
                               for bits in (OFFSET_BITS, PHASE_BITS))
            m.submodules[f"offsets_{block}"], m.submodules[f"phases_{block}"] = offsets, phases
            done = Signal(data.StructLayout({"slot": SLOT_BITS, "settled": Settled}))
            covering = [(lead, Cat(outcome.payload.node == node.number for node in
                                   nodes.covering(block) if node.lead == lead).any())
                        for lead, outcome in ((b, r.outcome) for b, r in results.items())]
            ends = [(results[lead].outcome.valid & results[lead].outcome.payload.done & here,
                     results[lead].outcome.payload.turn) for lead, here in covering]
            any_ends = Cat(end for end, _ in ends).any()
            turn = select((end, Cat(turn.slot, turn.offset, turn.phase)) for end, turn in ends)
            m.d.comb += done.eq(Mux(any_ends, turn, Cat(keeper.slot, keeper.settle)))
            ready.append(~any_ends)
            for store, value in ((offsets, done.settled.offset), (phases, done.settled.phase)):
                write, sweep = store.write_port(), store.read_port(domain="comb")
                m.d.comb += [
                    write.addr.eq(done.slot), write.data.eq(value),
                    write.en.eq(any_ends | (keeper.settle_valid & keeper.settle_ready)),
                    sweep.addr.eq(keeper.slot),
                    keeper.settled[block][
                        "offset" if store is offsets else "phase"].eq(sweep.data),
                ]
            for port in ports:
                half, own = phases.read_port(domain="comb"), offsets.read_port(domain="comb")
                m.d.comb += [
                    half.addr.eq(slots[port].half), slots[port].half_phase.eq(half.data),
                    own.addr.eq(slots[port].own), slots[port].own_offset.eq(own.data),
                ]
        m.d.comb += [
            keeper.settle_ready.eq(Cat(ready).all()),
            arrivals.slot.eq(keeper.slot),
            arrivals.clears.eq(keeper.clears),
            arrivals.cleared.eq(keeper.order.turn.slot),
            keeper.marked.eq(arrivals.marked),
        ]

    def _sum(self, m, slots, results, scheduler, tree):
        """From the slots through the tree."""
        config, nodes = self._config, self._nodes
        beat_bits = config.slot_beats.bit_length() - 1
        for block, ports in enumerate(nodes.blocks):
            step = scheduler.steps[block].payload
            for port in ports:
                m.d.comb += [
                    slots[port].address.eq(Cat(step.index[:beat_bits], step.job.turn.slot)),
                    tree.x[port].eq(slots[port].beat),
                    tree.present[port].eq(Cat(
                        each.present[port] for each in results.values()).any()),
                ]
            leads = {node.lead for node in nodes.covering(block)}
            here = [(lead, block in max((node for node in nodes.led_by(lead)),
                                        key=lambda node: len(node.blocks)).blocks)
                    for lead in leads]
            controls = [self._controls_at(m, results[lead], block, lead, scheduler)
                        for lead, _ in here]
            m.d.comb += tree.op[block].eq(select((c[0], c[1].operation) for c in controls))
            if "type" in tree.signature.members:
                m.d.comb += tree.type[block].eq(select((c[0], c[1].type) for c in controls))
        for lead, each in results.items():
            step = scheduler.steps[lead]
            m.d.comb += [
                each.step.valid.eq(step.valid & step.payload.leads),
                each.step.payload.eq(step.payload),
                each.sound.eq(Cat(port.sound for port in slots)),
            ]
            for port, child in enumerate(slots):
                m.d.comb += [child.slot[lead].eq(step.payload.job.turn.slot),
                             each.records[port].eq(child.record[lead])]
            led = nodes.led_by(lead)
            sums = []
            for node in led:
                late = self._latency - tree.latencies[node.number]
                raised = Cat(Cat(tree.flags[node.number][word][bit]
                                 for word in range(config.width // 32)).any() for bit in range(5))
                sums.append((node.number, Cat(
                    delayed(m, tree.z[node.number], late, name=f"z_{node.number}"),
                    delayed(m, raised, late, name=f"raised_{node.number}"))))
            m.d.comb += Cat(each.z, each.flags).eq(select(
                (each.outcome.payload.node == number, value) for number, value in sums))
        return tree

    def _controls_at(self, m, results, block, lead, scheduler):
        """Whether a block is led by another in this cycle, and that one's controls."""
        nodes = [node.number for node in self._nodes.led_by(lead) if block in node.blocks]
        step = scheduler.steps[lead]
        here = Signal(name=f"here_{block}_{lead}")
        m.d.sync += here.eq(step.valid & step.payload.leads
                            & step.payload.job.node.matches(*nodes))
        return here, results.controls

    def _leave(self, m, results, scheduler, keeper):
        """To the ports; what failed goes to the keeper."""
        config = self._config
        for port in range(config.ports):
            record = Signal(Result, name=f"record_{port}")
            for lane, kind, which in ((self.records[port], "record", "ports"),
                                      (self.beats[port], "beat", "beat_ports")):
                valid = [getattr(each, kind).valid & getattr(each, which)[port]
                         for each in results.values()]
                m.d.comb += [
                    lane.valid.eq(Cat(valid).any()),
                    (record if kind == "record" else lane.payload).eq(select(
                        (here, getattr(each, kind).payload.as_value())
                        for here, each in zip(valid, results.values(), strict=True))),
                ]
            m.d.comb += [
                self.records[port].payload.eq(record),
                self.records[port].payload.length.eq(
                    Mux(record.receivers[port], record.length, 0)),
            ]
        waiting = []
        depth = 1 << (FAILED + self.in_flight).bit_length()
        for n, (lead, each) in enumerate(results.items()):
            outcome = each.outcome
            m.d.comb += [self.outcomes[n].valid.eq(outcome.valid),
                         self.outcomes[n].payload.eq(outcome.payload)]
            m.submodules[f"failed_{lead}"] = store = fifo.SyncFIFOBuffered(
                width=Outcome.as_shape().size, depth=depth)
            m.d.comb += [
                store.w_data.eq(outcome.payload),
                store.w_en.eq(outcome.valid & outcome.payload.cause.any()),
                scheduler.hold[lead].eq(store.level >= FAILED),
            ]
            waiting.append(store)
        # The keeper takes the lowest first.
        for store in reversed(waiting):
            with m.If(store.r_rdy):
                m.d.comb += [
                    keeper.failed.valid.eq(1),
                    keeper.failed.payload.eq(store.r_data),
                    *(other.r_en.eq(0) for other in waiting),
                    store.r_en.eq(keeper.failed.ready),
                ]
