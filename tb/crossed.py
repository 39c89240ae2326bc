# SPDX-License-Identifier: Apache-2.0
"""A switch for the fabric harness to be tested with: what enters by a port leaves by its neighbour.

It has the ports of ``flytrim_switch`` and two registers: at 0 the number of a rule to break, and at
4 whether the interrupt is high.
"""

from amaranth import Module, Mux, Signal
from amaranth.back import verilog
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from flytrim.axis import axil_members, axis_members
from flytrim.stream import Queue

__all__ = ["CHANGES", "DROPS_VALID", "HAS_GAPS", "KEEPS_END", "NOT_READY", "SILENT",
           "crossed_verilog"]

#: Rules that can be broken; 0 is none.
DROPS_VALID, CHANGES, HAS_GAPS, NOT_READY, SILENT, KEEPS_END = range(1, 7)
_DEPTH = 1024


class _Crossed(wiring.Component):
    """Stores frames whole, and forwards those of port p to port p xor 1. ``ports`` is even."""

    def __init__(self, ports, width):
        self._ports, self._width = ports, width
        super().__init__({
            **axil_members("s_axil", 12 + ceil_log2(ports + 1)), "irq": Out(1),
            **{name: member for port in range(ports) for name, member in (
                *axis_members(f"s_axis_rx{port}", In, width, user=1).items(),
                *axis_members(f"m_axis_tx{port}", Out, width, user=1).items())},
        })

    def elaborate(self, platform):
        m = Module()
        fault = self._registers(m)
        count = Signal(3)
        m.d.sync += count.eq(count + 1)
        pause = count == 0
        for port in range(self._ports):
            self._lane(m, port, fault, pause)
        return m

    def _lane(self, m, port, fault, pause):
        rx, tx = f"s_axis_rx{port}", f"m_axis_tx{port ^ 1}"

        def of(prefix, name):
            return getattr(self, f"{prefix}_{name}")

        shape = data.StructLayout({"tdata": self._width, "tkeep": self._width // 8, "tlast": 1,
                                   "tuser": 1})
        m.submodules[f"queue_{port}"] = queue = Queue(shape, depth=_DEPTH, margin=1)
        m.d.comb += [
            of(rx, "tready").eq(~((fault == NOT_READY) & pause)),
            queue.i.valid.eq(of(rx, "tvalid") & of(rx, "tready")),
            queue.commit.eq(of(rx, "tlast")),
        ]
        inside = Signal(name=f"inside_{port}")
        with m.If(of(tx, "tvalid") & of(tx, "tready")):
            m.d.sync += inside.eq(~of(tx, "tlast"))
        hidden = Mux(fault == DROPS_VALID, pause, (fault == HAS_GAPS) & pause & inside
                     & of(tx, "tready"))
        m.d.comb += [
            of(tx, "tvalid").eq(queue.o.valid & ~hidden),
            queue.o.ready.eq(of(tx, "tready") & ~hidden),
        ]
        for name in ("tdata", "tkeep", "tlast", "tuser"):
            m.d.comb += [queue.i.payload[name].eq(of(rx, name)),
                         of(tx, name).eq(queue.o.payload[name])]
        with m.If((fault == CHANGES) & pause):
            m.d.comb += of(tx, "tdata").eq(queue.o.payload.tdata ^ 1)
        with m.If(fault == KEEPS_END):
            m.d.comb += of(tx, "tlast").eq(0)

    def _registers(self, m):
        """The register that says which rule is broken."""
        fault, irq = Signal(32), Signal(32)
        write = self.s_axil_awvalid & self.s_axil_wvalid & ~self.s_axil_bvalid
        read = self.s_axil_arvalid & ~self.s_axil_rvalid & (fault != SILENT)
        m.d.comb += [self.s_axil_awready.eq(write), self.s_axil_wready.eq(write),
                     self.s_axil_arready.eq(read), self.irq.eq(irq[0])]
        with m.If(write):
            m.d.sync += self.s_axil_bvalid.eq(1)
            with m.If(self.s_axil_awaddr[2]):
                m.d.sync += irq.eq(self.s_axil_wdata)
            with m.Else():
                m.d.sync += fault.eq(self.s_axil_wdata)
        with m.Elif(self.s_axil_bready):
            m.d.sync += self.s_axil_bvalid.eq(0)
        with m.If(read):
            m.d.sync += [self.s_axil_rvalid.eq(1),
                         self.s_axil_rdata.eq(Mux(self.s_axil_araddr[2], irq, fault))]
        with m.Elif(self.s_axil_rready):
            m.d.sync += self.s_axil_rvalid.eq(0)
        return fault


def crossed_verilog(ports, width):
    """Its Verilog, top module ``flytrim_switch``."""
    return verilog.convert(_Crossed(ports, width), name="flytrim_switch", emit_src=False,
                           strip_internal_attrs=True)
