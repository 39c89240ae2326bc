# SPDX-License-Identifier: Apache-2.0
"""Depth and fan-out of netlists small enough to be counted by hand."""

from collections import Counter

from flytrim.synth.flatten import flat
from flytrim.synth.netlist import Netlist
from flytrim.synth.report import cost


class Builder:
    """A module in the form of Yosys' JSON; nets are numbered by their names."""

    def __init__(self, **ports):
        self._bits, self._module = {}, {"cells": {}, "netnames": {}, "ports": {}}
        for name, direction in ports.items():
            self._module["ports"][name] = {"direction": direction, "bits": [self.net(name)]}

    def net(self, name):
        if name not in self._bits:
            self._bits[name] = len(self._bits) + 2
            self._module["netnames"][name] = {"bits": [self._bits[name]]}
        return self._bits[name]

    def cell(self, kind, output, *inputs, name=None):
        """``output`` and ``inputs`` are pairs of a pin and a net."""
        pins = [output, *inputs]
        self._module["cells"][name or f"{kind}_{output[1]}"] = {
            "type": kind,
            "port_directions": {pin: "output" if n == 0 else "input"
                                for n, (pin, _) in enumerate(pins)},
            "connections": {pin: [self.net(net)] for pin, net in pins},
        }

    def register(self, q, d, **pins):
        self.cell("FDRE", ("Q", q), ("D", d), ("C", "clk"),
                  *((pin.upper(), net) for pin, net in pins.items()))

    def netlist(self, **instances):
        """With these modules, by the type of their cells."""
        modules = {name: build._module for name, build in instances.items()}
        return Netlist(flat({"top": self._module, **modules}, "top"))

    def instance(self, kind, name, **pins):
        """A cell of a module of one's own."""
        self._module["cells"][name] = {
            "type": kind, "connections": {pin: [self.net(net)] for pin, net in pins.items()}}


def test_a_level_is_a_lookup_table_or_the_entry_into_a_chain():
    build = Builder(clk="input", rst="input", x="input")
    build.register("a", "x", r="rst")
    build.cell("LUT2", ("O", "b"), ("I0", "a"), ("I1", "x"))
    build.cell("CARRY4", ("O", "c"), ("S", "b"), ("CI", "x"))
    build.cell("CARRY4", ("O", "d"), ("S", "x"), ("CI", "c"))
    build.cell("MUXF7", ("O", "e"), ("I0", "d"), ("S", "x"))
    build.cell("LUT6", ("O", "f"), ("I0", "e"))
    build.register("g", "f")
    deepest = build.netlist().deepest(1)[0]
    assert (deepest.levels, deepest.nets[0], deepest.end) == (3, "a", "g")
    assert deepest.nets == ("a", "b", "c", "d", "e", "f")


def test_paths_end_at_enables_and_memories_and_start_behind_them():
    build = Builder(clk="input", x="input")
    build.cell("LUT1", ("O", "enable"), ("I0", "x"))
    build.register("a", "x", ce="enable")
    build.cell("RAMB18E2", ("DOUTADOUT", "read"), ("ADDRARDADDR", "enable"), ("CLKARDCLK", "clk"))
    build.cell("LUT1", ("O", "b"), ("I0", "read"))
    build.cell("LUT1", ("O", "c"), ("I0", "b"))
    build.register("d", "c")
    netlist = build.netlist()
    assert [(trace.levels, trace.end) for trace in netlist.deepest(3)] == [
        (2, "d"), (1, "a.CE"), (1, "read.ADDRARDADDR")]
    assert netlist.depths() == Counter({2: 1, 1: 2, 0: 1})


def test_every_pin_is_a_load_but_clock_and_reset():
    build = Builder(clk="input", rst="input", x="input")
    build.register("a", "x", r="rst")
    for n in range(5):
        build.register(f"b{n}", "x", ce="a", r="rst")
    for n in range(3):
        build.cell("LUT1", ("O", f"c{n}"), ("I0", "a"))
    widest = build.netlist().widest(2)
    assert [(net.loads, net.name, net.driver) for net in widest] == [
        (8, "a", "FDRE"), (6, "x", "port")]


def test_cost_counts_half_block_rams_as_half():
    build = Builder(clk="input", x="input")
    build.cell("RAMB18E2", ("DOUTADOUT", "a"), ("ADDRARDADDR", "x"))
    build.cell("RAMB36E2", ("DOUTADOUT", "b"), ("ADDRARDADDR", "x"))
    build.cell("SRL16E", ("Q", "c"), ("D", "x"))
    build.cell("LUT6", ("O", "d"), ("I0", "x"))
    build.register("e", "d")
    assert cost(build.netlist()) == {
        "LUT": 1, "LUT as memory": 1, "flip-flop": 1, "carry": 0, "block RAM": 1.5}


def inverting():
    """From ``i`` through two look-up tables and a register between them to ``o``; ``same`` is i."""
    build = Builder(clk="input", i="input", o="output")
    build.cell("LUT1", ("O", "first"), ("I0", "i"))
    build.register("held", "first")
    build.cell("LUT1", ("O", "o"), ("I0", "held"))
    build._module["ports"]["same"] = {"direction": "output", "bits": [build.net("i")]}
    return build


def test_paths_lead_through_instances_and_end_at_the_registers_in_them():
    build = Builder(clk="input", x="input")
    build.register("a", "x")
    build.cell("LUT1", ("O", "b"), ("I0", "a"))
    build.instance("block", "one", clk="clk", i="b", o="c")
    build.instance("block", "two", clk="clk", i="c", o="d", same="e")
    build.register("f", "d")
    build.register("g", "e")
    netlist = build.netlist(block=inverting())
    assert netlist.cells() == {"FDRE": 5, "LUT1": 5, "THROUGH": 1}
    paths = {(trace.nets[0], trace.end): trace.levels for trace in netlist.deepest(20)}
    assert paths[("a", "one.held")] == 2
    assert paths[("one.held", "two.held")] == 2
    assert paths[("two.held", "f")] == 1
    assert paths[("one.held", "g")] == 1


def test_loads_in_all_instances_count():
    build = Builder(clk="input", x="input")
    build.register("a", "x")
    for n in range(5):
        build.instance("block", f"copy_{n}", clk="clk", i="a", o=f"o{n}")
    widest = build.netlist(block=inverting()).widest(1)[0]
    assert (widest.loads, widest.name, widest.driver) == (5, "a", "FDRE")
