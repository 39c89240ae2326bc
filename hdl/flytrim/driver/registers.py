# SPDX-License-Identifier: Apache-2.0
"""What the register description says, and how a flow becomes register writes.

Addresses and bit positions come from the description alone; code names registers and fields.
"""

from systemrdl.node import RegNode

from .. import registers

__all__ = ["Registers", "flow_fields", "insert_flow"]

INSERT = 1


class Registers:
    """The registers of a device, by the names of the description such as ``flow.src[0]``."""

    def __init__(self):
        top = registers.load()
        self._nodes = {node.get_rel_path(top): node for node in top.descendants(unroll=True)
                       if isinstance(node, RegNode)}

    def __iter__(self):
        return iter(self._nodes)

    def address(self, name):
        """Byte address of a register."""
        return self._node(name).absolute_address

    def pack(self, name, **fields):
        """The word that holds ``fields``; a field that is not named has its reset value.

        Raises ``ValueError`` for a value that does not fit and ``KeyError`` for an unknown name.
        """
        word = 0
        unused = dict(fields)
        for field in self._node(name).fields():
            value = unused.pop(field.inst_name, field.get_property("reset") or 0)
            if not 0 <= value < 1 << field.width:
                raise ValueError(f"{name}.{field.inst_name} has {field.width} bits: {value:#x} "
                                 f"does not fit")
            word |= value << field.low
        if unused:
            raise KeyError(f"register {name} has no field {', '.join(unused)}")
        return word

    def unpack(self, name, word):
        """The fields in a word read from a register, as a dict."""
        return {field.inst_name: word >> field.low & (1 << field.width) - 1
                for field in self._node(name).fields()}

    def _node(self, name):
        try:
            return self._nodes[name]
        except KeyError:
            raise KeyError(f"no register {name!r}") from None


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
                 "vlan": flow.vlan or 0,
             },
             "flow.message": {"bytes": flow.message_bytes or 0}}
    for end, address in (("src", flow.src), ("dst", flow.dst)):
        for word in range(4):
            words[f"flow.{end}[{word}]"] = {"bits": int(address) >> 32 * word & 0xFFFFFFFF}
    return words


def insert_flow(device, number, flow):
    """The writes that register ``flow`` under ``number``: (register name, value) in order.

    The last one is the command; the table is done with it when ``flow_status.busy`` reads 0.
    """
    for name, fields in flow_fields(flow).items():
        yield name, device.pack(name, **fields)
    yield "flow_command", device.pack("flow_command", flow=number, op=INSERT)
