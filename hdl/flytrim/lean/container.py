# SPDX-License-Identifier: Apache-2.0
"""The format of a container once: fields in wire order, flags, limits. Plain data."""

import enum

from ..crc import Crc
from ..headers import Header

__all__ = ["CARRIAGE", "CRC32C", "ETHERNET_BYTES", "ETHERTYPE", "FULL", "LINK_BYTES", "MAX_FLOWS",
           "MAX_PAYLOAD", "MAX_PREFIX", "MIN_CARRIED", "ROUTE", "SUBTYPE", "TAG", "TRAILER",
           "VERSION", "WORD", "Fault", "Flag"]

VERSION = 1
#: Castagnoli's, as of iSCSI (RFC 3720) and SCTP (RFC 9260).
CRC32C = Crc(0x82F6_3B78)
#: All parts of a container are whole words of so many bytes.
WORD = 4

TAG = Header("tag", version=4, flags=4, flow=16, psn=24, sequence=16)
ROUTE = Header("route", source=12, destination=12, hop_limit=8)
#: Before the extension headers of each record of a full container.
FULL = Header("record", opcode=8, solicited=1, ack_request=1, ecn=2, migreq=1, pad_count=2,
              reserved=1, length=16)
#: The CRC is stored with its lowest byte first.
TRAILER = Header("trailer", records=16, bytes=16, crc=32)
#: What stands before a container on Ethernet.
CARRIAGE = Header("carriage", dst=48, src=48, ethertype=16, subtype=16)
#: Local experimental EtherType 1 (IEEE 802-2014, 9.2.4), and the number of the protocol under it
#: that such a frame has to begin with.
ETHERTYPE, SUBTYPE = 0x88B5, 0x4C46

#: Bytes that a container takes no record beyond, on a bare link and over Ethernet, where these are
#: the whole words in a jumbo frame's 9,000 bytes behind the number of the protocol.
LINK_BYTES, ETHERNET_BYTES = 4096, 8996
#: The shortest container that an Ethernet frame of 60 bytes, without FCS, is filled with.
MIN_CARRIED = 60 - CARRIAGE.size
#: Longest payload of a record: the largest path MTU.
MAX_PAYLOAD = 4096
#: Bytes of a full record before its payload: with a RETH and an immediate.
MAX_PREFIX = 24
MAX_FLOWS = 64


class Flag(enum.IntFlag):
    """Flags of a tag."""

    #: Records tell their opcode and length; without it they are all as the flow's template says.
    FULL = 1
    #: A route tag follows.
    ROUTE = 2


class Fault(enum.IntEnum):
    """Why a container was not accepted; the first that applies, in this order."""

    NONE = 0
    #: Marked bad, cut, too long, or a wrong CRC.
    DAMAGED = 1
    #: Another version, flags that are not defined, or a flow that is not registered.
    UNKNOWN = 2
    #: Sound, but records, bytes and template do not fit.
    MALFORMED = 3
    #: Of a sequence number that was accepted before, or passed over.
    STALE = 4
    #: No room in the restorer's queue.
    OVERFLOW = 5

    def __str__(self):
        return self.name.lower()
