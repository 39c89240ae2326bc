# SPDX-License-Identifier: Apache-2.0
"""Payloads of several children to the payload of their result, element by element."""

import functools
import struct

from . import arithmetic

__all__ = ["ELEMENT_BYTES", "reduce_payloads"]

#: Bytes of an element by the name of its type.
ELEMENT_BYTES = {"fp32": 4, "int32": 4, "bf16": 2, "fp16": 2}
_NARROW = {"bf16": arithmetic.BF16, "fp16": arithmetic.FP16}
#: By operation, and by what becomes of NaN.
_EXTREMES = {("min", "propagate"): arithmetic.minimum, ("max", "propagate"): arithmetic.maximum,
             ("min", "ignore"): arithmetic.minimum_number,
             ("max", "ignore"): arithmetic.maximum_number}
_INTEGERS = {"sum": arithmetic.int32_add, "min": arithmetic.int32_min, "max": arithmetic.int32_max}
_SUMS = {"tree": arithmetic.tree_sum, "fused": arithmetic.fused_sum,
         "exact": arithmetic.exact_sum}


def reduce_payloads(payloads, op, dtype, nan="propagate", sum="tree"):
    """The result's payload.

    Parameters
    ----------
    payloads : list of bytes or None
        Of all ports, in their order; None is absent. Those that are there have one length, a
        multiple of the element's.
    op, dtype, nan : str
        As in a :class:`flytrim.model.Group`.
    sum : str
        How numbers are added: ``tree``, ``fused`` or ``exact``.
    """
    size = ELEMENT_BYTES[dtype]
    count = len(next(each for each in payloads if each is not None)) // size
    form = f"<{count}{'I' if size == 4 else 'H'}"
    present = 0
    for port, each in enumerate(payloads):
        present |= (each is not None) << port
    columns = [struct.unpack(form, each) if each is not None else (0,) * count
               for each in payloads]
    element = _element(op, dtype, nan, sum, present)
    return struct.pack(form, *map(element, *columns))


@functools.lru_cache(64)
def _element(op, dtype, nan, sum, present):
    """A function of the elements of all ports."""
    if dtype == "int32":
        whole = functools.partial(arithmetic.reduce, _INTEGERS[op])
    elif op == "sum":
        whole = _SUMS[sum]
    else:
        whole = functools.partial(arithmetic.reduce, _EXTREMES[op, nan])
    if not (form := _NARROW.get(dtype)):
        return lambda *elements: whole(elements, present)[0]
    return lambda *elements: arithmetic.narrow(
        form, whole([arithmetic.widen(form, each)[0] for each in elements], present)[0])[0]
