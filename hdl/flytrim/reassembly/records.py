# SPDX-License-Identifier: Apache-2.0
"""What travels through the reassembler: contexts of flows, jobs, news, completions.

Each is a struct whose first field is the least significant.
"""

import enum

from amaranth.lib import data

__all__ = ["BYTES_BITS", "CYCLE_BITS", "FLOW_BITS", "LENGTH_BITS", "PSN_BITS", "SYNDROMES",
           "AnswerKind", "Command", "Completion", "Fate", "Job", "Landing", "News", "Operation",
           "Paths", "Retired"]

#: Bits of a flow's number, of a PSN or number of a message, of a place in a buffer, of a payload's
#: length, of a moment.
FLOW_BITS, PSN_BITS, BYTES_BITS, LENGTH_BITS, CYCLE_BITS = 16, 24, 32, 14, 48


class Fate(enum.IntEnum):
    """What became of a packet; of those that apply, the last one but ``DAMAGED``."""

    PLACED = 0
    #: Its PSN has come before.
    DUPLICATE = 1
    #: Its PSN is at or beyond the end of the window, or in order not the next one.
    OUT_OF_WINDOW = 2
    #: Its opcode does not stand where it may, or its length is not the one of its place.
    SEQUENCE = 3
    #: It would be written outside the flow's buffer.
    BOUNDS = 4
    DAMAGED = 5


class AnswerKind(enum.IntEnum):
    """What a sender is told."""

    NONE = 0
    ACK = 1
    #: The same for a duplicate.
    AGAIN = 2
    NAK_SEQUENCE = 3
    NAK_INVALID = 4
    NAK_ACCESS = 5
    NAK_OPERATION = 6


#: Syndrome of the AETH by kind of answer; an ACK does not limit how much may be sent.
SYNDROMES = {AnswerKind.ACK: 0x1F, AnswerKind.AGAIN: 0x1F, AnswerKind.NAK_SEQUENCE: 0x60,
             AnswerKind.NAK_INVALID: 0x61, AnswerKind.NAK_ACCESS: 0x62,
             AnswerKind.NAK_OPERATION: 0x63}


class Paths(data.Struct):
    """Messages of a flow whose packets come in any order: all are alike.

    ``last`` packets may come beyond the first missing one. Each packet but the last of a message
    has 256 << ``mtu`` bytes, the last of its ``packets`` has ``tail_bytes``. ``reciprocal`` is
    2^17 / ``packets``, rounded up, where these are 256 at most, else 0. ``ring`` is how many bytes
    from the start of the buffer messages have places, ``stride`` from one to the next; it reaches
    for all messages of a window and one more.
    """

    last: 8
    mtu: 3
    packets: PSN_BITS
    tail_bytes: LENGTH_BITS
    message_bytes: BYTES_BITS
    reciprocal: 18
    ring: BYTES_BITS


class Landing(data.Struct):
    """What the control plane stores for a flow: where its messages land, and how.

    The buffer has ``bytes`` from ``base`` on, none of them beyond the end of the address space.
    ``address`` is the sender's view of ``base``. A SEND or READ message begins ``stride`` bytes
    behind the one before, at ``base`` again where a whole stride does not fit any more; with 0
    where the one before ended. ``responses`` is set for a flow of READ responses; it has no
    requests, as those have PSNs of their own. ``paths`` counts for ``multipath``.
    """

    enable: 1
    responses: 1
    start_psn: PSN_BITS
    base: 64
    bytes: BYTES_BITS
    address: 64
    stride: BYTES_BITS
    multipath: 1
    paths: Paths


class Operation(enum.IntEnum):
    """What is done with a flow."""

    #: Take the context, forget what had begun, wait for the start PSN.
    START = 0
    #: Drop its packets from then on.
    STOP = 1


class Command(data.Struct):
    """A command; ``landing`` counts for ``START``."""

    operation: 1
    flow: FLOW_BITS
    landing: Landing


class News(data.Struct):
    """What a packet has to tell once it is in memory.

    ``restart`` is no packet but the start of the flow, which forgets all. A message that had begun
    ``abandons`` or the packet ``completes`` one, or both in this order: ``message`` is the number
    of the first of them. ``bytes``, ``opcode``, ``immediate`` and ``began`` are those of the
    message that completes. ``answerable`` is set for a request of RC, whose ``answer`` has ``psn``
    and ``msn``.

    Of ``multipath``, ``begins`` and ``completes`` tell of the packet's place in its own message,
    which is ``message``, and all messages before ``upto`` have come.
    """

    restart: 1
    flow: FLOW_BITS
    fate: 3
    gap: 1
    abandons: 1
    multipath: 1
    begins: 1
    completes: 1
    upto: PSN_BITS
    message: PSN_BITS
    bytes: BYTES_BITS
    opcode: 8
    immediate: 32
    began: CYCLE_BITS
    cycle: CYCLE_BITS
    answerable: 1
    answer: 3
    psn: PSN_BITS
    msn: PSN_BITS


class Job(data.Struct):
    """A packet whose fate is known: its ``length`` bytes go to ``address`` if ``write`` is set.

    ``lost``: they should be written, and may not.
    """

    write: 1
    lost: 1
    address: 64
    length: LENGTH_BITS
    news: News


class Retired(data.Struct):
    """A job that is done; ``failed`` where memory refused some of it."""

    failed: 1
    news: News


class Completion(data.Struct):
    """A message that has ended; 256 bits, in the order of the flow's messages.

    ``failed``: part of it is not in memory. ``abandoned``: a gap cut it off, and all but its number
    and ``last`` is zero. ``first`` and ``last`` are the cycles in which its first and its last
    packet came. ``phase`` is for the ring in memory, where it turns over with every round, and is
    1 in the first one.
    """

    flow: FLOW_BITS
    opcode: 8
    failed: 1
    abandoned: 1
    _reserved: 5
    phase: 1
    message: 32
    bytes: 32
    immediate: 32
    first: 64
    last: 64
