# SPDX-License-Identifier: Apache-2.0
"""What a switch's slots cost and sustain, by hand and as the command tells it."""

import json

import pytest

from flytrim.config import SwitchConfig
from flytrim.sizing import BRAM36, EBR18, PARTS, URAM288, Memory, memories, rate

LINK = {"clock_mhz": 250, "link_gbps": 100, "rtt_us": 10, "straggle_us": 0}


@pytest.mark.parametrize(("kind", "bits", "rows", "blocks"), [
    (BRAM36, 72, 512, 1), (BRAM36, 73, 512, 2), (BRAM36, 72, 513, 2), (BRAM36, 36, 1024, 1),
    (BRAM36, 576, 4096, 64), (BRAM36, 9, 4096, 1), (BRAM36, 9, 4097, 2),
    (URAM288, 576, 4096, 8), (URAM288, 72, 4097, 2), (URAM288, 9, 16, 1),
    (EBR18, 72, 512, 2), (EBR18, 18, 1024, 1), (EBR18, 9, 2048, 1),
])
def test_blocks_are_counted_in_their_best_shape(kind, bits, rows, blocks):
    assert kind.needed(bits, rows) == blocks


def test_memories_hold_two_windows_of_each_child_and_of_results():
    config = SwitchConfig(ports=5, width=64, window=8, slot_bytes=256)
    # 16 slots of 32 beats, each of two words with a parity bit each; two pairs and a single port.
    assert memories(config) == (Memory("payload", 5, 66, 512), Memory("results", 2, 66, 512))
    assert [each.total_bits for each in memories(config)] == [5 * 33792, 2 * 33792]


def test_a_memory_goes_whole_where_there_is_room_for_it():
    wanted = [Memory("a", 20, 576, 65536)]      # 128 URAM288 or 1,024 BRAM36 each
    assert PARTS["u50"].placed(wanted) == {"URAM288": (640, 640), "BRAM36": (15360, 1344)}
    assert PARTS["u50"].placed([Memory("a", 6, 576, 65536)]) == {
        "URAM288": (640, 640), "BRAM36": (1024, 1344)}
    assert PARTS["ecp5-85"].placed([Memory("a", 2, 72, 512)]) == {"EBR18": (4, 208)}


@pytest.mark.parametrize(("device", "link", "line", "sustained", "enough"), [
    ({}, {}, 100, 100, 128),                                    # 122 packets of 1 KiB, as designed
    ({"window": 64}, {}, 100, 64 * 1024 * 8 / 10e3, 128),
    ({"window": 64}, {"straggle_us": 10}, 100, 64 * 1024 * 8 / 20e3, 256),
    ({"width": 64}, {}, 16, 16, 32),                            # the clock, not the link
    ({"slot_bytes": 64}, {"rtt_us": 0.512}, 100, 100, 128),     # 100 packets
    ({"window": 2}, {"rtt_us": 0.08192}, 100, 100, 1),          # one
])
def test_the_rate_is_the_window_over_the_time_it_takes(device, link, line, sustained, enough):
    found = rate(SwitchConfig(**device), **LINK | link)
    assert (found.line, found.enough) == (line, enough)
    assert found.sustained == pytest.approx(sustained)


def test_groups_share_the_window_in_powers_of_two():
    found = rate(SwitchConfig(groups=9), **LINK)
    assert found.share == 8 and found.shared == pytest.approx(8 * 8.192 / 10)
    assert rate(SwitchConfig(groups=1), **LINK).share == 128
    assert rate(SwitchConfig(groups=64, window=32), **LINK).shared is None


def test_the_command_prints_memory_and_rate(flytrim):
    status, out, err = flytrim("size", "--ports", "8", "--window", "64")
    assert (status, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["slots", "memories", "bits", "a", "row", "rows", "kbit", "BRAM36", "URAM288"],
        ["payload", "8", "528", "2,048", "8,651", "240", "64"],
        ["results", "4", "528", "2,048", "4,325", "120", "32"],
        ["all", "12,976", "360", "96"], [],
        ["a", "child's", "payload", "Gb/s"], ["line", "rate", "100.0"],
        ["sustained,", "one", "group", "52.4"],
        ["sustained,", "each", "of", "all", "groups,", "4", "packets", "3.3"], [],
        ["--window", "128", "would", "sustain", "the", "line", "rate."]]


def test_the_command_tells_programs(flytrim):
    status, out, err = flytrim("size", "--json", "--part", "u280")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["memory"]["payload"] == {
        "memories": 4, "bits": 8650752, "URAM288": 32, "BRAM36": 236}
    assert found["gbps"] == {"line": 100, "sustained": 100, "shared": pytest.approx(6.5536)}
    assert found["part"] == {"name": "u280", "fits": True, "used": {"URAM288": 48, "BRAM36": 0}}


def test_the_command_says_when_a_part_is_too_small(flytrim):
    status, out, err = flytrim("size", "--part", "ecp5-85")
    assert (status, err) == (1, (
        "flytrim: ecp5-85 is too small: the slots take 708 EBR18 of 208; take a smaller --window "
        "or --slot-bytes, fewer --ports, or another --part\n"))
    status, out, err = flytrim("size", "--part", "ecp5-85", "--json")
    assert status == 1 and not json.loads(out)["part"]["fits"]
    status, out, err = flytrim("size", "--part", "u50")
    assert status == 0 and out.endswith("They fit u50: 48 URAM288 of 640, 0 BRAM36 of 1,344.\n")


@pytest.mark.parametrize(("options", "fault"), [
    (("--ports", "1"), "ports must be 2 to 16, not 1"),
    (("--window", "100"), "window must be a power of two from 2 to 4096 packets, not 100"),
    (("--rtt-us", "0"), ("Invalid value for '--rtt-us': 0.0 is not in the range x>0. Try 'flytrim "
                         "size --help'.")),
    (("--part", "u55"), ("Invalid value for '--part': 'u55' is not one of 'u50', 'u250', 'u280', "
                         "'ecp5-85'. Try 'flytrim size --help'.")),
])
def test_the_command_refuses_what_cannot_be(flytrim, options, fault):
    assert flytrim("size", *options) == (2, "", f"flytrim: {fault}\n")


def test_the_command_knows_every_part(flytrim):
    for part in PARTS:
        assert flytrim("size", "--ports", "2", "--width", "64", "--slot-bytes", "64", "--part",
                       part)[0] == 0
