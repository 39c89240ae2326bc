# SPDX-License-Identifier: Apache-2.0
"""A registered flow as the model sees it."""

import ipaddress
from dataclasses import dataclass

__all__ = ["Flow"]


def _check_range(flow, field, value, bits):
    if not (isinstance(value, int) and 0 <= value < 1 << bits):
        raise ValueError(f"flow {flow!r}: {field} must be 0 to {(1 << bits) - 1:#x}, not {value!r}")


@dataclass(frozen=True)
class Flow:
    """One registered one-way RoCEv2 packet stream.

    Parameters
    ----------
    name : str
        For people.
    src, dst : str or ipaddress.IPv4Address or ipaddress.IPv6Address
        Addresses, both of one kind.
    dqpn : int
        Destination queue pair, 24 bits.
    udp_dport : int
        UDP destination port.
    udp_sport : int or None
        UDP source port, compared only where given.
    vlan : int or None
        VLAN ID of the outermost tag, compared only where given.
    message_bytes : int or None
        Preset length of the payload of an ONLY packet.
    excess : str
        What becomes of an ONLY packet whose payload is longer: ``bypass`` or ``cut``.
    icrc : str
        ``check``, or ``ignore`` to trim packets whose ICRC is wrong, too.
    disabled : bool
        It keeps its number and its key, and its packets pass by as those of no flow.

    Raises ``ValueError`` for a value out of range.
    """

    name: str
    src: object
    dst: object
    dqpn: int
    udp_dport: int = 4791
    udp_sport: int | None = None
    vlan: int | None = None
    message_bytes: int | None = None
    excess: str = "bypass"
    icrc: str = "check"
    disabled: bool = False

    def __post_init__(self):
        for field in ("src", "dst"):
            object.__setattr__(self, field, ipaddress.ip_address(getattr(self, field)))
        if self.src.version != self.dst.version:
            raise ValueError(f"flow {self.name!r}: src and dst must be of one IP version")
        _check_range(self.name, "dqpn", self.dqpn, 24)
        _check_range(self.name, "udp_dport", self.udp_dport, 16)
        for field, bits in (("udp_sport", 16), ("vlan", 12), ("message_bytes", 32)):
            if getattr(self, field) is not None:
                _check_range(self.name, field, getattr(self, field), bits)
        if self.excess not in ("bypass", "cut"):
            raise ValueError(f"flow {self.name!r}: excess must be 'bypass' or 'cut', "
                             f"not {self.excess!r}")
        if self.icrc not in ("check", "ignore"):
            raise ValueError(f"flow {self.name!r}: icrc must be 'check' or 'ignore', "
                             f"not {self.icrc!r}")

    @property
    def key(self):
        """The bytes this flow is found by, in wire order: src, dst, UDP destination port, QPN.

        13 bytes for IPv4 and 37 for IPv6, so that the length tells the IP version.
        """
        return (self.src.packed + self.dst.packed
                + self.udp_dport.to_bytes(2, "big") + self.dqpn.to_bytes(3, "big"))
