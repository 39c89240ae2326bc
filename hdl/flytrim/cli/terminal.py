# SPDX-License-Identifier: Apache-2.0
"""What commands say, show and write, and how they refuse."""

import contextlib
import os
import tempfile
import warnings
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from ..errors import InputError

__all__ = ["check_folder", "progress_bar", "refused", "say", "warn", "write"]

#: Captures with fewer frames are done before a progress bar could be read.
PROGRESS_FRAMES = 20_000


def say(sentence):
    click.echo(f"flytrim: {sentence}", err=True)


def warn(sentence):
    click.echo(f"flytrim: warning: {sentence}", err=True)


@contextlib.contextmanager
def progress_bar(count, what="frames", least=PROGRESS_FRAMES):
    """A function that takes the number done of ``count``, or None where nobody would see a bar.

    That is where there is no terminal, or less to do than ``least``.
    """
    console = Console(stderr=True)
    if count < least or not console.is_terminal:
        yield None
        return
    columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), TextColumn(what),
               TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=count)
        yield lambda done: bar.update(task, completed=done)


def check_folder(path):
    """Before the work, not after it."""
    if not Path(path).parent.is_dir():
        raise InputError(f"{path}: its folder does not exist: make it first")


def write(path, text):
    """Put ``text`` at ``path`` at once or not at all."""
    path = Path(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
            part = Path(folder, "text")
            part.write_text(text)
            os.replace(part, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def refused():
    """What cannot be built is a fault of what was asked for."""
    from amaranth.hdl import UnusedElaboratable

    try:
        yield
    except ValueError as error:
        # What was made before the fault was found will not be used.
        warnings.simplefilter("ignore", UnusedElaboratable)
        raise InputError(str(error)) from None
