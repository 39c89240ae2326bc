# SPDX-License-Identifier: Apache-2.0
"""The rules every stream keeps, checked cycle by cycle and beat by beat."""

from .clock import now

__all__ = ["BeatRules", "StallRules"]


class StallRules:
    """While a transfer waits, ``valid`` stays up and the payload holds still."""

    def __init__(self, where):
        self._where = where
        self._held = None

    def sample(self, valid, ready, bits):
        """Look at one cycle; ``bits`` is anything comparable that holds the whole payload."""
        if self._held is not None:
            assert valid, f"{self._where} @ cycle {now()}: valid dropped before the transfer"
            assert bits == self._held, (f"{self._where} @ cycle {now()}: payload changed while "
                                        f"stalled: {_hex(self._held)} -> {_hex(bits)}")
        self._held = bits if valid and not ready else None

    def reset(self):
        """Forget what was waiting."""
        self._held = None


class BeatRules:
    """Bytes stand from lane 0 on without a hole, fill every beat but the last, never none."""

    def __init__(self, where, lanes):
        self._where, self._lanes = where, lanes

    def count(self, keep):
        """How many bytes a ``tkeep`` holds."""
        count = keep.bit_length()
        assert keep == (1 << count) - 1, (f"{self._where} @ cycle {now()}: tkeep {keep:#x} "
                                          f"has a hole")
        return count

    def bytes(self, data, count, last):
        """The bytes of a beat, as ``bytes``."""
        where = f"{self._where} @ cycle {now()}"
        assert count, f"{where}: beat without a byte"
        assert last or count == self._lanes, (f"{where}: {count} of {self._lanes} bytes in a beat "
                                              f"before the last")
        assert not data >> 8 * count, (f"{where}: bytes beyond the {count} valid ones are not "
                                       f"zero: {data >> 8 * count:#x}")
        return data.to_bytes(count, "little")


def _hex(bits):
    parts = bits if isinstance(bits, tuple) else (bits,)
    return " ".join(f"{part:#x}" for part in parts)
