# SPDX-License-Identifier: Apache-2.0
"""The flows of a capture: found, told, and written as a file that loads."""

from collections import Counter

import frames
import pytest

from flytrim import flows
from flytrim.discover import find_flows, flows_toml
from flytrim.model import NicModel
from flytrim.verdict import Verdict


def packets(count=1, *, size=4, opcode="RC_SEND_ONLY", **fields):
    return [frames.roce_frame(opcode, bytes(size), psn=psn, **fields) for psn in range(count)]


def _is_whole_stranger(frame):
    """A runt that has everything but the Ethernet pad: a flow like any other."""
    return find_flows([frame]) and len(frame) < 60


@pytest.fixture
def load(tmp_path):
    def load(text):
        path = tmp_path / "found.toml"
        path.write_text(text)
        return flows.load(path)
    return load


def test_finds_flows_of_both_ip_versions_behind_tags_in_order_of_appearance(load):
    capture = [
        *packets(3, src="10.0.0.1", dst="10.0.0.9", dqpn=0x11),
        *packets(2, src="fd00::1", dst="fd00::9", dqpn=0x12, size=100,
                 vlans=((0x88A8, 7), (0x8100, 100))),
        *(frame for frame in frames.background_frames() if not _is_whole_stranger(frame)),
        frames.ack(src="10.0.0.1", dst="10.0.0.9", dqpn=0x11),
        frames.cnp(src="10.0.0.2", dst="10.0.0.9", dqpn=0x13),
    ]
    first, second, third = find_flows(capture)
    assert (str(first.src), str(first.dst), first.dqpn) == ("10.0.0.1", "10.0.0.9", 0x11)
    assert (first.packets, first.payload_bytes, first.other) == (3, 12, 1)
    assert (str(second.src), second.vlans, second.sizes) == ("fd00::1", {7}, {100: 2})
    assert (third.packets, third.other, third.to_trim) == (0, 1, False)

    text = flows_toml([first, second, third], 'a "capture"\n')
    assert text.startswith('# RoCEv2 flows of "a \\"capture\\"\\n"\n# 1 more without payload')
    assert "# 2 packets, 200 B of payload: 2 x 100 B; VLAN 7\n" in text
    setup = load(text)
    assert [flow.name for flow in setup.flows] == ["f0", "f1"]
    model = NicModel(setup.flows)
    assert Counter(model.judge(frame).verdict for frame in capture)[Verdict.TRIM] == 5


def test_finds_flows_to_another_port(load):
    capture = packets(udp_dport=4793, dqpn=0x21) + packets(dqpn=0x22)
    [found] = find_flows(capture, udp_dport=4793)
    [flow] = load(flows_toml([found], "x")).flows
    assert (flow.dqpn, flow.udp_dport) == (0x21, 4793)


def test_registers_the_busiest_where_there_are_more_than_the_table_holds(load):
    capture = [frame for n in range(70) for frame in packets(1 + (n != 5), dqpn=0x100 + n)]
    found = find_flows(capture)
    assert len(found) == 70
    text = flows_toml(found, "x")
    assert "# 70 flows to trim; the table holds 64, so the busiest are registered\n" in text
    setup = load(text)
    assert len(setup.flows) == 64
    assert 0x105 not in {flow.dqpn for flow in setup.flows}
    assert text.count("\n# [[flow]]\n") == 6


def test_leaves_management_to_the_host(load):
    found = find_flows(packets(dqpn=1, opcode="UD_SEND_ONLY", size=256) + packets(dqpn=0x11))
    assert [flow.to_trim for flow in found] == [False, True]
    text = flows_toml(found, "x")
    assert "management (queue pair 1)" in text
    assert [flow.dqpn for flow in load(text).flows] == [0x11]


def test_many_payload_lengths_are_not_all_named():
    found = find_flows([frame for size in range(9) for frame in packets(size=size)])
    assert ", others" in flows_toml(found, "x")
