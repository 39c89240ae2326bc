# SPDX-License-Identifier: Apache-2.0
"""The registers of a description, one at an address, and the ports that a bank has for them.

Read from the description anew: nothing here is taken from the bank or from the driver.
"""

from systemrdl.node import RegNode
from systemrdl.rdltypes import OnWriteType

__all__ = ["WORD", "Field", "Register", "registers_of"]

WORD = 32


class Field:
    """A field: where it stands in its register, what software may do to it, and its port.

    Attributes
    ----------
    port : name of the port
    set_port, next_port : of those beside it, where it is ``settable`` or ``loadable``
    low, width : place
    reset : value after reset
    written, shown : software writes it; hardware writes what software sees. None of the two: it
        always reads as ``reset``
    clears : a written 1 clears
    pulse : what is written lasts a cycle, and nobody reads it
    told : its writing is told
    settable : hardware sets single bits
    loadable : hardware loads all of it
    """

    def __init__(self, node, register):
        self.port = f"{register}__{node.inst_name}"
        self.set_port, self.next_port = f"{self.port}__set", f"{self.port}__next"
        self.low, self.width = node.low, node.width
        self.reset = node.get_property("reset") or 0
        self.written = node.is_sw_writable
        self.shown = node.is_hw_writable and not self.written
        self.clears = node.get_property("onwrite") == OnWriteType.woclr
        self.pulse = node.get_property("singlepulse")
        self.told = node.get_property("swmod")
        self.settable = node.get_property("hwset")
        self.loadable = node.get_property("we")

    def of(self, value):
        """The field's part of a value of its register, which may be a number or a signal."""
        return value >> self.low & (1 << self.width) - 1


class Register:
    """One register at one address.

    Attributes
    ----------
    name : of its ports, up to their fields; the same for all rows of a window
    told_port, load_port : of those of the whole register, where it has any
    window, row : the external array that it stands in, and where; None and 0 for one that does not
    """

    def __init__(self, node, top):
        self.address = node.absolute_address
        self.words = node.get_property("regwidth") // WORD
        array = node
        while array is not None and not (array.external and array.is_array):
            array = array.parent if array.parent is not top else None

        def name(of, suffix=""):
            return of.get_rel_path(top, array_suffix=suffix).replace(".", "__")

        self.window, self.row = (name(array), array.current_idx[0]) if array else (None, 0)
        self.name = name(node, "" if array else "_{index:d}")
        self.told_port, self.load_port = f"{self.name}__written", f"{self.name}__load"
        self.fields = [Field(field, self.name) for field in node.fields()]
        self.written = any(field.written for field in self.fields)

    def some(self, **attributes):
        """The fields of which these attributes are so."""
        return [field for field in self.fields if all(
            getattr(field, name) == value for name, value in attributes.items())]


def registers_of(top):
    """Every :class:`Register` of a description, each row of an external array for itself."""
    return [Register(node, top) for node in top.descendants(unroll=True)
            if isinstance(node, RegNode)]
