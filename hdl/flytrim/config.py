# SPDX-License-Identifier: Apache-2.0
"""The frozen configuration of a generated device: what can be chosen, checked once."""

from dataclasses import dataclass

__all__ = ["CAM_FLOWS", "MAX_FRAME", "MIN_MAX_FRAME", "WIDTHS", "NicConfig"]

#: Widths of the data path in bits. Nothing else in the design knows which one it is.
WIDTHS = (64, 128, 256, 512, 1024)
#: Longest frame in bytes, without FCS, that a device can be built for.
MAX_FRAME = 9216
#: Most flows of a table that compares all of them at once; larger ones are hashed.
CAM_FLOWS = 64
#: Shortest ``max_frame``: a full-size frame of standard Ethernet.
MIN_MAX_FRAME = 1514


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
