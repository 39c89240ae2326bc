# SPDX-License-Identifier: Apache-2.0
"""What the register description says, and what the registers of a flow hold.

Addresses and bit positions come from the description alone; code names registers and fields.
"""

import difflib
import ipaddress
from typing import NamedTuple

from systemrdl.node import RegNode
from systemrdl.rdltypes import OnWriteType

from .. import registers
from ..model import Flow

__all__ = ["Choice", "Registers", "flow_fields", "flow_of"]


class Choice(NamedTuple):
    """One of the values that a field may have."""

    name: str
    description: str


class Registers:
    """Registers by the names of their description such as ``flow.src[0]``.

    Parameters
    ----------
    top : systemrdl.node.AddrmapNode or None
        The description, that of a device that counts if not given.
    """

    def __init__(self, top=None):
        top = top or registers.load()
        self._nodes = {node.get_rel_path(top): node for node in top.descendants(unroll=True)
                       if isinstance(node, RegNode)}

    def __iter__(self):
        return iter(self._nodes)

    def address(self, name):
        """Byte address of a register."""
        return self._node(name).absolute_address

    def words(self, name):
        """How many words a register has, the low one first."""
        return self._node(name).get_property("regwidth") // 32

    def pack(self, name, **fields):
        """The word that holds ``fields``; a field that is not named has its reset value.

        Raises ``ValueError`` for a value that does not fit, ``TypeError`` for one that is no whole
        number, and ``KeyError`` for an unknown name.
        """
        word = 0
        unused = dict(fields)
        for field in self._node(name).fields():
            value = unused.pop(field.inst_name, field.get_property("reset") or 0)
            if not isinstance(value, int):
                raise TypeError(f"{name}.{field.inst_name} is a whole number, not {value!r}")
            if not 0 <= value < 1 << field.width:
                raise ValueError(f"{name}.{field.inst_name} has {field.width} bits: {value:#x} "
                                 f"does not fit")
            word |= value << field.low
        if unused:
            raise KeyError(f"register {name} has no field {', '.join(unused)}: it has "
                           f"{', '.join(self.reset(name))}")
        return word

    def unpack(self, name, word):
        """The fields in a word read from a register, as a dict."""
        return {field.inst_name: word >> field.low & (1 << field.width) - 1
                for field in self._node(name).fields()}

    def reset(self, name):
        """The fields as they are after reset, as a dict; None where hardware decides."""
        return {field.inst_name: field.get_property("reset")
                for field in self._node(name).fields()}

    def is_written(self, name):
        """Whether software may write a register."""
        return self._node(name).has_sw_writable

    def kept(self, name, fields):
        """Those of the fields read from a register that a write has to hold for them to stay.

        The others stay unless a one is written: what a one clears, and what it sets off.
        """
        return {field.inst_name: fields[field.inst_name] for field in self._node(name).fields()
                if not field.get_property("singlepulse")
                and field.get_property("onwrite") is not OnWriteType.woclr}

    def parse(self, name, field, text):
        """The number that a person has written for a field, or the name of its choice.

        Raises ``ValueError`` where it is none, and ``KeyError`` for an unknown name.
        """
        self.pack(name, **{field: 0})
        choices = {choice.name: choice.value for choice in self._choices(name, field)}
        try:
            return choices[text] if text in choices else int(text, 0)
        except ValueError:
            others = f" or one of {', '.join(choices)}" if choices else ""
            raise ValueError(f"{name}.{field} is a number such as 0x11{others}, not {text!r}"
                             ) from None

    def value(self, name, field, choice):
        """The number of a choice of a field."""
        return self._choices(name, field)[choice].value

    def choice(self, name, field, value):
        """The :class:`Choice` that a value of a field is."""
        for each in self._choices(name, field):
            if each.value == value:
                return Choice(each.name, each.rdl_desc)
        return Choice(f"unknown_{value}", f"Code {value}, which the description does not have.")

    def text(self, name, field, value):
        """A value as a person reads it."""
        number = str(value) if value < 10 else f"{value} = 0x{value:x}"
        return f"{number} ({self.choice(name, field, value).name})" if self._choices(
            name, field) else number

    def _choices(self, name, field):
        return self._node(name).get_child_by_name(field).get_property("encode") or ()

    def _node(self, name):
        try:
            return self._nodes[name]
        except KeyError:
            inside = [each for each in self._nodes if each.startswith((f"{name}.", f"{name}["))]
            near = inside or difflib.get_close_matches(name, self._nodes)
            hint = f": did you mean {near[0]!r}?" if near else ": flytrim regs read lists them all"
            raise KeyError(f"no register {name!r}{hint}") from None


def flow_fields(flow):
    """The shadow registers of a flow: register name to fields.

    Parameters
    ----------
    flow : flytrim.model.Flow
        What to register. A part of the key that is not given is not compared.
    """
    words = {"flow.ports": {"dport": flow.udp_dport, "sport": flow.udp_sport or 0},
             "flow.qp": {"qpn": flow.dqpn},
             "flow.options": {
                 "ipv6": int(flow.src.version == 6),
                 "check_vlan": int(flow.vlan is not None),
                 "check_sport": int(flow.udp_sport is not None),
                 "check_icrc": int(flow.icrc == "check"),
                 "check_length": int(flow.message_bytes is not None),
                 "cut": int(flow.excess == "cut"),
                 "disabled": int(flow.disabled),
                 "vlan": flow.vlan or 0,
             },
             "flow.message": {"bytes": flow.message_bytes or 0}}
    for end, address in (("src", flow.src), ("dst", flow.dst)):
        for word in range(4):
            words[f"flow.{end}[{word}]"] = {"bits": int(address) >> 32 * word & 0xFFFFFFFF}
    return words


def flow_of(name, words):
    """The :class:`flytrim.model.Flow` that shadow registers hold; the opposite of the above."""
    ports, options = words["flow.ports"], words["flow.options"]

    def address(end):
        number = sum(words[f"flow.{end}[{n}]"]["bits"] << 32 * n for n in range(4))
        return (ipaddress.IPv6Address if options["ipv6"] else ipaddress.IPv4Address)(number)

    return Flow(
        name=name, src=address("src"), dst=address("dst"), dqpn=words["flow.qp"]["qpn"],
        udp_dport=ports["dport"],
        udp_sport=ports["sport"] if options["check_sport"] else None,
        vlan=options["vlan"] if options["check_vlan"] else None,
        message_bytes=words["flow.message"]["bytes"] if options["check_length"] else None,
        excess="cut" if options["cut"] else "bypass",
        icrc="check" if options["check_icrc"] else "ignore",
        disabled=bool(options["disabled"]))
