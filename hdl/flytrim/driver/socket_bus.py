# SPDX-License-Identifier: Apache-2.0
"""The way to the registers of a running simulation: a Unix-domain stream socket.

``flytrim sim --registers PATH`` serves it while its frames enter. A client sends requests of 12
bytes and gets an answer of 8 bytes to each, in order; all is little-endian:

    request   kind u8 (1 write, 2 read), zero u8[3], address u32, data u32 (zero in a read)
    answer    response u8, zero u8[3], data u32 (what was read, or written)

The response is that of AXI4-Lite: 0 OKAY, 2 SLVERR, 3 DECERR for an address beyond the register
port's; or 255 where the device did not answer. The connection of a client that sends anything
else is closed. All connections are closed when the simulation is over.
"""

import contextlib
import os
import socket
import struct

from ..errors import InputError
from .bus import BusClosed, BusError

__all__ = ["SocketBus"]

_WRITE, _READ = 1, 2
_request = struct.Struct("<BxxxII").pack
_answer = struct.Struct("<BxxxI")
_RESPONSES = {2: "SLVERR", 3: "DECERR", 255: "no answer"}


class SocketBus:
    """Registers of a running simulation; a context manager that ends the connection.

    Parameters
    ----------
    path : path
        Of the socket.
    timeout : float
        Seconds after which an access is given up, and the connection with it.

    Raises ``InputError`` where no simulation serves the path. An access after the end of the
    simulation raises :class:`BusClosed`.
    """

    def __init__(self, path, *, timeout=60):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(os.fspath(path))
        except OSError as error:
            self.close()
            raise InputError(f"{path}: no simulation answers there: {error.strerror or error}; "
                             f"flytrim sim --registers does so while its frames enter; where "
                             f"none runs, the file is left over and may be removed") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._socket.close()

    def read(self, address):
        return self._access(_READ, address, 0, f"read of {address:#05x}")

    def write(self, address, value):
        self._access(_WRITE, address, value, f"write of {value:#x} to {address:#05x}")

    def _access(self, kind, address, value, what):
        if self._socket.fileno() < 0:
            raise BusClosed("the connection is closed")
        try:
            # Where the other end has gone there is no answer, which says so.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._socket.sendall(_request(kind, address, value))
            answer = self._socket.recv(_answer.size)    # sent in one piece, so it comes in one
        except TimeoutError:
            self.close()
            raise BusError(f"{what}: no answer in time") from None
        except OSError:
            answer = b""
        if len(answer) < _answer.size:
            raise BusClosed("the simulation is over")
        response, data = _answer.unpack(answer)
        if response:
            raise BusError(f"{what}: {_RESPONSES.get(response, hex(response))}")
        return data
