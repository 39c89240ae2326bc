# SPDX-License-Identifier: Apache-2.0
"""A mapped netlist, as Yosys writes it in JSON: how deep its logic is, how far its nets go."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from .flatten import flat

__all__ = ["Net", "Netlist", "Trace"]

#: What a level is: a lookup table, or the entry into a carry chain. The multiplexers behind lookup
#: tables (MUXF) belong to their slice and count nothing, as does what goes from carry to carry.
LUTS = ("LUT1", "LUT2", "LUT3", "LUT4", "LUT5", "LUT6", "LUT6_2")
CARRIES = ("CARRY4", "CARRY8")
FREE = ("MUXF7", "MUXF8", "MUXF9", "INV", "BUFG", "IBUF", "OBUF", "THROUGH")
CLOCK_PINS = ("C", "CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK")


@dataclass(frozen=True)
class Trace:
    """A path between registers: levels of logic, and the names of its nets from first to last."""

    levels: int
    nets: tuple
    end: str


@dataclass(frozen=True)
class Net:
    """A net with the pins that it drives."""

    loads: int
    name: str
    driver: str


class Netlist:
    """Cells and nets of one flat module.

    Depth and fan-out are of the logic between registers: a path starts where a flip-flop, a memory
    or a port drives it and ends where one takes it. Clocks and the reset ``rst`` are left out.
    """

    def __init__(self, module):
        self._cells = module["cells"]
        self._names = _names(module)
        self._drivers, self._loads = {}, Counter()
        reset = module["ports"].get("rst", {"bits": []})["bits"]
        for name, cell in self._cells.items():
            for pin, bits in cell["connections"].items():
                drives = cell["port_directions"][pin] == "output"
                for bit in bits:
                    if isinstance(bit, str) or bit in reset:
                        continue
                    if drives:
                        self._drivers[bit] = name, pin
                    elif pin not in CLOCK_PINS:
                        self._loads[bit] += 1
        self._levels = self._find_levels()

    @classmethod
    def load(cls, path):
        """The top module of a JSON file of Yosys, with what it has instances of."""
        modules = json.loads(Path(path).read_text())["modules"]
        top, = (name for name, module in modules.items() if _has(module, "top"))
        # Models of cells stand there, too.
        return cls(flat({name: module for name, module in modules.items()
                         if not _has(module, "blackbox") and not _has(module, "whitebox")}, top))

    def cells(self):
        """Counter of cells by type."""
        return Counter(cell["type"] for cell in self._cells.values())

    def depths(self):
        """Counter of ends of paths by levels."""
        return Counter(self._levels[bit][0] for _, _, bit in self._ends())

    def deepest(self, count):
        """The deepest paths: one for each pair of registers, whatever their bits."""
        ends = sorted(self._ends(), key=lambda end: -self._levels[end[2]][0])
        found = {}
        for cell, pin, bit in ends:
            trace = self._trace(cell, pin, bit)
            found.setdefault((_word(trace.nets[0]), _word(trace.end)), trace)
            if len(found) == count:
                break
        return list(found.values())

    def widest(self, count):
        """The nets with the most loads: one for each register or expression, whatever its bits."""
        found = {}
        for bit, loads in self._loads.most_common():
            cell, pin = self._drivers.get(bit, ("", ""))
            driver = self._cells[cell]["type"] if cell else "port"
            net = Net(loads, self._names.get(bit, cell), driver)
            found.setdefault(_word(net.name), net)
            if len(found) == count:
                break
        return list(found.values())

    def _ends(self):
        for name, cell in self._cells.items():
            if not _is_logic(cell["type"]):
                for pin, bits in cell["connections"].items():
                    if cell["port_directions"][pin] == "input" and pin not in CLOCK_PINS:
                        yield from ((name, pin, bit) for bit in bits if bit in self._levels)

    def _find_levels(self):
        """Bit to (levels before it, the bit that they come from); zero behind a register."""
        levels = dict.fromkeys(self._loads, (0, None))
        readers, missing, ready = defaultdict(list), {}, []
        for name, cell in self._cells.items():
            if _is_logic(cell["type"]):
                inputs = {bit for _, bit in self._inputs(cell) if self._from_logic(bit)}
                missing[name] = len(inputs)
                for bit in inputs:
                    readers[bit].append(name)
                if not inputs:
                    ready.append(name)
        while ready:
            cell = self._cells[ready.pop()]
            best = max(((levels.get(bit, (0, None))[0] + _cost(cell["type"], pin), bit)
                        for pin, bit in self._inputs(cell)), default=(0, None))
            for pin, bits in cell["connections"].items():
                if cell["port_directions"][pin] == "output":
                    for bit in bits:
                        levels[bit] = best
                        for reader in readers[bit]:
                            missing[reader] -= 1
                            if not missing[reader]:
                                ready.append(reader)
        return levels

    def _inputs(self, cell):
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "input":
                yield from ((pin, bit) for bit in bits if bit in self._loads)

    def _from_logic(self, bit):
        return bit in self._drivers and _is_logic(self._cells[self._drivers[bit][0]]["type"])

    def _trace(self, cell, pin, bit):
        levels, nets = self._levels[bit][0], []
        while bit is not None:
            nets.append(self._names.get(bit, "?"))
            bit = self._levels[bit][1]
        outputs = [net for output in ("Q", "O", "DOUTADOUT", "DOUTBDOUT")
                   for net in self._cells[cell]["connections"].get(output, ())
                   if net in self._names]
        end = self._names[outputs[0]] if outputs else cell
        return Trace(levels, tuple(reversed(nets)), f"{end}.{pin}" if pin != "D" else end)


def _has(module, attribute):
    return int(module["attributes"].get(attribute, "0"), 2)


def _is_logic(kind):
    return kind in LUTS or kind in CARRIES or kind in FREE


def _cost(kind, pin):
    return kind in LUTS or (kind in CARRIES and pin not in ("CI", "CI_TOP"))


def _names(module):
    """Bit to the name that a reader of the source knows best."""
    names = {}
    for name, net in module["netnames"].items():
        single = len(net["bits"]) == 1
        for index, bit in enumerate(net["bits"]):
            if isinstance(bit, int):
                known = name if single else f"{name}[{index}]"
                rank = ("$" in known, known.count("."), len(known), known)
                names[bit] = min(names.get(bit, (rank, known)), (rank, known))
    return {bit: known for bit, (_, known) in names.items()}


def _word(name):
    return name.partition("[")[0]
