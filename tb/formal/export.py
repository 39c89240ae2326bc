# SPDX-License-Identifier: Apache-2.0
"""Writes the RTLIL of one proof; a process of its own, so that it may load a faulty package."""

import re
import sys
from pathlib import Path

from amaranth.back import rtlil
from catalogue import find


def named(text):
    """The properties' cells under the properties' names, which the solver's log then shows.

    A prefix keeps them apart from the signals.
    """
    seen = set()

    def name(match):
        message = match[2]
        assert message not in seen, f"two properties named {message}"
        seen.add(message)
        return f"cell $check \\is_{message}{match[1]}\\FORMAT \"{message}\""

    return re.sub(r'cell \$check \S+(\s+parameter )\\FORMAT "(\w+)"', name, text)


def main(proof, part, path):
    spec = find(proof).spec()
    spec.inductive = part == "inductive"
    text = rtlil.convert(spec, platform="formal", name="spec", ports=[])
    Path(path).write_text(named(text), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
