# SPDX-License-Identifier: Apache-2.0
"""Depth and fan-out of netlists small enough to be counted by hand."""

from collections import Counter

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

    def netlist(self):
        return Netlist(self._module)


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
