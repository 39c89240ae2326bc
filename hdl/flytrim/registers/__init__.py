# SPDX-License-Identifier: Apache-2.0
"""The register description, ``flytrim.rdl``, and what is made from it."""

import functools
from pathlib import Path

from systemrdl import RDLCompiler

__all__ = ["load"]


@functools.cache
def load(*, counters=True):
    """The compiled description: the top ``AddrmapNode``, of a device with or without counters."""
    compiler = RDLCompiler()
    compiler.compile_file(str(Path(__file__).with_name("flytrim.rdl")))
    return compiler.elaborate(parameters={"COUNTERS": counters}).top
