# SPDX-License-Identifier: Apache-2.0
"""Groups: what a switch is told of those it reduces, and what it tells of them.

Each is a struct whose first field is the least significant. Addresses and numbers are plain
integers: the MAC address 02:00:00:00:00:01 is 0x0200_0000_0001; IPv4 addresses stand in the low 32
bits, the rest zero.
"""

import enum

from amaranth.lib import data

from .config import MAX_PORTS

__all__ = ["GROUP_BITS", "MISSING_BITS", "OFFSET_BITS", "PORT_BITS", "SLOT_BITS", "AbortCause",
           "Aborted", "GroupCommand", "GroupContext", "GroupOperation", "GroupStatus", "Route",
           "Straggler", "Template"]

#: Bits of a port's number, of a group's, of a slot's, of an offset or PSN, of a set of ports.
PORT_BITS, GROUP_BITS, SLOT_BITS, OFFSET_BITS, MISSING_BITS = 4, 6, 13, 24, MAX_PORTS


class GroupContext(data.Struct):
    """What the control plane stores for a group.

    ``members``, ``parent``, ``sources``, ``receivers`` and ``relays`` are bit masks of ports.
    ``parent`` is that member, if any, behind which the group's parent is: it gets what the others,
    the children, have together, and its answer is the result. Of the children only the payloads of
    ``sources`` are reduced; of all that get a result only ``receivers`` get its payload. An
    immediate of a member of ``relays`` is the mask of those that its payload lacks.

    ``operation`` has the bits of :class:`flytrim.fp32.node.Operation`, ``type`` is a
    :class:`flytrim.fp32.element.ElementType`. A window of W packets has the slots from ``base``,
    a multiple of 2 W, to ``base`` + ``last``, which is 2 W - 1. ``timeout`` is the cycles that a
    slot may wait for its last members before that is told; 0 never tells. ``resend`` is the cycles
    that it waits for its parent alone until that one is asked again; 0 never asks again.
    """

    members: MISSING_BITS
    parent: MISSING_BITS
    sources: MISSING_BITS
    receivers: MISSING_BITS
    relays: MISSING_BITS
    operation: 3
    type: 2
    base: SLOT_BITS
    last: SLOT_BITS
    timeout: 32
    resend: 32


class Template(data.Struct):
    """The headers that results of a group leave a port with.

    The result of offset n has PSN ``psn`` + n modulo 2^24 and, where its opcode has a RETH, the
    address ``va`` + n times the bytes of a slot. ``opcode`` is that of an ONLY packet of UC, RC or
    UD. ``rkey`` is the Q_Key of a UD packet, and ``src_qp`` its source queue pair. ``ecn`` is that
    of a result none of whose contributions met congestion. ``tci`` is the VLAN tag where ``tagged``
    is set; ``ttl`` is the hop limit of IPv6.
    """

    dst_mac: 48
    src_mac: 48
    tagged: 1
    tci: 16
    ipv6: 1
    src: 128
    dst: 128
    dscp: 6
    ecn: 2
    ttl: 8
    flow_label: 20
    sport: 16
    dport: 16
    opcode: 8
    pkey: 16
    qpn: 24
    psn: OFFSET_BITS
    va: 64
    rkey: 32
    src_qp: 24


class GroupOperation(enum.IntEnum):
    """What is done with a group."""

    #: Take the context and the start PSNs, clear the slots, reduce from then on.
    START = 1
    #: Drop contributions from then on, and results that still wait for a port.
    STOP = 2
    #: Let the result of an offset go out without the children that are missing.
    FLUSH = 3
    #: Write the headers that its results leave a port with.
    TEMPLATE = 4


class GroupStatus(enum.IntEnum):
    """Outcome of a command; anything but ``DONE`` changed nothing."""

    DONE = 0
    BAD_GROUP = 1
    #: ``START`` of a group that is started.
    RUNNING = 2
    #: ``STOP`` or ``FLUSH`` of a group that is not.
    STOPPED = 3
    #: ``FLUSH`` of an offset that waits for nobody.
    BAD_OFFSET = 4
    BAD_PORT = 5
    UNKNOWN = 6


class GroupCommand(data.Struct):
    """A command; ``offset`` counts for ``FLUSH``, ``context`` and ``start_psn``, one of each port,
    for ``START``.
    """

    operation: 3
    group: GROUP_BITS
    port: PORT_BITS
    offset: OFFSET_BITS
    context: GroupContext
    start_psn: data.ArrayLayout(OFFSET_BITS, MAX_PORTS)


class Straggler(data.Struct):
    """A slot that some members have contributed to, and the mask of those it waits for."""

    group: GROUP_BITS
    offset: OFFSET_BITS
    missing: MISSING_BITS


class AbortCause(enum.IntEnum):
    """Why a slot makes no result."""

    #: Contributions of unequal length, or of no multiple of the element's.
    LENGTHS = 1
    PARITY = 2


class Aborted(data.Struct):
    """A slot that made no result, and the :class:`AbortCause`."""

    group: GROUP_BITS
    offset: OFFSET_BITS
    cause: 2


class Route(data.Struct):
    """Where frames of a port that are not reduced leave; nowhere unless ``enable`` is set."""

    port: PORT_BITS
    enable: 1
