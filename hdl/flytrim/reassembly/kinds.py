# SPDX-License-Identifier: Apache-2.0
"""What an opcode says about the place of its packet."""

from amaranth import Cat
from amaranth.lib import data

from ..headers import OPCODES, RETH, Place

__all__ = ["FAMILIES", "Kind", "kind_of"]

#: Packets of one message are of one of these.
FAMILIES = ("RC_SEND", "RC_WRITE", "RC_READ", "UC_SEND", "UC_WRITE", "UD_SEND")


class Kind(data.Struct):
    """What the opcode of a packet with payload says.

    It ``starts`` or ``ends`` a message, or both; it has a RETH; a gap before it is repaired by its
    sender, as of RC; it is a READ response, or a part of a WRITE. ``family`` is one-hot.
    """

    starts: 1
    ends: 1
    reth: 1
    reliable: 1
    response: 1
    write: 1
    family: len(FAMILIES)


def kind_of(opcode):
    """The bits of a :class:`Kind`, in order; combinational."""
    def those(condition):
        return opcode.matches(*(code for code, each in OPCODES.items()
                                if each.payload and condition(each)))

    return Cat(
        those(lambda each: each.place in (Place.FIRST, Place.ONLY)),
        those(lambda each: each.place in (Place.LAST, Place.ONLY)),
        those(lambda each: RETH in each.extensions),
        those(lambda each: each.name.startswith("RC")),
        those(lambda each: "READ" in each.name),
        those(lambda each: "WRITE" in each.name),
        *(those(lambda each, family=family: each.name.startswith(family))
          for family in FAMILIES))
