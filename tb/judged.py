# SPDX-License-Identifier: Apache-2.0
"""What the tests of the reference model share: a model with every kind of flow, and assertions."""

import pytest
import roce
from frames import FLOWS, PAYLOAD

from flytrim.model import Flow, NicModel
from flytrim.verdict import Reason, Verdict

MODEL = NicModel([Flow(**vars(flow)) for flow in FLOWS])
NUMBERS = {flow.name: number for number, flow in enumerate(FLOWS)}
PLAIN4, PLAIN6, TAGGED, ONE_PATH, PRESET, CUT, OTHER_PORT, _, CARELESS = (
    {name: getattr(flow, name) for name in ("src", "dst", "dqpn", "udp_dport")} for flow in FLOWS)
BOTH = pytest.mark.parametrize("fields", [PLAIN4, PLAIN6], ids=["ipv4", "ipv6"])
STACKS = pytest.mark.parametrize(
    "vlans", [(), ((0x8100, 5),), ((0x88A8, 5), (0x8100, 6))], ids=["untagged", "vlan", "qinq"])
UNDEFINED = [code for code in range(256) if code not in roce.EXTENSIONS]
#: Opcodes of messages that are one packet.
ONLY = [name for name in PAYLOAD if "ONLY" in name]
DATA = bytes(range(1, 34))


def assert_bypass(frame, reason, flow=None, mac_error=False):
    judged = MODEL.judge(frame, mac_error)
    assert (judged.verdict, judged.reason) == (Verdict.BYPASS, reason)
    assert judged.flow == (None if flow is None else NUMBERS[flow])
    assert judged.bypass == frame and judged.error is mac_error
    assert judged[3] is None and set(judged[6:]) == {None}, "a bypass frame has no record"


def assert_trim(frame, payload, flow="plain4", **record):
    judged = MODEL.judge(frame)
    assert (judged.verdict, judged.reason) == (Verdict.TRIM, Reason.NONE)
    assert judged.flow == NUMBERS[flow] and judged.error is False and judged.bypass is None
    assert judged.payload == payload and judged.length == len(payload)
    assert {name: getattr(judged, name) for name in record} == record


def assert_drop(frame, reason, payload, model=MODEL, mac_error=False):
    judged = model.judge(frame, mac_error)
    assert (judged.verdict, judged.reason) == (Verdict.DROP, reason)
    assert judged.payload == payload and judged.length == len(payload) and judged.error
    assert judged.flow is not None and judged.psn is not None
