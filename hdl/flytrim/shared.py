# SPDX-License-Identifier: Apache-2.0
"""Parts that a design has several times over, and its Verilog once."""

from amaranth import ClockSignal, Instance, Module, ResetSignal
from amaranth.hdl import Const, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

__all__ = ["SharedModules", "copies", "ports_of"]


def copies(name, make, count, attributes=()):
    """``count`` components, each like what ``make()`` gives, with these attributes of that.

    Where Verilog is made, ``name`` is the module that they are all instances of. Elsewhere each is
    a component of its own.
    """
    pool = [make()]
    known = {attribute: getattr(pool[0], attribute) for attribute in attributes}
    return [_Copy(name, make, pool, known) for _ in range(count)]


class SharedModules:
    """The modules that instances were made of: given to Amaranth as platform."""

    def __init__(self):
        #: Components by the name of their module.
        self.components = {}

    def take(self):
        """(name, component) of those that were added since the last time."""
        taken, self.components = self.components, dict.fromkeys(self.components)
        return [(name, component) for name, component in taken.items() if component is not None]


class _Copy(wiring.Component):
    def __init__(self, name, make, pool, attributes):
        self._name, self._make, self._pool = name, make, pool
        super().__init__(pool[0].signature)
        for attribute, value in attributes.items():
            setattr(self, attribute, value)

    def _component(self):
        return self._pool.pop() if self._pool else self._make()

    def elaborate(self, platform):
        if not isinstance(platform, SharedModules):
            m = Module()
            m.submodules.copy = component = self._component()
            connect(m, flipped(self), component)
            return m
        if self._name not in platform.components:
            platform.components[self._name] = self._component()
        # What is always ready has no port for that.
        return Instance(
            self._name, ("i", "clk", ClockSignal()), ("i", "rst", ResetSignal()),
            *(("i" if member.flow is In else "o", _port(path), Value.cast(value))
              for path, member, value in self.signature.flatten(self)
              if not isinstance(value, Const)))


def ports_of(component):
    """What :func:`amaranth.back.verilog.convert` is to make ports of, by name."""
    return {_port(path): (Value.cast(value), PortDirection.Input if member.flow is In
                          else PortDirection.Output)
            for path, member, value in component.signature.flatten(component)
            if not isinstance(value, Const)}


def _port(path):
    return "__".join(map(str, path))
