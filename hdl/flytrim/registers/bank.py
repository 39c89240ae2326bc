# SPDX-License-Identifier: Apache-2.0
"""The hardware register bank, made from the register description."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from systemrdl.node import RegNode

from ..axis import AxiLite, Response
from ..logic import select

__all__ = ["RegisterBank"]


class _Register:
    """A register of the description: where it is, and the ports its fields need."""

    def __init__(self, node, top):
        path = node.get_rel_path(top, array_suffix="_{index:d}", empty_array_suffix="")
        self.name = path.replace(".", "__")
        self.address = node.absolute_address
        self.fields = list(node.fields())
        self.writable = node.has_sw_writable
        self.readable = node.has_sw_readable
        # Bytes, a bit each, that hold a field whose writing is told.
        self.told = sum({1 << byte for field in self.fields if field.get_property("swmod")
                         for byte in range(field.low // 8, field.high // 8 + 1)})

    def port(self, field):
        return f"{self.name}__{field.inst_name}"

    @property
    def strobe(self):
        return f"{self.name}__written"

    def members(self):
        for field in self.fields:
            if field.is_sw_writable:
                reset = field.get_property("reset") or 0
                yield self.port(field), Out(unsigned(field.width), init=reset)
            elif field.is_hw_writable:
                yield self.port(field), In(unsigned(field.width))
        if self.told:
            yield self.strobe, Out(1)


class RegisterBank(wiring.Component):
    """Registers behind an AXI4-Lite port.

    A write takes effect in the cycle its response becomes valid. Address and data may come in
    either order. A read or write at an address without a register, a write to a register without a
    writable field, answers SLVERR and changes nothing. One write and one read are in flight at a
    time, each independent of the other. Byte strobes are honoured.

    Parameters
    ----------
    top : systemrdl.node.AddrmapNode
        The description.
    address_width : int
        Bits of a byte address.

    Members
    -------
    bus : AXI4-Lite slave
    <register>__<field> : an output for each field that software writes, an input for each that
        hardware writes
    <register>__written : one cycle, with the new values, after a write that strobes a byte of a
        field with ``swmod``
    """

    def __init__(self, top, *, address_width=12):
        self._registers = [_Register(node, top) for node in top.descendants(unroll=True)
                           if isinstance(node, RegNode)]
        self._address_width = address_width
        members = {"bus": In(AxiLite(address_width))}
        for register in self._registers:
            members.update(register.members())
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        self._elaborate_write(m)
        self._elaborate_read(m)
        return m

    def _elaborate_write(self, m):
        bus = self.bus
        address = Signal(self._address_width - 2)
        data, strobe = Signal(32), Signal(4)
        has_address, has_data, write = Signal(), Signal(), Signal()
        applies, response = Signal(), Signal(2)

        m.d.comb += [
            bus.awready.eq(~has_address),
            bus.wready.eq(~has_data),
            write.eq(has_address & has_data & ~applies & (~bus.bvalid | bus.bready)),
        ]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [address.eq(bus.awaddr[2:]), has_address.eq(1)]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [data.eq(bus.wdata), strobe.eq(bus.wstrb), has_data.eq(1)]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        m.d.sync += [applies.eq(write), response.eq(Response.SLVERR)]
        with m.If(write):
            m.d.sync += [has_address.eq(0), has_data.eq(0)]
        with m.If(applies):
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(response)]

        # Each byte of a register has an enable of its own, set a cycle ahead.
        for register in self._registers:
            if not register.writable:
                continue
            chosen = write & (address == register.address >> 2)
            with m.If(chosen):
                m.d.sync += response.eq(Response.OKAY)
            loads = Signal(4, name=f"{register.name}_loads")
            m.d.sync += loads.eq(strobe & chosen.replicate(4))
            if register.told:
                m.d.sync += getattr(self, register.strobe).eq((loads & register.told).any())
            for field in register.fields:
                if field.is_sw_writable:
                    port = getattr(self, register.port(field))
                    for byte in range(field.low // 8, field.high // 8 + 1):
                        low, end = max(field.low, 8 * byte), min(field.high + 1, 8 * byte + 8)
                        with m.If(loads[byte]):
                            m.d.sync += port[low - field.low:end - field.low].eq(data[low:end])

    def _elaborate_read(self, m):
        bus = self.bus
        address = Signal(self._address_width - 2)
        readable = [register for register in self._registers if register.readable]
        has_address, chosen, answers = Signal(), Signal(len(readable)), Signal()

        m.d.comb += bus.arready.eq(~has_address)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [address.eq(bus.araddr[2:]), has_address.eq(1)]
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(has_address & ~answers & (~bus.rvalid | bus.rready)):
            m.d.sync += answers.eq(1)
        m.d.sync += chosen.eq(Cat(address == register.address >> 2 for register in readable))
        with m.If(answers):
            m.d.sync += [
                has_address.eq(0), answers.eq(0), bus.rvalid.eq(1),
                bus.rdata.eq(select((chosen[n], self._value(register))
                                    for n, register in enumerate(readable))),
                bus.rresp.eq(Mux(chosen.any(), Response.OKAY, Response.SLVERR)),
            ]

    def _value(self, register):
        value = 0
        for field in register.fields:
            if field.is_sw_writable or field.is_hw_writable:
                bits = getattr(self, register.port(field))
            else:
                bits = Const(field.get_property("reset") or 0, field.width)
            value |= bits << field.low
        return value
