# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, and what they take."""

import click

from ..config import MAX_FRAME, SUMS, LeanConfig, NicConfig, SwitchConfig
from .terminal import refused

__all__ = ["FrameRange", "Hexadecimal", "Seconds", "device_config", "device_options",
           "latency_option", "lean_config", "lean_options", "offset_option",
           "switch_config", "switch_options", "tree_options"]


class FrameRange(click.ParamType):
    """``FIRST:COUNT`` or ``COUNT`` as a range of frame numbers."""

    name = "frames"

    def convert(self, value, param, ctx):
        first, _, count = value.rpartition(":")
        try:
            first, count = int(first or 0), int(count)
        except ValueError:
            count = 0
        if count < 1 or first < 0:
            self.fail(f"{value!r} is no range of frames: write FIRST:COUNT, such as 0:200.")
        return range(first, first + count)


class Hexadecimal(click.ParamType):
    """A number of up to 8 hexadecimal digits, and what it is called."""

    def __init__(self, name):
        self.name = name

    def convert(self, value, param, ctx):
        if isinstance(value, int):
            return value
        try:
            number = int(value, 16)
        except ValueError:
            number = -1
        if not 0 <= number < 1 << 32:
            self.fail(f"{value!r} is no {self.name} of up to 8 hexadecimal digits.")
        return number


class Seconds(click.ParamType):
    """A time that a person waits for, in seconds."""

    name = "seconds"

    def convert(self, value, param, ctx):
        try:
            seconds = float(value)
        except ValueError:
            seconds = 0
        if not 0.1 <= seconds <= 86400:
            self.fail(f"{value!r} is no time from 0.1 to 86400 seconds.")
        return seconds


offset_option = click.option("--offset", type=Hexadecimal("offset"), default="0", metavar="HEX",
                             help="Where the registers start in the file.")


#: What devices of either kind may be told.
_commit = click.option("--commit", type=Hexadecimal("hash"), default="0", metavar="HASH",
                       help="First 8 digits of a commit's hash, for software to read; 0 if not "
                            "given.")
_counters = click.option("--counters/--no-counters", default=True, show_default=True,
                         help="Count frames, bytes and latency, for software to read.")
_max_frame = click.option("--max-frame", default=MAX_FRAME, show_default=True,
                          help="Longest frame, in bytes.")


def _with(command, *options):
    for option in options:
        command = option(command)
    return command


def device_options(command):
    """The options that make a NicConfig."""
    return _with(
        command, _commit, _counters,
        click.option("--side-width", default=0, show_default=True,
                     help="Bits of opaque side band."),
        _max_frame,
        click.option("--flows", default=64, show_default=True,
                     help="Entries of the flow table: 1 to 64 in a CAM, or a power of two from 128 "
                          "to 65536, hashed in block RAM."),
        click.option("--width", default=512, show_default=True, help="Bits a beat."))


def device_config(options):
    with refused():
        return NicConfig(**options)


latency_option = click.option("--latency", type=click.IntRange(3, 11), default=8, show_default=True,
                              help="Cycles from operands to sum.")


class _Types(click.ParamType):
    """Names of element types with commas between them."""

    name = "types"

    def convert(self, value, param, ctx):
        from ..fp32.element import ElementType

        if not isinstance(value, str):
            return value
        names = [name.strip() for name in value.split(",")]
        known = [each.name.lower() for each in ElementType]
        for name in names:
            if name not in known:
                self.fail(f"{name!r} is no type: write some of {', '.join(known)}, with commas.")
        return tuple(each for each in ElementType if each.name.lower() in names)


_types = click.option("--types", type=_Types(), default="fp32,int32", show_default=True,
                      help="Elements: some of fp32, int32, bf16, fp16.")
_sum = click.option("--sum", type=click.Choice(SUMS), default="tree", show_default=True,
                    help="How numbers are added: two at a time, or all with one rounding.")
_sum_latency = click.option("--latency", type=int, metavar="N",
                            help="Cycles of a node of the tree, 3 to 11 (8 if not given), or of a "
                                 "fused or exact sum.")


def tree_options(command):
    """The options that make a ReductionTree."""
    return _with(
        command,
        click.option("--half-rate", is_flag=True,
                     help="One lane for each 32 bits: beats of 16-bit types take two cycles."),
        _sum_latency,
        click.option("--taps", default=0, show_default=True,
                     help="Levels below the root with results of their own: 1 for the halves of "
                          "the children, 2 for the quarters, too."),
        _sum, _types,
        click.option("--children", default=8, show_default=True, help="2 to 64."))


def switch_options(command):
    """The options that make a SwitchConfig."""
    return _with(
        command, _commit, _counters, _sum_latency, _sum, _types, _max_frame,
        click.option("--slot-bytes", default=1024, show_default=True,
                     help="Longest payload that is reduced, a power of two."),
        click.option("--window", default=128, show_default=True,
                     help="Packets of the windows of all groups, a power of two."),
        click.option("--groups", default=16, show_default=True,
                     help="Groups at one time, 1 to 64."),
        click.option("--width", default=512, show_default=True, help="Bits a beat of each port."),
        click.option("--ports", default=4, show_default=True, help="2 to 16."))


def switch_config(options):
    types = tuple(each.name.lower() for each in options.pop("types"))
    with refused():
        return SwitchConfig(types=types, **options)


def lean_options(command):
    """The options that make a LeanConfig."""
    return _with(
        command, _commit,
        click.option("--round-trip", default=64, show_default=True,
                     help="Cycles until the far end's credits count a beat, at most."),
        click.option("--container-bytes", type=int, metavar="N",
                     help="Longest container, in bytes; 4096, or 8996 over Ethernet, if not "
                          "given."),
        click.option("--ethernet", is_flag=True,
                     help="Containers in Ethernet frames, not on a link of their own."),
        click.option("--flows", default=64, show_default=True, help="1 to 64."),
        click.option("--width", default=512, show_default=True, help="Bits a beat."))


def lean_config(options):
    with refused():
        return LeanConfig(**options)
