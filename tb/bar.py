# SPDX-License-Identifier: Apache-2.0
"""A file that holds what the registers of a device read, as a BAR would."""

import struct

from flytrim import __version__
from flytrim.config import NicConfig
from flytrim.driver import Registers

__all__ = ["CONFIG", "OFFSET", "VERSION", "told", "write_bar"]

CONFIG = NicConfig(width=64, commit=0x89ABCDEF)
VERSION = dict(zip(("major", "minor", "patch"), map(int, __version__.split(".")), strict=True))
#: Where the registers start in the file: a page is before them.
OFFSET = 4096


def told(config):
    """What a device without flows and traffic tells by itself, by register: all that is not 0."""
    depths = {"trim": config.queue_beats, "bypass": config.queue_beats,
              "meta": config.queue_records}
    return {
        "id": {"magic": int.from_bytes(b"FLYT", "big")},
        "capability": {"width": config.width, "flows": config.flows},
        "max_frame": {"bytes": config.max_frame},
        "version": VERSION,
        "build": {"commit": config.commit},
        "features": {"counters": int(config.counters)},
        "counters.latency_minimum": {"cycles": (1 << 24) - 1},
        **{f"counters.high_water_{queue}": {"most": 0, "depth_log2": depth.bit_length() - 1}
           for queue, depth in depths.items()},
    }


def write_bar(path, config=CONFIG):
    """Write the file of a device of this configuration; gives its path."""
    registers, words = Registers(), bytearray(4096)
    for name, fields in told(config).items():
        struct.pack_into("<I", words, registers.address(name), registers.pack(name, **fields))
    path.write_bytes(b"\xa5" * OFFSET + words)
    return path
