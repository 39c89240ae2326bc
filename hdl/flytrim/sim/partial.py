# SPDX-License-Identifier: Apache-2.0
"""Where results stand that are not whole yet."""

import contextlib
import tempfile
from pathlib import Path

from ..errors import InputError

__all__ = ["partial_folder"]


@contextlib.contextmanager
def partial_folder(out):
    """A folder in ``out``, which is made where it is missing; a context manager of its path.

    It is removed in the end, and so is ``out`` where it was made for it and holds nothing. Raises
    :class:`~flytrim.errors.InputError` for what cannot be written there.
    """
    out = Path(out)
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=out) as folder:
            yield Path(folder)
    except OSError as error:
        raise InputError(f"{out}: cannot write the results there: {error.strerror}; choose another "
                         f"--out folder") from None
    finally:
        if made:
            with contextlib.suppress(OSError):
                out.rmdir()
