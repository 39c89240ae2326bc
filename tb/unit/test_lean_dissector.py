# SPDX-License-Identifier: Apache-2.0
"""The Wireshark dissector reads what the codec writes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from test_lean_codec import BARE, FULL, ONE, random_container

from flytrim.lean import container as c
from flytrim.lean.codec import carry, encode

SCRIPT = Path(c.__file__).with_name("lean.lua")
FIELDS = ("flow", "psn", "sequence", "records", "bytes", "crc.good", "full", "source",
          "destination", "hop_limit", "record.opcode", "record.ecn", "record.pad_count",
          "record.solicited", "record.psn", "record.payload", "record.extensions")

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")


@pytest.fixture
def tshark(tmp_path):
    """Runs a capture of frames through tshark; gives a dict of lists of texts a frame."""
    def tshark(frames, *options):
        capture = tmp_path / "lean.pcap"
        wrpcap(str(capture), [Ether(frame) for frame in frames])
        done = subprocess.run(
            ["tshark", "-X", f"lua_script:{SCRIPT}", "-r", capture, *options], text=True,
            capture_output=True, env=os.environ | {"HOME": str(tmp_path)})
        assert done.returncode == 0 and "Lua" not in done.stderr, done.stderr
        return done.stdout

    def fields(frames):
        asked = [word for name in FIELDS for word in ("-e", f"lean.{name}")]
        text = tshark(frames, "-T", "fields", "-E", "aggregator=;", "-E", "separator=|", *asked)
        return [dict(zip(FIELDS, (each.split(";") if each else [] for each in line.split("|")),
                         strict=True)) for line in text.splitlines()]

    fields.text = tshark
    return fields


def expected(sent):
    """What is read of a container, as texts."""
    records = sent.records
    found = {
        "flow": [str(sent.flow)], "psn": [str(sent.psn)], "sequence": [str(sent.sequence)],
        "records": [str(len(records))], "full": [str(int(sent.full))], "crc.good": ["1"],
        "source": [str(sent.route.source)] if sent.route else [],
        "destination": [str(sent.route.destination)] if sent.route else [],
        "hop_limit": [str(sent.route.hop_limit)] if sent.route else [],
        "record.payload": [each.payload.hex() for each in records if each.payload],
        "record.extensions": [each.extensions.hex() for each in records if each.extensions]}
    if sent.full:
        found |= {"record.opcode": [f"0x{each.opcode:02x}" for each in records],
                  "record.ecn": [str(each.ecn) for each in records],
                  "record.pad_count": [str(each.pad_count) for each in records],
                  "record.solicited": [str(each.solicited) for each in records],
                  "record.psn": [str((sent.psn + n) % (1 << 24)) for n in range(len(records))]}
    return found


def test_reads_what_the_codec_writes(tshark, rng):
    sent = [BARE, FULL, ONE, *(random_container(rng, full) for full in (False, True) * 20)]
    frames = [carry(encode(each, minimum=c.MIN_CARRIED), 1, 2) for each in sent]
    for each, got in zip(sent, tshark(frames), strict=True):
        assert {name: got[name] for name in expected(each)} == expected(each)


def test_says_what_is_wrong(tshark):
    good = carry(encode(BARE, minimum=c.MIN_CARRIED), 1, 2)
    harmed = bytearray(good)
    harmed[-7] ^= 0x40
    texts = tshark.text([good, bytes(harmed), good[:20]], "-V").split("\n\n")[:3]
    said = [[problem in text for problem in ("CRC is wrong", "Records do not fit")]
            for text in texts]
    assert said == [[False, False], [True, True], [False, True]]


def test_leaves_other_protocols_alone(tshark):
    other = bytearray(carry(encode(ONE, minimum=c.MIN_CARRIED), 1, 2))
    other[15] ^= 1
    assert tshark([bytes(other)])[0]["flow"] == []
