# SPDX-License-Identifier: Apache-2.0
"""What is at a path: a file that is memory, or the socket of a running simulation."""

import contextlib
import os
import stat

from .bus import MappedPages, ShiftedBus
from .page import DeviceError
from .socket_bus import SocketBus

__all__ = ["opened"]


@contextlib.contextmanager
def opened(kind, path, offset):
    """What ``kind`` makes of the bus that is at a path, from ``offset`` on; a context manager.

    A fault names the path.
    """
    is_socket = _is_socket(path)
    with SocketBus(path) if is_socket else MappedPages(path, offset=offset) as bus:
        try:
            device = kind(ShiftedBus(bus, offset) if is_socket else bus)
        except DeviceError as error:
            raise type(error)(f"{path}: {error}") from None
        yield device


def _is_socket(path):
    with contextlib.suppress(OSError):
        return stat.S_ISSOCK(os.stat(path).st_mode)
    return False
