# SPDX-License-Identifier: Apache-2.0
"""The place where a simulation serves its registers while it runs."""

import contextlib
import errno
import os
import socket

from ..errors import InputError

__all__ = ["RegisterSocket"]


class RegisterSocket:
    """A Unix-domain stream socket at a path, for whom :class:`flytrim.driver.SocketBus` stands.

    A context manager; the path is removed at its end. A :class:`flytrim.sim.replay.Replay` that is
    given one hands it to its program, which alone accepts and answers.

    Parameters
    ----------
    path : path
        Where nothing is yet.

    Raises ``InputError`` where there can be no socket.
    """

    def __init__(self, path):
        self._path = os.fspath(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        try:
            # An empty name would be one that no client can find.
            self._socket.bind(self._path or ".")
        except OSError as error:
            self._socket.close()
            remedy = ("remove what is there if no simulation uses it, or give another path"
                      if error.errno == errno.EADDRINUSE else
                      "give a short path in a folder that is there")
            raise InputError(f"{path}: cannot serve registers there: {error.strerror or error}; "
                             f"{remedy}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def fileno(self):
        """For the program that is to serve."""
        return self._socket.fileno()

    def listen(self):
        """Let clients connect; from here on the program alone has the socket."""
        self._socket.listen()
        self._socket.close()
