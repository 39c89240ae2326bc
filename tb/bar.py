# SPDX-License-Identifier: Apache-2.0
"""A file that holds what the registers of a device read, as a BAR would."""

import struct

from flytrim import __version__
from flytrim.config import NicConfig
from flytrim.driver import Registers
from flytrim.registers import load_switch

__all__ = ["CONFIG", "OFFSET", "VERSION", "told", "told_of_switch", "write_bar",
           "write_switch_bar"]

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
    path.write_bytes(b"\xa5" * OFFSET + _page(Registers(), told(config)))
    return path


def told_of_switch(config):
    """What the page of a switch tells, by register, with the places of types and of the sum."""
    return {
        "id": {"magic": int.from_bytes(b"FLYS", "big")},
        "capability": {"width": config.width, "ports": config.ports, "groups": config.groups},
        "slots": {"window": config.window, "bytes": config.slot_bytes},
        "version": VERSION,
        "build": {"commit": config.commit},
        "arithmetic": {
            "types": sum(1 << ("fp32", "int32", "bf16", "fp16").index(name)
                         for name in config.types),
            "sum": ("tree", "fused", "exact").index(config.sum)},
        "features": {"counters": int(config.counters)},
    }


def write_switch_bar(path, config):
    """The same of a switch: a page for each port, and its own."""
    registers = Registers(load_switch(ports=config.ports, groups=config.groups))
    path.write_bytes(b"\xa5" * OFFSET + _page(Registers(), told(config.port)) * config.ports
                     + _page(registers, told_of_switch(config)))
    return path


def _page(registers, told):
    words = bytearray(4096)
    for name, fields in told.items():
        struct.pack_into("<I", words, registers.address(name), registers.pack(name, **fields))
    return words
