# SPDX-License-Identifier: Apache-2.0
"""The RoCEv2 flows of a capture, as a FLOWS.toml that can be run at once."""

import ipaddress
from collections import Counter
from dataclasses import dataclass, field

from .config import NicConfig
from .headers import (
    BTH,
    ETHERNET,
    ICRC_BYTES,
    IPV4,
    IPV6,
    OPCODES,
    ROCE_PORT,
    TPIDS,
    UDP,
    VLAN,
)
from .model import NicModel
from .verdict import Reason

__all__ = ["FoundFlow", "find_flows", "flows_toml"]

#: Message lengths named in the comment of a flow; more say "and others".
SIZES_NAMED = 6


@dataclass
class FoundFlow:
    """A one-way stream of sound RoCEv2 packets: what it is recognised by, and what it carried.

    ``packets`` and ``payload_bytes`` count packets that would be trimmed, ``other`` those of the same
    key that would not (acknowledgements, READ requests, CNPs); ``sizes`` counts payload lengths.
    """

    src: ipaddress.IPv4Address | ipaddress.IPv6Address
    dst: ipaddress.IPv4Address | ipaddress.IPv6Address
    dqpn: int
    udp_dport: int
    packets: int = 0
    payload_bytes: int = 0
    other: int = 0
    sizes: Counter = field(default_factory=Counter)
    vlans: set = field(default_factory=set)


def find_flows(frames, udp_dport=ROCE_PORT):
    """Every :class:`FoundFlow` to ``udp_dport`` among ``frames``, in order of appearance."""
    # A table that knows the port and no flow calls a frame no_flow when all before the key is sound.
    model = NicModel([], ports=[udp_dport])
    found = {}
    for frame in frames:
        if model.judge(frame).reason is not Reason.NO_FLOW:
            continue
        key, opcode, length, vlan = _read(frame)
        flow = found.setdefault(key, FoundFlow(*key, udp_dport))
        flow.vlans.add(vlan)
        defined = OPCODES.get(opcode)
        if defined and defined.payload:
            flow.packets += 1
            flow.payload_bytes += length
            flow.sizes[length] += 1
        else:
            flow.other += 1
    return list(found.values())


def _read(frame):
    """((src, dst, QPN), opcode, payload bytes, VLAN ID or None) of a sound RoCEv2 frame."""
    def number(header, base, name):
        bits = getattr(header, name)
        whole = int.from_bytes(frame[base:base + header.size], "big")
        return whole >> 8 * header.size - bits.bit - bits.width & (1 << bits.width) - 1

    l3 = ETHERNET.size
    while int.from_bytes(frame[l3 - 2:l3], "big") in TPIDS:
        l3 += VLAN.size
    vlan = number(VLAN, ETHERNET.size, "vid") if l3 > ETHERNET.size else None
    ip, address = ((IPV4, ipaddress.IPv4Address) if number(IPV4, l3, "version") == 4
                   else (IPV6, ipaddress.IPv6Address))
    udp = l3 + ip.size
    bth = udp + UDP.size
    opcode = number(BTH, bth, "opcode")
    extensions = OPCODES[opcode].extension_bytes if opcode in OPCODES else 0
    length = (number(UDP, udp, "length") - UDP.size - BTH.size - extensions
              - number(BTH, bth, "pad_count") - ICRC_BYTES)
    key = (address(number(ip, l3, "src")), address(number(ip, l3, "dst")),
           number(BTH, bth, "dest_qp"))
    return key, opcode, length, vlan


def flows_toml(flows, source):
    """The text of a FLOWS.toml that registers those of ``flows`` that carry payload.

    Where there are more than the device has entries, the busiest are registered and the others
    written as comments, so that nothing found is hidden.
    """
    carrying = [flow for flow in flows if flow.packets]
    entries = NicConfig().flows
    busiest = sorted(carrying, key=lambda flow: -flow.packets)[:entries]
    silent = len(flows) - len(carrying)

    lines = [f"# RoCEv2 flows of {source}"]
    if silent:
        lines.append(f"# {silent} more with nothing to trim: acknowledgements, requests, "
                     "notifications")
    if len(carrying) > entries:
        lines.append(f"# {len(carrying)} flows with payload; the table holds {entries}, so the "
                     "busiest are registered")
    lines += ["", "[device]", "width = 512", "clock_mhz = 250"]
    for number, flow in enumerate(carrying):
        mark = "" if any(flow is each for each in busiest) else "# "
        lines += ["", f"# {_describe(flow)}"]
        lines += [mark + line for line in _entry(f"f{number}", flow)]
    return "\n".join(lines) + "\n"


def _describe(flow):
    named = [f"{count} x {size} B" for size, count in flow.sizes.most_common(SIZES_NAMED)]
    if len(flow.sizes) > SIZES_NAMED:
        named.append("others")
    text = f"{flow.packets} packets, {flow.payload_bytes} B of payload: {', '.join(named)}"
    tags = sorted(vlan for vlan in flow.vlans if vlan is not None)
    if tags:
        text += f"; VLAN {', '.join(map(str, tags))}" + (", untagged" if None in flow.vlans else "")
    if flow.other:
        text += f"; {flow.other} packets without payload"
    return text


def _entry(name, flow):
    yield "[[flow]]"
    yield f'name = "{name}"'
    yield f'src = "{flow.src}"'
    yield f'dst = "{flow.dst}"'
    yield f"dqpn = {flow.dqpn:#x}"
    if flow.udp_dport != ROCE_PORT:
        yield f"udp_dport = {flow.udp_dport}"
    yield 'action = "trim"'
