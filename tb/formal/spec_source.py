# SPDX-License-Identifier: Apache-2.0
"""PacketSource and RecordSource: on AXI stands what stands in the stream, and by AXI's rules."""

from amaranth import Cat, Value
from proof import Fault, Proof, Spec

from flytrim.axis import PacketSource, RecordSource

WIDTH = 64


class SourceSpec(Spec):
    """A stream that keeps to its rules, and a sink that is ready when it likes."""

    def specify(self, m):
        self.packets, self.records = PacketSource(WIDTH, side_width=2), RecordSource(24, 32)
        m.submodules.packets, m.submodules.records = self.packets, self.records
        packet = self.packets.i.payload
        for name, source in (("packet", self.packets), ("record", self.records)):
            i, payload = source.i, Value.cast(source.i.payload)
            self.free(i.valid, i.payload, source.axis_tready)
            stalled = self.past(i.valid & ~source.axis_tready)
            self.assume(~stalled | (i.valid & (payload == self.past(payload))))
            outside = Cat(getattr(source, port) for port in source.signature.members
                          if port.startswith("axis_") and port not in ("axis_tvalid",
                                                                       "axis_tready"))
            self.check(f"{name}_held", ~stalled
                       | (source.axis_tvalid & (outside == self.past(outside))))
            self.check(f"{name}_each_once", (source.axis_tvalid & source.axis_tready)
                       == (i.valid & i.ready))
            self.check(f"{name}_offered", source.axis_tvalid == i.valid)
            self.cover(f"{name}_stalled", stalled & source.axis_tready)

        out = self.packets
        lanes = WIDTH // 8
        self.assume((packet.count > 0) & (packet.count <= lanes))
        self.assume(packet.last | (packet.count == lanes))
        self.check("keep_without_hole", Cat(
            out.axis_tkeep == (1 << count) - 1 for count in range(1, lanes + 1)).any())
        self.check("keep_is_count", sum(out.axis_tkeep) == packet.count)
        self.check("full_before_last", out.axis_tlast | out.axis_tkeep.all())
        self.check("data_passes", (out.axis_tdata == packet.data)
                   & (out.axis_tlast == packet.last) & (out.axis_tuser[1:] == packet.side))
        self.check("error_with_last", out.axis_tuser[0] == (packet.last & packet.error))
        self.check("record_passes", self.records.axis_tdata == self.records.i.payload)


FILE = "axis.py"
FAULTS = (
    Fault(name="error before the last beat", file=FILE,
          old="self.axis_tuser[0].eq(packet.error & packet.last)",
          new="self.axis_tuser[0].eq(packet.error)", caught=("error_with_last",)),
    Fault(name="one byte too few kept", file=FILE,
          old="thermometer(packet.count, len(self.axis_tkeep))",
          new="thermometer(packet.count - 1, len(self.axis_tkeep))",
          caught=("keep_is_count", "keep_without_hole", "full_before_last")),
    Fault(name="record taken while stalled", file=FILE,
          old="""self.axis_tdata.eq(self.i.payload),
            self.axis_tvalid.eq(self.i.valid),
            self.i.ready.eq(self.axis_tready)""",
          new="""self.axis_tdata.eq(self.i.payload),
            self.axis_tvalid.eq(self.i.valid),
            self.i.ready.eq(1)""",
          caught=("record_each_once",)),
)

PROOFS = [Proof(name="source", says="transfer for transfer, tkeep by count, held while stalled",
                spec=SourceSpec, depth=2, reach=5, faults=FAULTS)]
