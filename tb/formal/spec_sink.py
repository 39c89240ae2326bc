# SPDX-License-Identifier: Apache-2.0
"""PacketSink: whatever the MAC does, what comes out is a well-formed frame of legal length."""

from amaranth import Cat, Mux, Signal
from proof import Fault, Opened, Proof, Spec, small_config

from flytrim.axis import PacketSink


class SinkSpec(Spec):
    """Reads the input a second time, in the words of AXI, and compares in the same cycle."""

    def __init__(self, max_frame):
        self.config = small_config(max_frame=max_frame, side_width=2)

    def specify(self, m):
        config, lanes = self.config, self.config.lanes
        sink = PacketSink(config)
        m.submodules.sink = inner = Opened(sink)
        data, keep, last = sink.axis_tdata, sink.axis_tkeep, sink.axis_tlast
        valid, user = sink.axis_tvalid, sink.axis_tuser
        self.free(data, keep, last, valid, user)

        # The input: where in its frame a beat stands, and whether the frame kept to the rules.
        inside, broken = Signal(), Signal()
        before = Signal(range(config.max_frame + 2))
        size = sum(keep[lane] for lane in range(lanes))
        legal = Cat(keep == (1 << count) - 1 for count in range(1, lanes + 1)).any() \
            & (last | keep.all())
        whole = Mux(inside, before, 0) + size
        flawed = (inside & broken) | ~legal
        with m.If(valid):
            m.d.sync += [inside.eq(~last), broken.eq(flawed & ~last),
                         before.eq(Mux(whole > config.max_frame, config.max_frame + 1, whole))]

        # The output, seen by itself.
        o, out = sink.o, sink.o.payload
        packet = out.packet
        open_, sent = Signal(), Signal(range(config.max_frame + 2 * lanes))
        bytes_out = Mux(open_, sent, 0) + packet.count
        with m.If(o.valid):
            m.d.sync += [open_.eq(~packet.last), sent.eq(bytes_out)]
        ended = Signal()
        with m.If(valid & last):
            m.d.sync += ended.eq(0)
        with m.Elif(o.valid & packet.last):
            m.d.sync += ended.eq(1)

        self.check("ready_always", sink.axis_tready)
        self.check("one_first", ~o.valid | (out.first == ~open_))
        self.check("no_null_beat", ~o.valid | ((packet.count > 0) & (packet.count <= lanes)))
        self.check("full_before_last", ~o.valid | packet.last | (packet.count == lanes))
        self.check("zero_beyond", ~o.valid | Cat(
            (lane < packet.count) | (packet.data.word_select(lane, 8) == 0)
            for lane in range(lanes)).all())
        self.check("never_too_long", ~o.valid | (bytes_out <= config.max_frame))
        self.check("oversize_is_bad_end", ~(o.valid & out.oversize)
                   | (packet.last & packet.error))

        # The output beside the input.
        self.check("nothing_from_nothing", ~o.valid | valid)
        self.check("every_frame_starts", ~(valid & ~inside) | (o.valid & out.first))
        self.check("one_last_a_frame", ~valid | (o.valid != (inside & ended)))
        self.check("ends_with_it", ~(valid & last) | ~o.valid | packet.last)
        self.check("ends_alone", ~(o.valid & packet.last & ~last) | out.oversize)
        sound = valid & ~flawed & o.valid
        self.check("oversize_when_longer",
                   ~sound | (out.oversize == (whole + ~last > config.max_frame)))
        self.check("sound_is_exact", ~sound | out.oversize
                   | ((packet.data == self._masked(data, keep))
                      & (packet.count == size) & (packet.last == last)
                      & (packet.error == (last & user[0]))))
        self.check("side_passes", ~o.valid | (packet.side == user[1:]))
        self.check("broken_is_bad", ~(o.valid & packet.last & flawed) | packet.error)

        index, discard = inner["index"], inner["discard"]
        self.invariant("index_in_range", index < config.max_beats)
        self.invariant("open_by_index", open_ == (index != 0))
        self.invariant("discard_inside", ~discard | inside)
        self.invariant("inside_by_index", inside == ((index != 0) | discard))
        self.invariant("index_excludes", (index == 0) | ~discard)
        self.invariant("ended_is_discard", discard == ended)
        self.invariant("bad_by_broken", inner["bad"] == ((index != 0) & broken))
        self.invariant("before_by_index", ~(inside & ~broken & ~discard)
                       | (before == index * lanes))
        self.invariant("before_is_over", ~(inside & ~broken & discard)
                       | (before >= config.max_frame))
        self.invariant("sent_by_index", (index == 0) | (sent == index * lanes))

        self.cover("longest", o.valid & packet.last & (bytes_out == config.max_frame)
                   & ~packet.error)
        self.cover("frame_after_discarded", self.past(discard & valid & last) & o.valid & out.first)
        self.cover("hole", o.valid & (keep == 0b101))

    @staticmethod
    def _masked(data, keep):
        return data & Cat(bit.replicate(8) for bit in keep)


FILE = "axis.py"
FAULTS = (
    Fault(name="oversize frame not discarded", file=FILE,
          old="discard.eq(~self.axis_tlast)", new="discard.eq(0)",
          caught=("one_last_a_frame", "one_first", "nothing_from_nothing", "ends_alone")),
    Fault(name="limit one beat late", file=FILE,
          old="at_limit = index == config.max_beats - 1",
          new="at_limit = index == config.max_beats",
          caught=("never_too_long", "oversize_when_longer")),
    Fault(name="bytes beyond tkeep pass", file=FILE,
          old="keep[lane].replicate(8)", new="self.axis_tkeep[lane].replicate(8)",
          caught=("zero_beyond",)),
)

PROOFS = [
    Proof(name=f"sink_{size}", says="one first, one last, legal count and length, exact bytes",
          spec=lambda size=size: SinkSpec(size), depth=3, reach=12,
          faults=FAULTS if size == 20 else ())
    for size in (20, 24)
]
