# SPDX-License-Identifier: Apache-2.0
"""The RoCEv2 flows of a capture, as a FLOWS.toml that can be run at once."""

import ipaddress
import json
from collections import Counter
from dataclasses import dataclass, field

from .config import NicConfig
from .flows import flow_toml
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
from .model import Flow, NicModel
from .verdict import Reason

__all__ = ["FoundFlow", "find_flows", "flows_toml"]

#: Payload lengths named in the comment of a flow; more say "others".
SIZES_NAMED = 6
#: Queue pairs 0 and 1 carry management datagrams (InfiniBand Architecture volume 1, 3.9): a host
#: needs their headers to set up connections.
MANAGEMENT_QPNS = (0, 1)


@dataclass
class FoundFlow:
    """A one-way stream of sound RoCEv2 packets: what it is recognised by, and what it carried.

    ``packets`` and ``payload_bytes`` count packets that carry payload by their opcode, ``other``
    those of the same key that do not (acknowledgements, READ requests, CNPs); ``sizes`` counts
    payload lengths, ``vlans`` holds the outermost VLAN IDs seen, None for no tag.
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

    @property
    def management(self):
        """Whether this is management of the fabric, not traffic of an application."""
        return self.dqpn in MANAGEMENT_QPNS

    @property
    def to_trim(self):
        """Whether registering the flow makes sense."""
        return self.packets > 0 and not self.management


def find_flows(frames, udp_dport=ROCE_PORT):
    """Every :class:`FoundFlow` to ``udp_dport`` among ``frames``, in order of appearance."""
    # A table that knows the port and no flow calls a frame no_flow when all before the key is
    # sound.
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
    """The text of a FLOWS.toml that registers those of ``flows`` that are worth trimming.

    Where there are more than the device has entries, the busiest are registered. The others stand
    there as comments, and so do flows of management, so that nothing found is hidden. ``source``
    names the capture.
    """
    shown = [flow for flow in flows if flow.packets]
    useful = [flow for flow in shown if flow.to_trim]
    entries = NicConfig().flows
    # By identity: what was found in the capture need not differ.
    registered = {id(flow) for flow in
                  sorted(useful, key=lambda flow: -flow.packets)[:entries]}
    silent = len(flows) - len(shown)

    lines = [f"# RoCEv2 flows of {json.dumps(source)}"]
    if silent:
        lines.append(f"# {silent} more without payload: acknowledgements, requests, notifications")
    if len(useful) > entries:
        lines.append(f"# {len(useful)} flows to trim; the table holds {entries}, so the busiest "
                     f"are registered")
    lines += ["", "[device]", "width = 512", "clock_mhz = 250"]
    for number, flow in enumerate(shown):
        mark = "" if id(flow) in registered else "# "
        lines += ["", f"# {_describe(flow)}"]
        entry = flow_toml(Flow(f"f{number}", flow.src, flow.dst, flow.dqpn, flow.udp_dport))
        lines += [mark + line for line in entry.splitlines()]
    return "\n".join(lines) + "\n"


def _describe(flow):
    named = [f"{count:,} x {size} B" for size, count in flow.sizes.most_common(SIZES_NAMED)]
    if len(flow.sizes) > SIZES_NAMED:
        named.append("others")
    text = (f"{_packets(flow.packets)}, {flow.payload_bytes:,} B of payload: {', '.join(named)}")
    tags = sorted(vlan for vlan in flow.vlans if vlan is not None)
    if tags:
        text += f"; VLAN {', '.join(map(str, tags))}" + (", untagged" if None in flow.vlans else "")
    if flow.other:
        text += f"; {_packets(flow.other)} without payload"
    if flow.management:
        text += f"; management (queue pair {flow.dqpn}), which hosts need whole"
    return text


def _packets(number):
    return "1 packet" if number == 1 else f"{number:,} packets"
