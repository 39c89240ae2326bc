# SPDX-License-Identifier: Apache-2.0
"""Berkeley SoftFloat on arrays: the oracle of all arithmetic.

The library inside ``softfloatpy`` is called directly, a hundred times faster than through its
classes. It is built with the NaNs of RISC-V, where each that comes out is the canonical one. Flags
are, from bit 4: invalid, division by zero, overflow, underflow, inexact.
"""

import ctypes
import functools
from pathlib import Path

import numpy as np
import softfloatpy
from arith import built, call

__all__ = ["add", "extreme", "narrow", "widen"]


@functools.cache
def _softfloat():
    library = ctypes.CDLL(softfloatpy._core.__file__)
    # Nearest, ties to even; tiny is what is so after rounding.
    ctypes.c_uint8.in_dll(library, "softfloat_roundingMode").value = 0
    ctypes.c_uint8.in_dll(library, "softfloat_detectTininess").value = 1
    return library


@functools.cache
def _loops():
    source = (Path(__file__).parent / "softfloat.cpp").read_text()
    return ctypes.CDLL(built("libsoftfloat.so", [
        ["g++", "-O2", "-shared", "-fPIC", "-o", "libsoftfloat.so", "softfloat.cpp"],
    ], {"softfloat.cpp": source}))


def _call(loop, name, result, *operands):
    z, flags = np.empty(len(operands[0]), result), np.empty(len(operands[0]), np.uint8)
    function = ctypes.cast(getattr(_softfloat(), name), ctypes.c_void_p)
    raised = ctypes.c_uint8.in_dll(_softfloat(), "softfloat_exceptionFlags")
    loop = getattr(_loops(), loop)
    call(loop, len(z), function, ctypes.byref(raised), *operands, z, flags)
    return z, flags


def add(a, b, name="f32"):
    """(a + b, flags) of binary32, or of binary16 as ``f16``; arrays of uint32."""
    z, flags = _call("each_pair", f"{name}_add", np.uint32, np.asarray(a, np.uint32),
                     np.asarray(b, np.uint32))
    # What C returns has bits of no meaning above those of its type.
    return z & np.uint32((1 << int(name[1:])) - 1), flags


def extreme(a, b, greater, number):
    """(smaller or greater one, flags); where ``number`` is set, a NaN loses against a number.

    SoftFloat tells which one is less, and which are NaN; the order of zeros is told here.
    """
    a, b = np.asarray(a, np.uint32), np.asarray(b, np.uint32)
    # A C bool: bits above the lowest eight mean nothing.
    less, flags = _call("each_pair", "f32_lt_quiet", np.uint32, a, b)
    nan_a, nan_b = (_call("each_pair", "f32_eq", np.uint32, x, x)[0] & 0xFF == 0 for x in (a, b))
    zeros = (a | b) << np.uint32(1) == 0
    takes_a = np.where(zeros, a > b, less & 0xFF != 0) != greater
    takes_a = np.where(number & (nan_a | nan_b), nan_b, takes_a)
    nan = np.where(number, nan_a & nan_b, nan_a | nan_b)
    return np.where(nan, 0x7FC00000, np.where(takes_a, a, b)).astype(np.uint32), flags


def widen(a, name):
    """(value as binary32, flags) of numbers of the format ``f16`` or ``bf16``."""
    return _call("each_16_to_32", f"{name}_to_f32", np.uint32, np.asarray(a, np.uint16))


def narrow(a, name):
    """(value rounded to the format ``f16`` or ``bf16``, flags) of binary32."""
    return _call("each_32_to_16", f"f32_to_{name}", np.uint16, np.asarray(a, np.uint32))
