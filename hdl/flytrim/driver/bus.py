# SPDX-License-Identifier: Apache-2.0
"""Ways to the registers of a device: what a bus is, a part of one, and a file that is memory."""

import contextlib
import ctypes
import mmap
import os
from typing import Protocol

from ..errors import InputError

__all__ = ["PAGE_BYTES", "Bus", "BusClosed", "BusError", "MappedFile", "MappedPages",
           "ShiftedBus"]

#: Bytes of a page of registers.
PAGE_BYTES = 4096


class BusError(Exception):
    """An access that was not answered, or not with OKAY."""


class BusClosed(BusError):
    """An access to what is no more, such as a simulation that is over."""


class Bus(Protocol):
    """Accesses of 32 bits at byte addresses that are multiples of 4, each done when it returns.

    Anything with these two methods is a bus: :class:`MappedFile`,
    :class:`flytrim.driver.SocketBus`, :class:`flytrim.sim.replay.Replay`, or an AXI4-Lite master of
    a test bench. Both raise :class:`BusError`.
    """

    def read(self, address: int) -> int: ...

    def write(self, address: int, value: int) -> None: ...


class MappedFile:
    """Registers in a file that is mapped into memory; a context manager that unmaps it.

    That is a BAR of a PCI Express device (``/sys/bus/pci/devices/<address>/resource0``) or a UIO
    device (``/dev/uio0``). What the device answers beside its data is not seen on this way.

    Parameters
    ----------
    path : path
    offset : int
        Of the registers from the start of the file, a multiple of the page size.
    size : int
        Bytes to map.

    Raises ``InputError`` where that cannot be done.
    """

    def __init__(self, path, *, offset=0, size=PAGE_BYTES):
        if offset % mmap.ALLOCATIONGRANULARITY:
            raise InputError(f"{path}: cannot be mapped from {offset:#x}: the offset must be a "
                             f"multiple of {mmap.ALLOCATIONGRANULARITY:#x}")
        try:
            file = os.open(path, os.O_RDWR | os.O_SYNC)
            try:
                self._map = mmap.mmap(file, size, offset=offset)
            finally:
                os.close(file)
        except OSError as error:
            raise InputError(f"{path}: cannot be opened as a device: {error.strerror}; give a BAR "
                             f"or UIO file that may be read and written, or the socket of a "
                             f"simulation that runs") from None
        except ValueError as error:
            raise InputError(f"{path}: cannot be mapped: {error}; {size:,} bytes from {offset:#x} "
                             f"are wanted") from None
        self._words = (ctypes.c_uint32 * (size // 4)).from_buffer(self._map)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._words = None
        # The array that is gone may still be held by whoever was interrupted in an access.
        with contextlib.suppress(BufferError):
            self._map.close()

    def read(self, address):
        return self._words[self._index(address)]

    def write(self, address, value):
        self._words[self._index(address)] = value

    def _index(self, address):
        if address % 4 or not 0 <= address < 4 * len(self._words):
            raise BusError(f"{address:#x} is no word of the {4 * len(self._words):,} bytes that "
                           f"are mapped")
        return address // 4


class MappedPages:
    """The same of as many pages as are asked for: of a switch, whose ports tell how many it has.

    Mapped anew where one is beyond. A page that is not there raises :class:`BusError`, but the
    first, which raises ``InputError``.
    """

    def __init__(self, path, *, offset=0):
        self._path, self._offset = path, offset
        self._mapped, self._pages = MappedFile(path, offset=offset), 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._mapped.close()

    def read(self, address):
        self._reach(address)
        return self._mapped.read(address)

    def write(self, address, value):
        self._reach(address)
        self._mapped.write(address, value)

    def _reach(self, address):
        pages = address // PAGE_BYTES + 1
        if pages <= self._pages:
            return
        # In one piece from the start: to a UIO device an offset means another map.
        try:
            more = MappedFile(self._path, offset=self._offset, size=pages * PAGE_BYTES)
        except InputError:
            raise BusError(f"{address:#x} is beyond the {self._pages * PAGE_BYTES:,} bytes that "
                           f"can be mapped") from None
        self._mapped.close()
        self._mapped, self._pages = more, pages


class ShiftedBus:
    """The part of a bus that starts at an address: of a port of a switch, for instance.

    Parameters
    ----------
    bus : Bus
    offset : int
        What is added to each address.
    """

    def __init__(self, bus, offset):
        self._bus, self._offset = bus, offset

    def read(self, address):
        return self._bus.read(self._offset + address)

    def write(self, address, value):
        self._bus.write(self._offset + address, value)
