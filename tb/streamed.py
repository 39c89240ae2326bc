# SPDX-License-Identifier: Apache-2.0
"""A component as a compiled model that takes arrays, a row a cycle, thousands in one call."""

import ctypes
from pathlib import Path

import numpy as np
from amaranth import Value
from amaranth.back import verilog
from amaranth.lib.wiring import In
from arith import call, compiled

__all__ = ["Streamed"]

_TOP = "streamed"
_HERE = Path(__file__).parent
_RESET_CYCLES = 8


class Streamed:
    """A compiled model of a component with clock and reset, in reset when made.

    Its ports are shown as rows of 32-bit words, the lowest first, as many as the port needs. Bits
    of a row above those of an input are ignored.
    """

    def __init__(self, component):
        self._in, self._out, self._highest = {}, {}, {}
        for name, member in component.signature.members.items():
            ports = self._in if member.flow is In else self._out
            start = max((end for _, end in ports.values()), default=0)
            width = len(Value.cast(getattr(component, name)))
            ports[name] = start, start + -(-width // 32)
            self._highest[name] = np.uint32((1 << (width - 1) % 32 + 1) - 1)
        lines = []
        for what, ports in (("IN", self._in), ("OUT", self._out)):
            each = " ".join(f"{what}({name}, {start})" for name, (start, _) in ports.items())
            lines += [f"#define PORTS_{what} {each}\n", f"#define WORDS_{what} {_words(ports)}\n"]
        text = verilog.convert(component, name=_TOP, emit_src=False, strip_internal_attrs=True)
        path = compiled(_TOP, text, {
            "ports.h": "".join(lines), f"{_TOP}.cpp": (_HERE / f"{_TOP}.cpp").read_text()})
        self._library = ctypes.CDLL(path)
        self._library.create.restype = ctypes.c_void_p
        self._model = ctypes.c_void_p(self._library.create())
        self.reset(_RESET_CYCLES)

    def reset(self, cycles=1):
        """Hold it in reset, its inputs as they are."""
        call(self._library.reset, cycles, self._model)

    def __call__(self, **inputs):
        """{output: rows} of the cycles in which the inputs are these rows, all of them named."""
        assert inputs.keys() == self._in.keys(), f"inputs are {list(self._in)}"
        count = len(next(iter(inputs.values())))
        rows = np.zeros((count, _words(self._in)), np.uint32)
        for name, (start, end) in self._in.items():
            rows[:, start:end] = np.asarray(inputs[name]).reshape(count, end - start)
            rows[:, end - 1] &= self._highest[name]
        out = np.zeros((count, _words(self._out)), np.uint32)
        call(self._library.run, count, self._model, rows, out)
        return {name: out[:, start:end] for name, (start, end) in self._out.items()}


def _words(ports):
    return max(end for _, end in ports.values())
