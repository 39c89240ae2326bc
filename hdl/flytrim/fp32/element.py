# SPDX-License-Identifier: Apache-2.0
"""Types of the elements that are reduced."""

from amaranth.lib import enum

from .number import BF16, FP16

__all__ = ["ElementType"]


class ElementType(enum.Enum, shape=2):
    """How the bits of a beat are read. The numbers of 16 bits are reduced in binary32."""

    FP32 = 0
    #: Sums wrap around; minimum and maximum are of two's complement.
    INT32 = 1
    BF16 = 2
    FP16 = 3

    @property
    def narrow(self):
        """The format of 16 bits that this is, or None."""
        return {ElementType.BF16: BF16, ElementType.FP16: FP16}.get(self)
