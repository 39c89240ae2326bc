# SPDX-License-Identifier: Apache-2.0
"""A simulation that runs for as long as a test wants it to, with its registers at a socket."""

import contextlib
import threading
from itertools import chain, repeat

from flytrim.sim.register_socket import RegisterSocket
from flytrim.sim.replay import Kind, Replay

__all__ = ["running"]

#: Frames that enter over and over.
FRAMES = [bytes(range(size)) for size in (60, 61, 64, 65, 200)]


@contextlib.contextmanager
def running(program, path, *, before=None, faults=()):
    """Runs ``program`` until the end of the block, and serves its registers at ``path``.

    ``before`` is called when clients can connect and no frame has entered, so nobody is answered.
    Then frames enter back to back the whole time, which is checked; and that the harness finds no
    fault but ``faults``, sentences.
    """
    begun, over, found = threading.Event(), threading.Event(), []

    def frames():
        try:
            if before:
                before()
        finally:
            begun.set()
        for frame in chain.from_iterable(repeat(FRAMES)):
            if over.is_set():
                return
            yield frame, False

    def listen():
        found.extend(event.body.decode() for event in replay.events()
                     if event.kind in (Kind.VIOLATION, Kind.HANG))

    with RegisterSocket(path) as registers, Replay(program, registers=registers) as replay:
        replay.reset()
        replay.feed(frames())
        listener = threading.Thread(target=listen)
        listener.start()
        try:
            begun.wait()
            yield
        finally:
            over.set()
            listener.join()
    totals = replay.totals
    assert (totals.frames, totals.stalls) == (totals.verdicts, 0)
    assert totals.beats == totals.last_beat - totals.first_beat + 1
    assert found == [*faults]
