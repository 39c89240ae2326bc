# SPDX-License-Identifier: Apache-2.0
"""A netlist with instances of modules as one module."""

from collections import defaultdict
from itertools import count

__all__ = ["flat"]


def flat(modules, top):
    """A module, as Yosys writes it in JSON, with what it has instances of in their place.

    Names have the instance's before a dot. Where an instance hands an input through to an output
    there is a cell THROUGH, which is one load, whatever is behind it.

    Parameters
    ----------
    modules : dict
        By name; cells of other types stay as they are.
    top : str
    """
    return _Flat(modules).place(top)


class _Flat:
    def __init__(self, modules):
        self._modules = modules
        self._fresh = count(2)
        self._cells, self._names = {}, {}

    def place(self, name, prefix="", outside=()):
        """Add a module with these bits of the whole for those of its ports; returns the whole."""
        module, bits = self._modules[name], defaultdict(lambda: next(self._fresh), outside)

        def of_whole(own):
            return [bit if isinstance(bit, str) else bits[bit] for bit in own]

        for net, described in module["netnames"].items():
            self._names[prefix + net] = {"bits": of_whole(described["bits"])}
        for cell, described in module["cells"].items():
            pins = {pin: of_whole(own) for pin, own in described["connections"].items()}
            if described["type"] in self._modules:
                inside = self._bound(described["type"], prefix + cell, pins)
                self.place(described["type"], f"{prefix}{cell}.", inside)
            else:
                self._cells[prefix + cell] = described | {"connections": pins}
        ports = {port: described | {"bits": of_whole(described["bits"])}
                 for port, described in module["ports"].items()}
        return {"cells": self._cells, "netnames": self._names, "ports": ports}

    def _bound(self, name, instance, pins):
        """Bits of a module's ports to those that an instance has at them."""
        bound, ports = {}, self._modules[name]["ports"]
        # Inputs first: an output with the same bit is handed through.
        for port in sorted(ports, key=lambda port: ports[port]["direction"] == "output"):
            for index, (bit, outside) in enumerate(zip(
                    ports[port]["bits"], pins.get(port, ()), strict=False)):
                if bit in bound:
                    self._cells[f"{instance}.{port}[{index}]"] = {
                        "type": "THROUGH", "port_directions": {"I": "input", "O": "output"},
                        "connections": {"I": [bound[bit]], "O": [outside]}}
                elif not isinstance(bit, str):
                    bound[bit] = outside
        return bound
