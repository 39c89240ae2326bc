# SPDX-License-Identifier: Apache-2.0
"""All proofs, by block."""

import importlib
import sys
from pathlib import Path

__all__ = ["BLOCKS", "find", "proofs"]

BLOCKS = ("sink", "parser", "classifier", "flow_cam", "payload", "icrc", "admission", "queue",
          "source", "registers", "fp32", "reassembly")


# Specifications read the register description as the benches do.
sys.path.append(str(Path(__file__).resolve().parents[1]))


def proofs():
    for block in BLOCKS:
        yield from importlib.import_module(f"spec_{block}").PROOFS


def find(name):
    return next(proof for proof in proofs() if proof.name == name)
