# SPDX-License-Identifier: Apache-2.0
"""A packet on its way to those that decide on it, and what they decide."""

from amaranth.lib import data

from .kinds import Kind
from .records import BYTES_BITS, CYCLE_BITS, FLOW_BITS, LENGTH_BITS, PSN_BITS, News, Paths

__all__ = ["Decided", "Report", "Turn"]


class Turn(data.Struct):
    """A packet, or the start of a flow, as far as it can be told without what came before.

    ``refused``: no packet of this flow, whatever its PSN, with ``reason``. Places in the buffer are
    told by the ``room`` that is left from there to its end: for a RETH ``write_room``, if it is
    ``reachable`` at all. ``number`` counts packets from the flow's first one.
    """

    start: 1
    refused: 1
    reason: 3
    flow: FLOW_BITS
    kind: Kind
    opcode: 8
    psn: PSN_BITS
    number: PSN_BITS
    length: LENGTH_BITS
    immediate: 32
    ack_request: 1
    cycle: CYCLE_BITS
    write_room: BYTES_BITS
    reachable: 1
    bytes: BYTES_BITS
    stride: BYTES_BITS
    multipath: 1
    paths: Paths


class Decided(data.Struct):
    """What becomes of a packet: whether it is written, where, and what it has to tell.

    ``lost``: it should be written, and may not.
    """

    write: 1
    lost: 1
    room: BYTES_BITS
    length: LENGTH_BITS
    news: News


class Report(data.StructLayout):
    """What has come of a flow of multipath.

    All packets up to ``psn`` and the first ``msn`` messages; bit n of ``bitmap`` is set if the
    packet n behind the first missing one has.
    """

    def __init__(self, window):
        super().__init__({"flow": FLOW_BITS, "psn": PSN_BITS, "msn": PSN_BITS, "bitmap": window})
