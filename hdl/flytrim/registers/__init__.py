# SPDX-License-Identifier: Apache-2.0
"""The register descriptions, ``flytrim.rdl`` and its like, and what is made from them."""

import functools
from pathlib import Path

from systemrdl import RDLCompiler

__all__ = ["load", "load_lean", "load_switch", "switch_rows"]


@functools.cache
def load(*, counters=True):
    """The description of a TrimNic or a switch's port, with or without counters: its top node."""
    return _compiled("flytrim", COUNTERS=counters)


@functools.cache
def load_switch(*, ports=16, groups=64, counters=True):
    """The description of a switch's own registers."""
    return _compiled("switch", PORTS=ports, PORT_ROWS=switch_rows(ports),
                     GROUP_ROWS=switch_rows(groups), COUNTERS=counters)


@functools.cache
def load_lean():
    """The description of a lean link's registers."""
    return _compiled("lean")


def switch_rows(count):
    """Rows of counters that so many ports or groups have: a power of two."""
    return 1 << max(1, (count - 1).bit_length())


def _compiled(name, **parameters):
    compiler = RDLCompiler()
    compiler.compile_file(str(Path(__file__).with_name(f"{name}.rdl")))
    return compiler.elaborate(parameters=parameters).top
