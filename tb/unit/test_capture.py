# SPDX-License-Identifier: Apache-2.0
"""Captures: pcap and pcapng, cut off, damaged, and none at all."""

import struct

import pytest

from flytrim.errors import InputError
from flytrim.sim.capture import Capture, Writer

ETHERNET, RAW = 1, 101
FRAMES = [bytes([n]) * (60 + n) for n in range(5)]


def pcap(frames, *, link=ETHERNET, nano=False, order="<", snap=0):
    """A pcap file; ``snap`` bytes of each frame are missing, frame n has time stamp n s + n ns."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    file = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262144, link)
    for n, frame in enumerate(frames):
        file += struct.pack(f"{order}IIII", n, n, len(frame), len(frame) + snap) + frame
    return file


def pcapng(frames, *, link=ETHERNET):
    """A pcapng file with one section and one interface."""
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
    file = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    file += block(1, struct.pack("<HHI", link, 0, 0))
    for frame in frames:
        file += block(6, struct.pack("<IIIII", 0, 0, 0, len(frame), len(frame)) + frame)
    return file


@pytest.fixture
def scan(tmp_path):
    def scan(content):
        path = tmp_path / "capture.pcap"
        path.write_bytes(content)
        return Capture.scan(str(path))
    return scan


def fault(scan, content):
    with pytest.raises(InputError) as caught:
        scan(content)
    assert "\n" not in str(caught.value)
    file, _, rest = str(caught.value).partition("capture.pcap: ")
    assert rest, f"{caught.value} does not name the file"
    return rest


@pytest.mark.parametrize("content", [
    pcap(FRAMES), pcap(FRAMES, nano=True), pcap(FRAMES, order=">"), pcapng(FRAMES),
], ids=["pcap", "nanoseconds", "big-endian", "pcapng"])
def test_reads_every_frame_in_order_as_often_as_asked(scan, content):
    capture = scan(content)
    assert capture.frames == len(FRAMES)
    for _ in range(2):
        assert [data for _, data in capture] == FRAMES
    assert list(capture.warnings) == []


@pytest.mark.parametrize("missing", [1, 63, 64, 70, 79], ids=lambda n: f"{n} bytes missing")
def test_runs_the_whole_frames_of_a_cut_off_pcap_with_one_warning(scan, missing):
    capture = scan(pcap(FRAMES)[:-missing])
    assert [data for _, data in capture] == FRAMES[:-1]
    [warning] = capture.warnings
    assert warning.endswith("capture.pcap: ends inside a record; its 4 whole frames are run")


def test_runs_the_whole_frames_of_a_cut_off_pcapng(scan):
    capture = scan(pcapng(FRAMES)[:-9])
    assert [data for _, data in capture] == FRAMES[:-1]
    assert capture.cut_off


def test_says_that_frames_were_shortened_when_captured(scan):
    capture = scan(pcap(FRAMES, snap=1000))
    assert [data for _, data in capture] == FRAMES
    [warning] = capture.warnings
    assert "5 of 5 frames were shortened when captured" in warning


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is no readable capture: truncated dump file"),
    (b"no capture at all", "is no readable capture: unknown file format"),
    (pcap([]), "holds no whole frame: give a capture with at least one"),
    (pcap(FRAMES[:1])[:-1], "holds no whole frame: give a capture with at least one"),
    (pcap(FRAMES, link=RAW), "link type is RAW: give a capture of Ethernet frames"),
    (pcap([*FRAMES, b""]), "frame 5 has no bytes: remove it from the capture"),
    (pcap([FRAMES[0], bytes(9217)]),
     "frame 1 has 9217 bytes and the device takes 9216: remove it, or capture with segmentation"),
], ids=["empty", "text", "no frame", "no whole frame", "not Ethernet", "empty frame", "too long"])
def test_refuses_with_file_frame_and_remedy(scan, content, message):
    assert fault(scan, content).startswith(message)


def test_takes_the_longest_frame(scan):
    assert scan(pcap([bytes(9216)])).frames == 1


def test_refuses_a_record_whose_length_cannot_be(scan):
    damaged = bytearray(pcap(FRAMES))
    struct.pack_into("<I", damaged, 24 + 16 + len(FRAMES[0]) + 8, 0x7FFFFFFF)
    assert fault(scan, bytes(damaged)).startswith("frame 1: ")


def test_refuses_a_file_that_is_not_there_and_a_folder(tmp_path):
    for path in (tmp_path / "none.pcap", tmp_path):
        with pytest.raises(InputError, match=f"{path}: is no readable capture: "):
            Capture.scan(str(path))


@pytest.mark.parametrize("nano", [False, True], ids=["microseconds", "nanoseconds"])
def test_writes_frames_with_the_time_they_were_captured_at(scan, tmp_path, nano):
    records = [FRAMES[n] for n in range(3)]
    content = bytearray(pcap(records, nano=nano))
    # A time that a float of seconds cannot hold to the nanosecond.
    fraction = 123_456_789 if nano else 123_456
    struct.pack_into("<II", content, 24, 1_700_000_000, fraction)
    path = tmp_path / "out.pcap"
    writer = Writer(str(path))
    for header, data in scan(bytes(content)):
        writer.write(header, data)
    writer.close()
    written = path.read_bytes()
    assert written[:4] == struct.pack("<I", 0xA1B23C4D), "not a pcap file in nanoseconds"
    seconds, nanoseconds, size, length = struct.unpack_from("<IIII", written, 24)
    assert (seconds, nanoseconds) == (1_700_000_000, fraction if nano else 1000 * fraction)
    assert size == length == len(FRAMES[0])
    assert [data for _, data in Capture.scan(str(path))] == records
