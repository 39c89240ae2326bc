# SPDX-License-Identifier: Apache-2.0
"""The hardware register bank, made from the register description."""

import functools
import operator

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from systemrdl.node import RegNode
from systemrdl.rdltypes import OnWriteType

from ..axis import AxiLite, Response
from ..logic import KEEP, select

__all__ = ["RegisterBank"]

_WORD = 32
#: Values that are chosen from in one cycle.
_GROUP = 16


class _Register:
    """A register of the description: where it is, and the ports its fields need.

    One in a row of a window has no address of its own.
    """

    def __init__(self, node, name, address=None):
        self.name, self.address = name, address
        self.bits = node.get_property("regwidth")
        self.fields = list(node.fields())
        self.writable = node.has_sw_writable
        # Bytes, a bit each, that hold a field whose writing is told.
        self.told = sum({1 << byte for field in self.fields if field.get_property("swmod")
                         for byte in range(field.low // 8, field.high // 8 + 1)})
        self.loaded = any(field.get_property("we") for field in self.fields)

    def port(self, field):
        return f"{self.name}__{field.inst_name}"

    @property
    def strobe(self):
        return f"{self.name}__written"

    @property
    def load(self):
        return f"{self.name}__load"

    def members(self):
        for field in self.fields:
            if field.is_sw_writable:
                reset = field.get_property("reset") or 0
                yield self.port(field), Out(unsigned(field.width), init=reset)
                if field.get_property("hwset"):
                    yield f"{self.port(field)}__set", In(field.width)
                if field.get_property("we"):
                    yield f"{self.port(field)}__next", In(field.width)
            elif field.is_hw_writable:
                yield self.port(field), In(unsigned(field.width))
        if self.told:
            yield self.strobe, Out(1)
        if self.loaded:
            yield self.load, In(1)


class _Window:
    """An external array: rows that hardware keeps elsewhere, read by their number."""

    def __init__(self, node, name):
        rows, stride = node.array_dimensions[0], node.array_stride
        self.name, self.address, self.stride = name, node.raw_absolute_address, stride
        if self.address % (rows * stride) or rows & (rows - 1) or stride & (stride - 1):
            raise ValueError(f"{name}: its rows, its stride and its place must be powers of two")
        self.index = range(rows)
        registers = [node] if isinstance(node, RegNode) else list(node.registers())
        self.registers = [
            _Register(each, name if each is node else f"{name}__{each.inst_name}")
            for each in registers]
        self.offsets = [0 if each is node else each.raw_address_offset for each in registers]

    def members(self):
        yield f"{self.name}__index", Out(self.index)
        for register in self.registers:
            yield from register.members()


class RegisterBank(wiring.Component):
    """Registers behind an AXI4-Lite port.

    A write takes effect in the cycle its response becomes valid. Address and data may come in
    either order. A read or write at an address without a register, a write to a register without a
    writable field, answers SLVERR and changes nothing. One write and one read are in flight at a
    time, each independent of the other. Byte strobes are honoured.

    A register of 64 bits is two words. Reading the low one holds the high one, which the next read
    of a high word gives.

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
    <register>__load, <register>__<field>__next : sets all fields with ``we``, whatever software
        writes in the same cycle
    <register>__<field>__set : sets bits of a field with ``hwset``, whatever software clears in the
        same cycle
    <array>__index, <array>__<register>__<field> : which row of an external array is asked for, and
        what it holds, two cycles later
    """

    def __init__(self, top, *, address_width=12):
        self._registers, self._windows = [], []
        self._address_width = address_width
        self._collect(top, "")
        members = {"bus": In(AxiLite(address_width))}
        for each in (*self._registers, *self._windows):
            members.update(each.members())
        super().__init__(members)

    def _collect(self, owner, prefix):
        for node in owner.children(unroll=False):
            name = f"{prefix}{node.inst_name}"
            if node.is_array and node.external:
                self._windows.append(_Window(node, name))
                continue
            places = [(node, name)] if not node.is_array else [
                (each, f"{name}_{n}") for n, each in enumerate(node.unrolled())]
            for each, at in places:
                if isinstance(each, RegNode):
                    self._registers.append(_Register(each, at, each.absolute_address))
                else:
                    self._collect(each, f"{at}__")

    def elaborate(self, platform):
        m = Module()
        self._elaborate_write(m)
        self._elaborate_read(m)
        return m

    def _elaborate_write(self, m):
        bus = self.bus
        address = Signal(self._address_width - 2)
        data, strobe = Signal(_WORD), Signal(4)
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
                    self._elaborate_field(m, register, field, loads, data)

    def _elaborate_field(self, m, register, field, loads, data):
        name = register.port(field)
        port = getattr(self, name)
        if field.get_property("singlepulse"):
            m.d.sync += port.eq(0)
        for byte in range(field.low // 8, field.high // 8 + 1):
            low, end = max(field.low, 8 * byte), min(field.high + 1, 8 * byte + 8)
            part = port[low - field.low:end - field.low]
            clears = field.get_property("onwrite") == OnWriteType.woclr
            with m.If(loads[byte]):
                m.d.sync += part.eq(part & ~data[low:end] if clears else data[low:end])
        if field.get_property("hwset"):
            for bit, sets in zip(port, getattr(self, f"{name}__set"), strict=True):
                with m.If(sets):
                    m.d.sync += bit.eq(1)
        if field.get_property("we"):
            with m.If(getattr(self, register.load)):
                m.d.sync += port.eq(getattr(self, f"{name}__next"))

    def _elaborate_read(self, m):
        bus = self.bus
        address = Signal(self._address_width - 2)
        has_address, answers, held = Signal(), Signal(), Signal(_WORD)

        # Each register, and the address of its low word: some bits, in some part of the map.
        places = [(register, Const(1), address, register.address >> 2)
                  for register in self._registers]
        for window in self._windows:
            row = (window.stride // 4).bit_length() - 1
            within = address[row + (len(window.index) - 1).bit_length():]
            here = within == window.address // (window.stride * len(window.index))
            m.d.comb += getattr(self, f"{window.name}__index").eq(address[row:])
            places += [(register, here, address[:row], offset >> 2) for register, offset in
                       zip(window.registers, window.offsets, strict=True)]
        asked = [(here & (bits == at), self._value(register))
                 for register, here, bits, at in places]
        # A high word is asked for apart.
        wide = [n for n, (_, value) in enumerate(asked) if len(value) > _WORD]
        high = [here & (bits == at + 1) for _, here, bits, at in (places[n] for n in wide)]

        chosen, wants_held = Signal(len(asked), attrs=KEEP), Signal()
        # Who holds a high word has a register of its own beside the one that answers.
        holds = {n: Signal(name=f"holds_{n}", attrs=KEEP) for n in wide}
        m.d.comb += bus.arready.eq(~has_address)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [address.eq(bus.araddr[2:]), has_address.eq(1)]
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        # The rows of windows are asked for, what they hold is there, what is wanted is gathered.
        steps = Signal(2)
        m.d.sync += [steps.eq(steps << 1), answers.eq(steps[-1])]
        with m.If(has_address & ~steps.any() & ~answers & (~bus.rvalid | bus.rready)):
            m.d.sync += steps.eq(1)
        m.d.sync += [
            chosen.eq(Cat(condition for condition, _ in asked)),
            *(hold.eq(asked[n][0]) for n, hold in holds.items()),
            wants_held.eq(Cat(high).any()),
        ]
        known, low = self._gathered(m, "low", [
            (chosen[n], value[:_WORD]) for n, (_, value) in enumerate(asked)])
        holding, high = self._gathered(m, "high", [
            (hold, asked[n][1][_WORD:]) for n, hold in holds.items()])
        with m.If(answers):
            m.d.sync += [
                has_address.eq(0), bus.rvalid.eq(1),
                bus.rdata.eq(Mux(wants_held, held, low)),
                bus.rresp.eq(Mux(known | wants_held, Response.OKAY, Response.SLVERR)),
            ]
            with m.If(holding):
                m.d.sync += held.eq(high)

    def _gathered(self, m, name, choices):
        """Whether a condition holds, and the value whose does, a cycle later; zero if none."""
        known, words = [], []
        for start in range(0, len(choices), _GROUP):
            group = choices[start:start + _GROUP]
            known.append(Signal(name=f"{name}_known_{start}"))
            words.append(Signal(_WORD, name=f"{name}_{start}", reset_less=True))
            m.d.sync += [known[-1].eq(Cat(condition for condition, _ in group).any()),
                         words[-1].eq(select(group))]
        return Cat(known).any(), functools.reduce(operator.or_, words, Const(0, _WORD))

    def _value(self, register):
        """All bits of a register, as software reads them."""
        value = Const(0, register.bits)
        for field in register.fields:
            # A pulse may be up while it is read.
            if field.get_property("singlepulse"):
                continue
            if field.is_sw_writable or field.is_hw_writable:
                bits = getattr(self, register.port(field))
            else:
                bits = Const(field.get_property("reset") or 0, field.width)
            value |= bits.shift_left(field.low)
        return value
