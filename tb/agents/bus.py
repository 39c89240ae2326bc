# SPDX-License-Identifier: Apache-2.0
"""The driver's way to a simulated device."""

from cocotb.task import bridge, resume

from flytrim.driver import BusError

__all__ = ["drive"]


class _Bus:
    def __init__(self, read, write, error):
        self._read, self._write, self._error = resume(read), resume(write), error

    def read(self, address):
        return self._answered(self._read, address)

    def write(self, address, value):
        self._answered(self._write, address, value)

    def _answered(self, access, *arguments):
        try:
            return access(*arguments)
        except self._error as error:
            raise BusError(str(error)) from None


async def drive(function, *, read, write, error=()):
    """What ``function`` returns, which takes a bus and knows nothing of simulations.

    It runs on a thread of its own; simulated time goes on only while an access does.

    Parameters
    ----------
    read, write : coroutine functions
        Of an AXI4-Lite master: they take an address, and an address and a word.
    error : type or tuple of types
        What they raise for an access that is not answered with OKAY.
    """
    return await bridge(function)(_Bus(read, write, error))
