# SPDX-License-Identifier: Apache-2.0
"""Errors that a user reads."""

__all__ = ["InputError"]


class InputError(Exception):
    """Something a user gave, or a tool of the machine, cannot be worked with.

    The message is one line that names what, where and the remedy; commands end with status 2.
    """
