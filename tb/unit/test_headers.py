# SPDX-License-Identifier: Apache-2.0
"""The header table of the hardware against Scapy's layers and those of ``tb/roce.py``."""

import pytest
import roce
from frames import PAYLOAD
from scapy.contrib import roce as scapy_roce
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import split_layers

from flytrim import headers as h

# Importing Scapy's own BTH puts it behind UDP in the place of ours.
split_layers(UDP, scapy_roce.BTH)

#: {header: (Scapy layer, {our field: Scapy's})}
LAYERS = {
    "ETHERNET": (Ether, {"dst": "dst", "src": "src", "ethertype": "type"}),
    "VLAN": (Dot1Q, {"pcp": "prio", "dei": "dei", "vid": "vlan", "ethertype": "type"}),
    "IPV4": (IP, {"version": "version", "ihl": "ihl", "total_length": "len", "identification": "id",
                  "fragment_offset": "frag", "ttl": "ttl", "protocol": "proto",
                  "checksum": "chksum", "src": "src", "dst": "dst"}),
    "IPV6": (IPv6, {"version": "version", "flow_label": "fl", "payload_length": "plen",
                    "next_header": "nh", "hop_limit": "hlim", "src": "src", "dst": "dst"}),
    "UDP": (UDP, {"sport": "sport", "dport": "dport", "length": "len", "checksum": "chksum"}),
    "BTH": (roce.BTH, {"opcode": "opcode", "solicited": "solicited", "migreq": "migreq",
                       "pad_count": "pad_count", "tver": "tver", "pkey": "pkey", "fecn": "fecn",
                       "becn": "becn", "reserved": "reserved", "dest_qp": "dest_qp",
                       "ack_request": "ack_request", "reserved7": "reserved7", "psn": "psn"}),
    "RETH": (roce.RETH, {"address": "address", "rkey": "rkey", "dma_length": "dma_length"}),
    "AETH": (roce.AETH, {"syndrome": "syndrome", "msn": "msn"}),
    "DETH": (roce.DETH, {"qkey": "qkey", "reserved": "deth_reserved", "src_qp": "src_qp"}),
    "IMMDT": (roce.ImmDt, {"immediate": "immediate"}),
    "IETH": (roce.IETH, {"rkey": "rkey"}),
    "ATOMIC_ETH": (roce.AtomicETH, {"address": "address", "rkey": "rkey", "swap": "swap",
                                    "compare": "compare"}),
    "ATOMIC_ACK_ETH": (roce.AtomicAckETH, {"original": "original"}),
}
#: Scapy's own BTH and AETH, a second opinion on ours: {our field: Scapy's}.
SCAPY_BTH = {"opcode": "opcode", "solicited": "solicited", "migreq": "migreq",
             "pad_count": "padcount", "tver": "version", "pkey": "pkey", "fecn": "fecn",
             "becn": "becn", "reserved": "resv6", "dest_qp": "dqpn", "ack_request": "ackreq",
             "reserved7": "resv7", "psn": "psn"}
SCAPY_AETH = {"syndrome": "syndrome", "msn": "msn"}

ROWS = [(name, layer, field, theirs) for name, (layer, fields) in LAYERS.items()
        for field, theirs in fields.items()]
ROWS += [("BTH", scapy_roce.BTH, *pair) for pair in SCAPY_BTH.items()]
ROWS += [("AETH", scapy_roce.AETH, *pair) for pair in SCAPY_AETH.items()]

ADDRESSES = {"Ether": ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"),
             "IP": ("0.0.0.0", "255.255.255.255"),
             "IPv6": ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}


def header_bytes(layer, name, value, size):
    fixed = {field.name: 0 for field in layer.fields_desc if field.name not in ("src", "dst")
             and field.name not in ("options", "icrc", "pad", "flags")}
    if layer in (Ether, IP, IPv6):
        fixed.update(src=ADDRESSES[layer.__name__][0], dst=ADDRESSES[layer.__name__][0])
    return int.from_bytes(bytes(layer(**{**fixed, name: value}))[:size], "big")


@pytest.mark.parametrize("name, layer, field, theirs", ROWS,
                         ids=[f"{layer.__module__.split('.')[-1]}-{name}.{field}"
                              for name, layer, field, _ in ROWS])
def test_a_field_stands_where_scapy_writes_it(name, layer, field, theirs):
    header = getattr(h, name)
    ours = getattr(header, field)
    low, high = 0, (1 << ours.width) - 1
    if theirs in ("src", "dst"):
        low, high = ADDRESSES[layer.__name__]
    changed = (header_bytes(layer, theirs, low, header.size)
               ^ header_bytes(layer, theirs, high, header.size))
    assert changed == ((1 << ours.width) - 1) << (8 * header.size - ours.bit - ours.width)


@pytest.mark.parametrize("name", LAYERS)
def test_a_header_has_the_size_that_scapy_writes(name):
    layer = LAYERS[name][0]
    tail = 4 if layer is roce.BTH else 0
    assert getattr(h, name).size == len(bytes(layer())) - tail


@pytest.mark.parametrize("name", LAYERS)
def test_every_field_of_a_header_is_compared(name):
    split = {"IPV4": {"dscp", "ecn", "reserved", "dont_fragment", "more_fragments"},
             "IPV6": {"dscp", "ecn"}}.get(name, set())
    assert set(getattr(h, name).fields) == set(LAYERS[name][1]) | split


@pytest.mark.parametrize("name, layer, theirs, value, field", [
    ("IPV4", IP, "tos", 0xFC, "dscp"), ("IPV4", IP, "tos", 0x03, "ecn"),
    ("IPV4", IP, "flags", 4, "reserved"), ("IPV4", IP, "flags", 2, "dont_fragment"),
    ("IPV4", IP, "flags", 1, "more_fragments"),
    ("IPV6", IPv6, "tc", 0xFC, "dscp"), ("IPV6", IPv6, "tc", 0x03, "ecn"),
], ids=lambda value: value if isinstance(value, str) else None)
def test_a_part_of_a_scapy_field_stands_where_scapy_writes_it(name, layer, theirs, value, field):
    header = getattr(h, name)
    ours = getattr(header, field)
    changed = (header_bytes(layer, theirs, 0, header.size)
               ^ header_bytes(layer, theirs, value, header.size))
    assert changed == ((1 << ours.width) - 1) << (8 * header.size - ours.bit - ours.width)


def test_exactly_the_same_opcodes_are_defined():
    assert {code: row.name for code, row in h.OPCODES.items()} == {
        code: name for name, code in roce.OPCODES.items()}


@pytest.mark.parametrize("code", h.OPCODES, ids=hex)
def test_an_opcode_has_the_same_extension_headers_in_the_same_order(code):
    by_layer = {layer: getattr(h, name) for name, (layer, _) in LAYERS.items()}
    assert list(h.OPCODES[code].extensions) == [by_layer[each] for each in roce.EXTENSIONS[code]]
    assert h.OPCODES[code].extension_bytes == sum(len(each()) for each in roce.EXTENSIONS[code])


@pytest.mark.parametrize("name", roce.OPCODES)
def test_an_opcode_has_payload_and_place_by_its_name(name):
    row = h.OPCODES[roce.OPCODES[name]]
    assert row.payload == (name in PAYLOAD)
    places = [place for place in h.Place if place.name in name.split("_")]
    assert [row.place] == (places if row.payload else [None])


def test_scapy_knows_the_same_numbers_for_the_opcodes_it_names():
    for transport in ("RC", "UC"):
        for name, code in scapy_roce._ops.items():
            ours = (name.replace("RDMA_", "").replace("_WITH_IMMEDIATE", "_IMM"))
            ours = roce.OPCODES.get(f"{transport}_{ours}")
            assert ours in (None, scapy_roce._transports[transport] + code), name
    assert roce.OPCODES["CNP"] == scapy_roce.CNP_OPCODE


def test_constants_are_those_of_scapy():
    assert h.ROCE_PORT == roce.UDP_PORT
    assert h.TYPE_IPV4 == (Ether() / IP()).type and h.TYPE_IPV6 == (Ether() / IPv6()).type
    assert h.TPIDS[0] == (Ether() / Dot1Q()).type and set(h.TPIDS) == {0x8100, 0x88A8, 0x9100}
    assert h.IP_UDP == (IP() / UDP()).proto


def test_the_longest_chain_of_headers_is_that_of_an_atomic_over_ipv6_in_two_tags():
    packet = Ether() / Dot1Q() / Dot1Q() / IPv6() / UDP(dport=roce.UDP_PORT) / roce.BTH(
        opcode=0x13) / roce.AtomicETH()
    assert h.MAX_HEADER_BYTES == len(packet) - 4
