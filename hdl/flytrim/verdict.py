# SPDX-License-Identifier: Apache-2.0
"""What happens to a frame, and why: the words that hardware, model and reports share.

A reason's code is its place in the order of the tests: of all reasons that apply to a frame, the
one with the smallest code is reported. The verdict follows from the code's range, so one byte
carries both.
"""

import enum

__all__ = ["Reason", "Verdict"]


class Verdict(enum.IntEnum):
    """What happened to a frame."""

    TRIM = 0
    BYPASS = 1
    DROP = 2

    def __str__(self):
        return self.name.lower()


class Reason(enum.IntEnum):
    """Why a frame was not trimmed; ``NONE`` for a frame that was.

    Codes 1 to 15 can be told from the headers: the frame leaves by bypass, bit-exact. From 16 on
    the frame turned out damaged, unusable or homeless after that: it is dropped.
    """

    NONE = 0

    TRUNCATED_HEADER = 1
    NOT_IP = 2
    FRAGMENT = 3
    IP_EXTENSION = 4
    IP_HEADER = 5
    NOT_UDP = 6
    NOT_ROCE = 7
    LENGTH = 8
    NO_FLOW = 9
    OPCODE = 10
    MESSAGE_LENGTH = 11

    OVERSIZE = 16
    MAC_ERROR = 17
    TRUNCATED = 18
    ICRC = 19
    OVERFLOW = 20

    def __str__(self):
        return self.name.lower()

    @property
    def verdict(self):
        if self is Reason.NONE:
            return Verdict.TRIM
        return Verdict.BYPASS if self < Reason.OVERSIZE else Verdict.DROP

    @property
    def explanation(self):
        """One line for people."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Reason.NONE: "trimmed",
    Reason.TRUNCATED_HEADER: "the frame ends before a header it announces",
    Reason.NOT_IP: "other EtherType, 802.3 length, MAC control, or more than two VLAN tags",
    Reason.FRAGMENT: "IPv4 more-fragments or offset set, or an IPv6 fragment header",
    Reason.IP_EXTENSION: "an IPv4 option or another IPv6 extension header",
    Reason.IP_HEADER: "IPv4 checksum or IHL, or IP version, is wrong",
    Reason.NOT_UDP: "another IP protocol",
    Reason.NOT_ROCE: "UDP destination port of no registered flow",
    Reason.LENGTH: "IP, UDP, BTH and pad lengths disagree",
    Reason.NO_FLOW: "sound RoCEv2, but the key is not registered",
    Reason.OPCODE: "registered key, but an opcode without payload, or TVer not 0",
    Reason.MESSAGE_LENGTH: "longer than the flow's preset message length",
    Reason.OVERSIZE: "longer than max_frame",
    Reason.MAC_ERROR: "the MAC marked the frame bad",
    Reason.TRUNCATED: "the frame ends before its IP length",
    Reason.ICRC: "wrong ICRC",
    Reason.OVERFLOW: "no room in the output's queue",
}
