# SPDX-License-Identifier: Apache-2.0
"""The rules of a switch, one by one, in its reference model; frames come from the Scapy side."""

import struct

import background
import numpy as np
import pytest
import reduced
import softfloat
from roce_packet import RocePacket

from flytrim.model import Child, Flow, Group, GroupRefused, Header, SwitchModel
from flytrim.model.result import result_frame

PORTS, WINDOW, SLOT = 4, 4, 256
STARTS = {0: 100, 1: 0xFFFFFE, 3: 7}
FLOWS = {port: Flow(f"w{port}", f"10.0.0.{port + 1}", "10.0.0.254", 0x11) for port in range(PORTS)}
BLANK = {"dst_mac": 0x020000000001, "src_mac": 0x0200000000FE}


def header(port):
    return Header(**BLANK, src="10.0.0.254", dst=f"10.0.0.{port + 1}", dqpn=0x20 + port,
                  psn=1000 * port, opcode=0x25)


def group(starts=STARTS, window=WINDOW, **changes):
    return Group("g", tuple(Child(FLOWS[port], port, header(port), start)
                            for port, start in starts.items()), window=window, **changes)


def started(window=WINDOW, sum="tree", **changes):
    switch = SwitchModel(PORTS, slot_bytes=SLOT, sum=sum)
    switch.insert_flow(2, 0, FLOWS[2])
    switch.configure([group(window=window, **changes)])
    return switch


def sent(port, offset, payload=b"", *, starts=STARTS, **changes):
    return RocePacket(opcode="UC_SEND_ONLY", payload=payload, src=f"10.0.0.{port + 1}",
                      dst="10.0.0.254", psn=(starts.get(port, 0) + offset) % (1 << 24),
                      **changes).to_bytes()


def words(*values):
    return struct.pack(f"<{len(values)}f", *values)


def give(switch, port, offset, payload=None, **changes):
    return switch.receive(port, sent(port, offset, words(1.0 + port) if payload is None else
                                     payload, **changes))


def give_all(switch, offset, starts=STARTS):
    """A contribution of each member; what leaves."""
    return [left for port in starts for left in give(switch, port, offset, starts=starts)]


def expected(port, offset, payload, **changes):
    """The result's frame, written by the tests' own writer."""
    fields = {"psn": (1000 * port + offset) % (1 << 24), "tos": 2, **changes}
    return port, RocePacket(
        opcode="UC_SEND_ONLY_IMM", payload=payload, src="10.0.0.254", dst=f"10.0.0.{port + 1}",
        dqpn=0x20 + port, src_mac="02:00:00:00:00:fe", dst_mac="02:00:00:00:00:01",
        **fields).to_bytes()


def to_all(offset, payload, **changes):
    return [expected(port, offset, payload, **changes) for port in STARTS]


SUM = words(1.0 + 2.0 + 4.0)


def test_a_result_leaves_to_every_member_once_all_have_contributed():
    switch = started()
    assert give(switch, 0, 0) == give(switch, 3, 0) == []
    assert give(switch, 1, 0) == to_all(0, SUM)
    assert [switch.port_counts[port] for port in range(PORTS)] == [
        {"contributions": 1, "results": 1}] * 2 + [{}] + [{"contributions": 1, "results": 1}]
    assert switch.group_counts[0] == {"results": 1, "flushed": 0}


def test_offsets_are_reduced_whatever_their_order():
    switch = started()
    for offset in (3, 0, 2, 1):
        assert give_all(switch, offset) == to_all(offset, SUM)


def test_a_duplicate_changes_nothing_and_gets_the_result_again_alone():
    switch = started()
    give(switch, 0, 0)
    assert give(switch, 0, 0, words(99.0)) == []
    give(switch, 1, 0)
    assert give(switch, 3, 0) == to_all(0, SUM)
    assert give(switch, 1, 0, words(99.0)) == [expected(1, 0, SUM)]
    assert switch.port_counts[0]["duplicates"] == switch.port_counts[1]["duplicates"] == 1
    assert (switch.port_counts[0]["replays"], switch.port_counts[1]["replays"]) == (0, 1)
    assert switch.group_counts[0]["results"] == 1


def test_a_result_is_kept_until_the_one_two_windows_later():
    switch = started()
    for offset in range(2 * WINDOW):
        give_all(switch, offset)
    assert give(switch, 0, 2 * WINDOW) == []
    assert give(switch, 1, 0) == [expected(1, 0, SUM)]
    # The child's own next turn has begun, which the result outlives.
    assert give(switch, 0, 0) == [expected(0, 0, SUM)]
    assert switch.port_counts[0]["duplicates"] == 1


def test_a_window_ahead_waits_for_the_result_a_window_before():
    switch = started()
    for offset in range(WINDOW):
        assert give(switch, 0, offset) == []
    assert give(switch, 0, WINDOW) == [] and switch.port_counts[0]["out_of_window"] == 1
    give(switch, 1, 0)
    give(switch, 3, 0)
    assert give(switch, 0, WINDOW) == [] and switch.port_counts[0]["contributions"] == WINDOW + 1
    give(switch, 1, WINDOW)
    assert give(switch, 3, WINDOW) == to_all(WINDOW, SUM)


@pytest.mark.parametrize("offset", [2 * WINDOW, 2 * WINDOW + 1, 1 << 20])
def test_two_windows_ahead_are_out_of_window(offset):
    switch = started()
    assert give(switch, 0, offset) == []
    assert switch.port_counts[0] == {"out_of_window": 1}


@pytest.mark.parametrize("offset", [-1, -WINDOW, -5 * WINDOW])
def test_what_was_before_the_start_is_a_duplicate_without_an_answer(offset):
    switch = started()
    assert give(switch, 0, offset) == []
    assert switch.port_counts[0] == {"duplicates": 1}


def test_offsets_go_on_where_psns_and_offsets_wrap():
    switch = started(window=4096)
    turns = (1 << 24) // 8192
    for turn in [*range(turns), 0]:
        for offset in (0, 4096):
            left = give_all(switch, turn * 8192 + offset)
            assert left == to_all(turn * 8192 + offset, SUM), turn
    assert give(switch, 0, 8192 * 2) == [] and switch.port_counts[0]["out_of_window"] == 1


@pytest.mark.parametrize("odd", [words(1.0, 2.0), b"", words(1.0)[:3]])
def test_contributions_of_unequal_length_abort_the_slot_and_may_be_sent_again(odd):
    switch = started()
    give(switch, 0, 0, odd)
    give(switch, 1, 0)
    assert give(switch, 3, 0) == []
    assert switch.group_counts[0] == {"aborted": 1}
    assert give_all(switch, 0) == to_all(0, SUM)
    assert switch.port_counts[0] == {"contributions": 2, "results": 1}


@pytest.mark.parametrize(("dtype", "size"), [("fp32", 6), ("int32", 1), ("bf16", 3), ("fp16", 5)])
def test_no_multiple_of_the_element_aborts_the_slot(dtype, size):
    switch = started(dtype=dtype)
    assert [give(switch, port, 0, bytes(size)) for port in STARTS] == [[]] * 3
    assert switch.group_counts[0] == {"aborted": 1}


def test_a_barrier_is_a_result_of_no_bytes():
    switch = started()
    give(switch, 0, 0, b"")
    give(switch, 1, 0, b"")
    left = give(switch, 3, 0, b"")
    assert left == to_all(0, b"") and all(len(frame) == 62 for _, frame in left)


def test_a_payload_longer_than_a_slot_is_out_of_bounds():
    switch = started()
    assert give(switch, 0, 0, bytes(SLOT + 4)) == []
    assert switch.port_counts[0] == {"bounds": 1}
    assert give_all(switch, 0) == to_all(0, SUM)


def test_a_flush_sends_the_result_without_those_who_are_missing():
    switch = started()
    with pytest.raises(GroupRefused, match="bad_offset"):
        switch.flush(0, 1)
    give(switch, 0, 1)
    assert switch.unfinished(0) == {1: [1, 3]}
    assert switch.flush(0, 1) == to_all(1, words(1.0), immediate=0b1010)
    assert switch.unfinished(0) == {}
    # Whoever comes late gets that result.
    assert give(switch, 3, 1) == [expected(3, 1, words(1.0), immediate=0b1010)]
    assert switch.group_counts[0] == {"results": 1, "flushed": 1}
    for offset in (1, 0):
        with pytest.raises(GroupRefused, match="bad_offset"):
            switch.flush(0, offset)
    assert give_all(switch, 1 + WINDOW) == to_all(1 + WINDOW, SUM)


def test_a_group_that_is_stopped_drops_and_starts_anew_with_clear_slots():
    switch = started()
    give(switch, 0, 0)
    with pytest.raises(GroupRefused, match="running"):
        switch.start_group(0, group())
    switch.stop_group(0)
    assert give(switch, 1, 0) == [] and switch.port_counts[1] == {"stopped": 1}
    for command in (switch.stop_group, lambda group: switch.flush(group, 0)):
        with pytest.raises(GroupRefused, match="stopped"):
            command(0)
    with pytest.raises(GroupRefused, match="bad_group"):
        switch.stop_group(16)
    later = {port: psn + 5000 for port, psn in STARTS.items()}
    later[1] %= 1 << 24
    switch.start_group(0, group(later))
    assert give(switch, 1, 0, starts=later) == give(switch, 3, 0, starts=later) == []
    assert give(switch, 0, 0, starts=later) == to_all(0, SUM)


def test_a_port_that_is_no_member_changes_nothing():
    switch = started()
    assert give(switch, 2, 0) == [] and switch.port_counts[2] == {"stopped": 1}


@pytest.mark.parametrize("fault", [{"icrc": b"nope"}, {"udp_length": 1}, {"dqpn": 0x12},
                                   {"ip_checksum": 1}])
def test_a_damaged_or_foreign_packet_never_contributes(fault):
    switch = started()
    assert give(switch, 0, 0, **fault) == []
    assert switch.port_counts[0]["contributions"] == 0
    assert switch.receive(0, sent(0, 0, words(1.0)), mac_error=True) == []
    assert give_all(switch, 0) == to_all(0, SUM)


def test_what_is_not_trimmed_leaves_by_the_port_map():
    switch = started()
    frame = background.tcp()
    assert switch.receive(0, frame) == []
    switch.forward({0: 3})
    assert switch.receive(0, frame) == [(3, frame)]
    switch.forward({})
    assert switch.receive(0, frame) == [] and switch.port_counts[0] == {"not_udp": 3}


def test_congestion_that_one_has_met_shows_in_the_result():
    switch = started()
    give(switch, 0, 0, tos=3)
    give(switch, 1, 0, tos=2)
    assert give(switch, 3, 0) == to_all(0, SUM, tos=3)
    assert give(switch, 0, 0) == [expected(0, 0, SUM, tos=3)]
    assert give_all(switch, 1) == to_all(1, SUM)
    # Of a duplicate it does not.
    give(switch, 0, 2)
    give(switch, 0, 2, tos=3)
    give(switch, 1, 2)
    assert give(switch, 3, 2) == to_all(2, SUM)


V6 = {"src": "fd00::fe", "dst": "fd00::1"}
HEADS = {
    "vlan": ({"vlan": 0x123, "pcp": 5}, {"vlans": ((0x8100, 0xA123),)}),
    "ipv6": ({**V6, "flow_label": 0xABCDE, "ttl": 3, "dscp": 46},
             {**V6, "flow_label": 0xABCDE, "ttl": 3, "tos": 46 << 2 | 2}),
    "fields": ({"udp_sport": 1234, "udp_dport": 4792, "pkey": 0x8001, "ttl": 1, "ecn": 0,
                "dscp": 1},
               {"udp_sport": 1234, "udp_dport": 4792, "pkey": 0x8001, "ttl": 1, "tos": 4}),
}


@pytest.mark.parametrize("changes, fields", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("opcode, name", [
    (0x24, "UC_SEND_ONLY"), (0x25, "UC_SEND_ONLY_IMM"), (0x2A, "UC_WRITE_ONLY"),
    (0x2B, "UC_WRITE_ONLY_IMM"), (0x04, "RC_SEND_ONLY"), (0x05, "RC_SEND_ONLY_IMM"),
    (0x0A, "RC_WRITE_ONLY"), (0x0B, "RC_WRITE_ONLY_IMM"), (0x64, "UD_SEND_ONLY"),
    (0x65, "UD_SEND_ONLY_IMM")])
@pytest.mark.parametrize("size", [0, 2, 4, 250])
def test_every_header_of_a_result_comes_from_its_template(opcode, name, changes, fields, size):
    made = Header(**{**BLANK, "src": "10.0.0.254", "dst": "10.0.0.1", "dqpn": 0x77,
                     "psn": 0xFFFFFF, "opcode": opcode, "va": (1 << 64) - 256, "rkey": 0xCAFEF00D,
                     "qkey": 0x12345678, "src_qp": 0x12, **changes})
    payload = bytes(range(size))
    frame = result_frame(made, payload, 3, stride=256, missing=0x8001)
    assert frame == RocePacket(**{
        "opcode": name, "payload": payload, "src": "10.0.0.254", "dst": "10.0.0.1", "dqpn": 0x77,
        "psn": 2, "tos": 2, "address": 512, "rkey": 0xCAFEF00D, "qkey": 0x12345678, "src_qp": 0x12,
        "dma_length": size, "immediate": 0x8001, "src_mac": "02:00:00:00:00:fe",
        "dst_mac": "02:00:00:00:00:01", **fields}).to_bytes()


OPERATIONS = {("sum", "propagate"): 0, ("min", "propagate"): 4, ("max", "propagate"): 5,
              ("min", "ignore"): 6, ("max", "ignore"): 7}


@pytest.mark.parametrize("dtype", ["fp32", "int32", "bf16", "fp16"])
@pytest.mark.parametrize(("operation", "nan"), OPERATIONS)
def test_elements_are_what_softfloat_makes_of_them(operation, nan, dtype, rng):
    count = 4000 if dtype in ("fp32", "int32") else 1000
    draw = np.random.default_rng(rng.getrandbits(32))
    kind = np.uint32 if dtype in ("fp32", "int32") else np.uint16
    x = draw.integers(0, 1 << 32, (3, count), np.uint64).astype(kind)
    near = x & kind(0x807FFFFF if kind is np.uint32 else 0x80FF)
    x = np.where(draw.random((3, count)) < 0.5, near | kind(0x3F000000 if kind is np.uint32 else
                                                            0x3F00), x)
    x[:, :50] = 0x80000000 if kind is np.uint32 else 0x8000
    # A slot's worth at a time.
    per, found = SLOT // x.itemsize, []
    switch = started(op=operation, nan=nan, dtype=dtype)
    for offset, at in enumerate(range(0, count, per)):
        for row, port in enumerate(STARTS):
            left = give(switch, port, offset, x[row, at:at + per].tobytes())
        frame = dict(left)[0]
        size = x[0, at:at + per].nbytes
        found.append(frame[58:58 + size])
    op, integer = np.full(count, OPERATIONS[operation, nan]), np.full(count, dtype == "int32")
    name = {"fp16": "f16", "bf16": "bf16"}.get(dtype)
    wide = [softfloat.widen(row, name)[0] if kind is np.uint16 else row for row in x]
    absent = reduced.identity(op, integer)
    z, _ = reduced.tree([wide[0], wide[1], absent, wide[2]], op, integer)
    if kind is np.uint16:
        z, _ = softfloat.narrow(z, name)
    np.testing.assert_array_equal(np.frombuffer(b"".join(found), kind), z.astype(kind))


@pytest.mark.parametrize("sum", ["fused", "exact"])
def test_a_sum_with_one_rounding_keeps_what_cancels(sum):
    switch = started(sum=sum)
    for port, value in ((0, 1e8), (1, -1e8)):
        give(switch, port, 0, words(value))
    assert give(switch, 3, 0, words(0.25)) == to_all(0, words(0.25))


def test_arrival_order_does_not_matter(rng):
    payloads = {port: words(*(rng.gauss(0, 1) for _ in range(60))) for port in STARTS}

    def result(order):
        switch = started()
        for port in order:
            left = give(switch, port, 0, payloads[port])
        return left

    first = result([0, 1, 3])
    assert first and all(result(order) == first for order in ([3, 1, 0], [1, 0, 3], [3, 0, 1]))
