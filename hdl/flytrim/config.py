# SPDX-License-Identifier: Apache-2.0
"""The frozen configurations of generated devices: what can be chosen, checked once."""

from dataclasses import dataclass

<<<<<<< HEAD
from .lean.container import (
    CARRIAGE,
    ETHERNET_BYTES,
    LINK_BYTES,
    MAX_FLOWS,
    MAX_PAYLOAD,
    MAX_PREFIX,
    ROUTE,
    TAG,
    TRAILER,
    WORD,
)

=======
>>>>>>> main
__all__ = ["CAM_FLOWS", "MAX_FRAME", "MAX_PORTS", "MIN_MAX_FRAME", "SUMS", "TYPES", "WIDTHS",
           "NicConfig", "SwitchConfig"]

#: Widths of the data path in bits. Nothing else in the design knows which one it is.
WIDTHS = (64, 128, 256, 512, 1024)
#: Longest frame in bytes, without FCS, that a device can be built for.
MAX_FRAME = 9216
#: Most flows of a table that compares all of them at once; larger ones are hashed.
CAM_FLOWS = 64
#: Shortest ``max_frame``: a full-size frame of standard Ethernet.
MIN_MAX_FRAME = 1514
#: Most ports of a switch.
MAX_PORTS = 16
#: Types of elements, as :class:`flytrim.fp32.element.ElementType` names them.
TYPES = ("fp32", "int32", "bf16", "fp16")
#: Ways to add numbers.
SUMS = ("tree", "fused", "exact")


@dataclass(frozen=True, kw_only=True)
class NicConfig:
    """Choices of a ``TrimNic``.

    Parameters
    ----------
    width : int
        Bits a beat; one of :data:`WIDTHS`.
    flows : int
        Entries of the flow table: 1 to 64 in a CAM, or a power of two from 128 to 65,536 hashed in
        block RAM.
    max_frame : int
        Longest frame in bytes, without FCS; a longer one is cut there and dropped.
    side_width : int
        Bits of opaque side band carried beside each frame, 0 to 256.
    counters : bool
        Count frames and bytes, by reason and by flow, and measure latency.
    commit : int
        What the register ``build`` tells: 32 bits of the commit that the design is made from.
    """

    width: int = 512
    flows: int = 64
    max_frame: int = MAX_FRAME
    side_width: int = 0
    counters: bool = True
    commit: int = 0

    def __post_init__(self):
        if self.width not in WIDTHS:
            raise ValueError(f"width must be one of {', '.join(map(str, WIDTHS))} bits, "
                             f"not {self.width!r}")
        if self.flows not in (*range(1, CAM_FLOWS + 1), *(1 << n for n in range(7, 17))):
            raise ValueError(f"flows must be 1 to {CAM_FLOWS}, or a power of two from 128 to "
                             f"65536, not {self.flows!r}")
        if not (isinstance(self.max_frame, int)
                and MIN_MAX_FRAME <= self.max_frame <= MAX_FRAME):
            raise ValueError(f"max_frame must be {MIN_MAX_FRAME} to {MAX_FRAME} bytes, "
                             f"not {self.max_frame!r}")
        if not (isinstance(self.side_width, int) and 0 <= self.side_width <= 256):
            raise ValueError(f"side_width must be 0 to 256 bits, not {self.side_width!r}")
        if not (isinstance(self.commit, int) and 0 <= self.commit < 1 << 32):
            raise ValueError(f"commit must have 32 bits at most, not be {self.commit!r}")

    @property
    def hashed(self):
        """Whether the flow table is hashed."""
        return self.flows > CAM_FLOWS

    @property
    def lanes(self):
        """Bytes a beat."""
        return self.width // 8

    @property
    def max_beats(self):
        """Beats of the longest frame."""
        return -(-self.max_frame // self.lanes)

    @property
    def queue_beats(self):
        """Depth of an output queue, a power of two: room for a longest frame beside another one.

        And for some beats on their way: else a longest frame that is taken back at its end leaves
        the next one no room, although nothing waits.
        """
        return 1 << (2 * self.max_beats + 7).bit_length()

    @property
    def queue_records(self):
        """Depth of the queue of metadata records."""
        return min(self.queue_beats, 512)


@dataclass(frozen=True, kw_only=True)
class SwitchConfig:
    """Choices of a ``TrimSwitch``.

    Parameters
    ----------
    ports : int
        Ports, 2 to 16.
    width : int
        Bits a beat of each port; one of :data:`WIDTHS`.
    groups : int
        Groups at one time, 1 to 64; also the entries of each port's flow table, as flow n of a port
        is that port's child of group n.
    window : int
        Packets that one child of all groups together may be ahead, 2 to 4,096, a power of two.
        A port has slots for twice as many.
    slot_bytes : int
        Longest payload that is reduced, 64 to 8,192 bytes, a power of two, a beat at least.
    max_frame : int
        Longest frame in bytes, without FCS.
    types : tuple of str
        What elements may be; some of :data:`TYPES`.
    sum : str
        How numbers are added, one of :data:`SUMS`: two at a time, or all with one rounding.
    latency : int or None
        Cycles of a node of the tree, 3 to 11, or of a fused or exact sum; None is what suits most.
    counters : bool
        Count frames, contributions and results, and measure latency.
    commit : int
        What the registers ``build`` tell: 32 bits of the commit that the design is made from.
    """

    ports: int = 4
    width: int = 512
    groups: int = 16
    window: int = 128
    slot_bytes: int = 1024
    max_frame: int = MAX_FRAME
    types: tuple = ("fp32", "int32")
    sum: str = "tree"
    latency: int | None = None
    counters: bool = True
    commit: int = 0

    def __post_init__(self):
        if self.ports not in range(2, MAX_PORTS + 1):
            raise ValueError(f"ports must be 2 to {MAX_PORTS}, not {self.ports!r}")
        if self.groups not in range(1, CAM_FLOWS + 1):
            raise ValueError(f"groups must be 1 to {CAM_FLOWS}, not {self.groups!r}")
        # What a port has by itself is checked there.
        port = self.port
        if self.window not in (1 << n for n in range(1, 13)):
            raise ValueError(f"window must be a power of two from 2 to 4096 packets, "
                             f"not {self.window!r}")
        if self.slot_bytes not in (1 << n for n in range(6, 14)):
            raise ValueError(f"slot_bytes must be a power of two from 64 to 8192 bytes, "
                             f"not {self.slot_bytes!r}")
        if self.slot_bytes < port.lanes:
            raise ValueError(f"slot_bytes must be a beat of {port.lanes} bytes at least, "
                             f"not {self.slot_bytes!r}")
        if not (isinstance(self.types, tuple) and self.types and set(self.types) <= set(TYPES)
                and len(set(self.types)) == len(self.types)):
            raise ValueError(f"types must be some of {', '.join(TYPES)}, each once, "
                             f"not {self.types!r}")
        if self.sum not in SUMS:
            raise ValueError(f"sum must be one of {', '.join(SUMS)}, not {self.sum!r}")
        if not (self.latency is None or isinstance(self.latency, int) and self.latency > 0):
            raise ValueError(f"latency must be a number of cycles, not {self.latency!r}")

    @property
    def port(self):
        """The :class:`NicConfig` of each port."""
        return NicConfig(width=self.width, flows=self.groups, max_frame=self.max_frame,
                         counters=self.counters, commit=self.commit)

    @property
    def lanes(self):
        """Bytes a beat."""
        return self.port.lanes

    @property
    def slots(self):
        """Slots of a port: two windows."""
        return 2 * self.window

    @property
    def slot_beats(self):
        """Beats of a slot."""
        return self.slot_bytes // self.lanes
<<<<<<< HEAD


@dataclass(frozen=True, kw_only=True)
class LeanConfig:
    """Choices of the two ends of a lean link.

    Parameters
    ----------
    width : int
        Bits a beat; one of :data:`WIDTHS`.
    flows : int
        Flows with a context, 1 to 64.
    ethernet : bool
        Whether containers travel in Ethernet frames, or as packets of a link of their own.
    container_bytes : int or None
        What a container takes no record beyond, 64 bytes at least and whole words; None is the most
        there can be.
    round_trip : int
        Cycles, at most, from when a beat leaves until the far end's answer counts it, 8 to 1,024;
        for links of their own.
    commit : int
        What the register ``build`` tells: 32 bits of the commit that the link is made from.
    """

    width: int = 512
    flows: int = MAX_FLOWS
    ethernet: bool = False
    container_bytes: int | None = None
    round_trip: int = 64
    commit: int = 0

    def __post_init__(self):
        if self.width not in WIDTHS:
            raise ValueError(f"width must be one of {', '.join(map(str, WIDTHS))} bits, "
                             f"not {self.width!r}")
        if self.flows not in range(1, MAX_FLOWS + 1):
            raise ValueError(f"flows must be 1 to {MAX_FLOWS}, not {self.flows!r}")
        most = ETHERNET_BYTES if self.ethernet else LINK_BYTES
        if self.container_bytes is None:
            object.__setattr__(self, "container_bytes", most)
        if self.container_bytes not in range(64, most + 1, WORD):
            raise ValueError(f"container_bytes must be 64 to {most}, in steps of {WORD}, "
                             f"not {self.container_bytes!r}")
        if self.round_trip not in range(8, 1025):
            raise ValueError(f"round_trip must be 8 to 1024 cycles, not {self.round_trip!r}")

    @property
    def lanes(self):
        """Bytes a beat."""
        return self.width // 8

    @property
    def words(self):
        """Words of four bytes a beat."""
        return self.lanes // WORD

    @property
    def max_beats(self):
        """Beats of the longest container with what carries it: one record may be longer."""
        around = TAG.size + ROUTE.size + TRAILER.size
        longest = max(self.container_bytes, around + MAX_PREFIX + MAX_PAYLOAD)
        return -(-(longest + CARRIAGE.size * self.ethernet) // self.lanes)
=======
>>>>>>> main
