# SPDX-License-Identifier: Apache-2.0
"""A file that holds what the registers of a device read, as a BAR would."""

import struct

from flytrim import __version__
from flytrim.config import NicConfig
from flytrim.driver import Registers

__all__ = ["CONFIG", "OFFSET", "VERSION", "write_bar"]

CONFIG = NicConfig(width=64, commit=0x89ABCDEF)
VERSION = dict(zip(("major", "minor", "patch"), map(int, __version__.split(".")), strict=True))
#: Where the registers start in the file: a page is before them.
OFFSET = 4096


def write_bar(path):
    """Write the file of a device of this configuration; gives its path."""
    registers, words = Registers(), bytearray(4096)
    for name, fields in (
            ("id", {}), ("capability", {"width": CONFIG.width, "flows": CONFIG.flows}),
            ("max_frame", {"bytes": CONFIG.max_frame}), ("version", VERSION),
            ("build", {"commit": CONFIG.commit})):
        struct.pack_into("<I", words, registers.address(name), registers.pack(name, **fields))
    path.write_bytes(b"\xa5" * OFFSET + words)
    return path
