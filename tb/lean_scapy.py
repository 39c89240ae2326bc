# SPDX-License-Identifier: Apache-2.0
"""Lean frames as Scapy layers: written from fpga/lean.md alone, a second opinion on the codec."""

import roce
from scapy.fields import (
    BitField,
    ByteField,
    ConditionalField,
    FieldLenField,
    FlagsField,
    LEIntField,
    PacketListField,
    ShortField,
    StrLenField,
    ThreeBytesField,
    XShortField,
)
from scapy.layers.l2 import Ether
from scapy.layers.sctp import crc32c
from scapy.packet import Packet, bind_layers

__all__ = ["LeanCarriage", "LeanContainer", "LeanRecord", "read"]

FULL, ROUTE = 1, 2


class LeanCarriage(Packet):
    """What follows the EtherType."""

    name = "lean carriage"
    fields_desc = [XShortField("subtype", 0x4C46)]


class LeanRecord(Packet):
    """A full record."""

    name = "lean record"
    fields_desc = [
        ByteField("opcode", 0), BitField("solicited", 0, 1), BitField("ack_request", 0, 1),
        BitField("ecn", 0, 2), BitField("migreq", 0, 1), BitField("pad_count", 0, 2),
        BitField("reserved", 0, 1), FieldLenField("length", None, length_of="payload_bytes"),
        StrLenField("extensions", b"", length_from=lambda p: sum(
            len(part()) for part in roce.EXTENSIONS.get(p.opcode, ()))),
        StrLenField("payload_bytes", b"", length_from=lambda p: p.length),
        StrLenField("zeros", b"", length_from=lambda p: -p.length % 4)]

    def extract_padding(self, data):
        return b"", data


class LeanContainer(Packet):
    """A whole container; ``body`` holds its bare records, ``records`` its full ones."""

    name = "lean container"
    fields_desc = [
        BitField("version", 1, 4), FlagsField("flags", 0, 4, ["full", "route"]),
        ShortField("flow", 0), ThreeBytesField("psn", 0), ShortField("sequence", 0),
        ConditionalField(BitField("source", 0, 12), lambda p: p.flags.route),
        ConditionalField(BitField("destination", 0, 12), lambda p: p.flags.route),
        ConditionalField(ByteField("hop_limit", 0), lambda p: p.flags.route),
        ConditionalField(StrLenField("body", b"", length_from=lambda p: p.size),
                         lambda p: not p.flags.full),
        ConditionalField(PacketListField("records", [], LeanRecord,
                                         length_from=lambda p: p.size), lambda p: p.flags.full),
        StrLenField("fill", b"", length_from=lambda p: p.total - 16 - 4 * p.flags.route - p.size),
        ShortField("count", 0), ShortField("bytes", 0), LEIntField("crc", 0)]

    size = total = 0

    def pre_dissect(self, data):
        self.total, self.size = len(data), int.from_bytes(data[-6:-4], "big")
        return data


bind_layers(Ether, LeanCarriage, type=0x88B5)
bind_layers(LeanCarriage, LeanContainer)


def read(data):
    """The dissected container; asserts that the CRC is that of Scapy's SCTP."""
    found = LeanContainer(data)
    covered = bytearray(data[:-4])
    if found.flags.route:
        covered[11] = 0
    assert data[-4:] == crc32c(bytes(covered)).to_bytes(4, "big")
    return found
