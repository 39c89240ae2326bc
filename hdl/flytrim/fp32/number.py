# SPDX-License-Identifier: Apache-2.0
"""Binary interchange formats of IEEE 754-2019, section 3.4."""

import dataclasses

from amaranth.lib import data

__all__ = ["BF16", "FP16", "FP32", "Format"]


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of one sign bit, an exponent and a fraction.

    Attributes
    ----------
    exponent_bits, fraction_bits : int
        Widths of the fields; the leading bit of the significand is not stored.
    """

    exponent_bits: int
    fraction_bits: int

    def __post_init__(self):
        if self.exponent_bits < 2 or self.fraction_bits < 2:
            raise ValueError(f"a format has 2 bits of exponent and of fraction or more, not "
                             f"{self.exponent_bits} and {self.fraction_bits}")

    @property
    def width(self):
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def significand_bits(self):
        """Precision: the fraction and the leading bit."""
        return self.fraction_bits + 1

    @property
    def bias(self):
        return (1 << self.exponent_bits - 1) - 1

    @property
    def special(self):
        """The exponent field of infinities and NaNs."""
        return (1 << self.exponent_bits) - 1

    @property
    def layout(self):
        return data.StructLayout({
            "fraction": self.fraction_bits, "exponent": self.exponent_bits, "sign": 1})

    @property
    def nan(self):
        """The canonical quiet NaN."""
        return self.special << self.fraction_bits | 1 << self.fraction_bits - 1

    @property
    def infinity(self):
        """Plus infinity."""
        return self.special << self.fraction_bits


FP32 = Format(8, 23)
FP16 = Format(5, 10)
BF16 = Format(8, 7)
