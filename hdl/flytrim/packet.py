# SPDX-License-Identifier: Apache-2.0
"""The one beat shape of the data path, and its byte-order helpers.

Lane 0 holds the first byte on the wire: byte 0 of a frame is ``data[7:0]`` of its first beat. A
multi-byte network field therefore stands byte-reversed in a beat; :func:`take` reads one.
"""

from amaranth import Cat, Const, unsigned
from amaranth.lib import data

__all__ = ["Packet", "reverse_bytes", "side_member", "take", "thermometer"]


def side_member(side_width):
    """The side band as a member of a struct: none where there is none."""
    return {"side": unsigned(side_width)} if side_width else {}


class Packet(data.StructLayout):
    """One beat of a frame or payload.

    Parameters
    ----------
    width : int
        Bits a beat.
    side_width : int
        Bits of opaque side band, meaningful on a frame's first beat.

    Members
    -------
    data : ``width`` bits; bytes at and beyond ``count`` are zero
    count : valid bytes, from lane 0; ``width // 8`` on every beat but the last, never 0
    last : this beat ends the frame
    error : the frame is damaged; meaningful on its last beat
    side : the side band; absent where its width is 0
    """

    def __init__(self, width, side_width=0):
        self.width = width
        self.lanes = width // 8
        super().__init__({
            "data": unsigned(width),
            "count": range(self.lanes + 1),
            "last": 1,
            "error": 1,
            **side_member(side_width),
        })


def reverse_bytes(value):
    """The bytes of ``value`` in opposite order, as a Value; a whole number of bytes."""
    assert len(value) % 8 == 0, f"{len(value)} bits are not whole bytes"
    return Cat(value[bit:bit + 8] for bit in reversed(range(0, len(value), 8)))


def take(raw, field, *, base=0):
    """The big-endian ``field`` out of ``raw``, wire bytes with the first one in bits 7:0.

    Parameters
    ----------
    raw : Value
        Wire bytes.
    field : flytrim.headers.Field
        Which bits, counted from the first bit on the wire.
    base : int
        Offset in bytes of the header within ``raw``.
    """
    first, end = field.bit // 8, -(-(field.bit + field.width) // 8)
    whole = reverse_bytes(raw[8 * (base + first):8 * (base + end)])
    low = 8 * end - (field.bit + field.width)
    return whole[low:low + field.width]


def thermometer(count, lanes, part=slice(None)):
    """Of ``lanes`` bits, the lowest ``count`` of them set, a part; ``lanes`` is a power of two.

    Written out, since synthesis would make a chain of carries for each comparison.
    """
    bits = (lanes - 1).bit_length()
    return Cat(count[bits:].any() | _exceeds(count[:bits], lane) for lane in range(lanes)[part])


def _exceeds(value, constant):
    """``value > constant`` from the most significant bit on."""
    if not len(value):
        return Const(0, 1)
    top, rest = value[-1], _exceeds(value[:-1], constant & (1 << len(value) - 1) - 1)
    return top & rest if constant >> len(value) - 1 & 1 else top | rest
