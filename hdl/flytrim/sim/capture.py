# SPDX-License-Identifier: Apache-2.0
"""Captures in and out, through libpcap: pcap and pcapng, Ethernet only."""

from dataclasses import dataclass

import cypcap

from ..config import MAX_FRAME
from ..errors import InputError

__all__ = ["Capture", "Writer"]

_NANO = cypcap.TstampPrecision.NANO
_SNAPSHOT_BYTES = 262144


@dataclass(frozen=True)
class Capture:
    """A capture that has been read through once and found usable.

    ``frames`` counts the whole frames, ``cut_off`` tells that the file ends inside a record, and
    ``shortened`` counts frames that the capture holds only the first part of.
    """

    path: str
    frames: int
    cut_off: bool
    shortened: int

    @classmethod
    def scan(cls, path):
        """Read through the file at ``path``. Raises :class:`InputError` for what cannot be run."""
        frames = shortened = 0
        cut_off = False
        with _open(path) as source:
            try:
                for header, data in source:
                    _check(path, frames, data)
                    frames += 1
                    shortened += header.caplen < header.len
            except cypcap.Error as error:
                if "truncated" not in str(error):
                    raise InputError(f"{path}: frame {frames}: {error.args[-1]}; the capture is "
                                     f"damaged there") from None
                cut_off = True
        if not frames:
            raise InputError(f"{path}: holds no whole frame: give a capture with at least one")
        return cls(path, frames, cut_off, shortened)

    def __iter__(self):
        """(record header, bytes) of each whole frame, in order; a new pass over the file."""
        with _open(self.path) as source:
            # Counted, not read to the end: the end may be half a record, or have grown.
            for _, record in zip(range(self.frames), source, strict=False):
                yield record

    @property
    def warnings(self):
        """Sentences about what is missing in the capture."""
        if self.cut_off:
            yield f"{self.path}: ends inside a record; its {self.frames} whole frames are run"
        if self.shortened:
            yield (f"{self.path}: {self.shortened} of {self.frames} frames were shortened when "
                   f"captured; they are run as they are")


class Writer:
    """Writes frames to a pcap file with nanosecond time stamps."""

    def __init__(self, path):
        self._dead = cypcap.open_dead(cypcap.DatalinkType.EN10MB, _SNAPSHOT_BYTES, _NANO)
        self._file = self._dead.dump_open(path)

    def write(self, header, data):
        """One frame under the record header it was read with: that keeps its time stamp exact."""
        self._file.dump(header, data)

    def close(self):
        self._file.close()
        self._dead.close()


def _open(path):
    try:
        source = cypcap.open_offline(path, precision=_NANO)
    except cypcap.Error as error:
        text = error.args[-1].removeprefix(f"{path}: ")
        raise InputError(f"{path}: is no readable capture: {text}; give a pcap or pcapng file"
                         ) from None
    link = source.datalink()
    if link != cypcap.DatalinkType.EN10MB:
        source.close()
        name = getattr(link, "name", link)
        raise InputError(f"{path}: link type is {name}: give a capture of Ethernet frames")
    return source


def _check(path, index, data):
    if not data:
        raise InputError(f"{path}: frame {index} has no bytes: remove it from the capture")
    if len(data) > MAX_FRAME:
        raise InputError(f"{path}: frame {index} has {len(data)} bytes and the device takes "
                         f"{MAX_FRAME}: remove it, or capture with segmentation offload off")
