# SPDX-License-Identifier: Apache-2.0
"""What the control plane stores for a group of flows that are reduced together."""

from amaranth.lib import data

__all__ = ["Template"]


class Template(data.Struct):
    """The headers of what is sent to one child. Numbers are integers: 0x0200_0000_0001 is the MAC
    02:00:00:00:00:01; IPv4 addresses stand in the low 32 bits, the rest zero.

    ``tci`` counts where ``tagged``. ``psn`` and ``va`` are those of the first packet. ``rkey`` is
    the Q_Key of a UD opcode, ``src_qp`` counts for these alone.
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
    psn: 24
    va: 64
    rkey: 32
    src_qp: 24
