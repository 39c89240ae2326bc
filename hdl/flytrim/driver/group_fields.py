# SPDX-License-Identifier: Apache-2.0
"""What the shadow registers of a switch hold for a group and for the headers of its results."""

__all__ = ["group_fields", "header_fields"]

#: Operations as the register description names them, by operation and what becomes of a NaN.
_OPERATIONS = {("sum", "propagate"): "sum", ("sum", "ignore"): "sum",
               ("min", "propagate"): "minimum", ("max", "propagate"): "maximum",
               ("min", "ignore"): "minimum_number", ("max", "ignore"): "maximum_number"}
_WORD = 0xFFFFFFFF


def group_fields(group, registers):
    """The shadow registers of a :class:`flytrim.model.Group`: register name to fields."""
    operation = _OPERATIONS[group.op, group.nan]
    words = {
        "group.members": {
            "ports": _mask(each.port for each in group.members),
            "parent": 1 << group.parent.port if group.parent else 0},
        "group.function": {"op": registers.value("group.function", "op", operation),
                           "dtype": registers.value("group.function", "dtype", group.dtype)},
        "group.slots": {"base": group.base, "last": 2 * group.window - 1},
        "group.timeout": {"cycles": group.timeout},
        "group.resend": {"cycles": group.resend},
        "group.roles": {"sources": _mask(group.sources), "receivers": _mask(group.receivers)},
        "group.relays": {"ports": _mask(group.relays)},
    }
    return words | {f"start_psn[{member.port}]": {"psn": member.start_psn}
                    for member in group.members}


def _mask(ports):
    return sum(1 << port for port in ports)


def header_fields(header):
    """The shadow registers of a :class:`flytrim.model.Header`: register name to fields."""
    words = {
        "vlan": {"tagged": int(header.vlan is not None),
                 "tci": header.pcp << 13 | (header.vlan or 0)},
        "ip": {"ttl": header.ttl, "ecn": header.ecn, "dscp": header.dscp,
               "ipv6": int(header.src.version == 6)},
        "flow_label": {"label": header.flow_label},
        "ports": {"sport": header.udp_sport, "dport": header.udp_dport},
        "bth": {"opcode": header.opcode, "pkey": header.pkey},
        "qp": {"qpn": header.dqpn},
        "psn": {"psn": header.psn},
        "rkey": {"bits": header.qkey if _is_datagram(header.opcode) else header.rkey},
        "src_qp": {"qpn": header.src_qp},
    }
    for name in ("src_mac", "dst_mac", "va"):
        number = getattr(header, name)
        words |= {f"{name}_low": {"bits": number & _WORD}, f"{name}_high": {"bits": number >> 32}}
    for name in ("src", "dst"):
        number = int(getattr(header, name))
        words |= {f"{name}[{n}]": {"bits": number >> 32 * n & _WORD} for n in range(4)}
    return {f"template.{name}": fields for name, fields in words.items()}


def _is_datagram(opcode):
    return opcode >> 5 == 3     # The upper three bits of an opcode are its transport; 3 is UD.
