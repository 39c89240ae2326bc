# SPDX-License-Identifier: Apache-2.0
"""Counters that add up over a hundred thousand frames; a flow table changed ten thousand times."""

import dataclasses
import random

import frames
import harness
import pytest
from bar import CONFIG
from hostile import hostile_frames
from replayed import play

from flytrim.config import NicConfig
from flytrim.driver import Device, Registers, flow_fields
from flytrim.flow_cam import FlowOperation
from flytrim.model import Flow, NicModel
from flytrim.sim.build import build, device_verilog
from flytrim.sim.records import said
from flytrim.sim.replay import Kind, Replay, idle_command, read_command, write_command
from flytrim.verdict import Reason

FRAMES, DIFFERENT = 100_000, 4000
CHANGES = 10_000
#: Frames that enter while the longest command runs.
BETWEEN = 14
KEEPER = Flow(name="keeper", src="10.9.9.9", dst="10.9.9.8", dqpn=1)
A = Flow(name="a", src="10.0.0.1", dst="10.0.0.9", dqpn=0x11, message_bytes=1000, excess="cut")
B = Flow(name="b", src="fd00::1", dst="fd00::9", dqpn=0xEE, message_bytes=4, excess="cut")
#: The key of A; a mixture with A's context would cut what is to be passed by.
STRICT = dataclasses.replace(A, name="strict", message_bytes=8, excess="bypass")
#: A number that is not registered: nothing can match it.
NOBODY = dataclasses.replace(KEEPER, name="nobody", dqpn=2)


@pytest.mark.model
def test_counters_add_up(width):
    """All counters, those of flows and latency included, after mixed frames back to back."""
    config = NicConfig(width=width)
    rng = random.Random(f"volume, SEED={harness.seed()}")
    made = list(hostile_frames(rng, DIFFERENT, beat=config.lanes, max_frame=1514))
    sent = rng.choices(made, k=FRAMES)
    seen = set()
    for outcome in play(build(config, device_verilog(config)), config, sent, "volume"):
        seen.add(outcome.reason)
    assert len(seen) > len(Reason) - 4, f"only {seen}"


@pytest.mark.model
@pytest.mark.parametrize("config", [CONFIG, NicConfig(width=64, flows=128, max_frame=2045)],
                         ids=["cam", "hashed"])
def test_no_frame_is_judged_by_a_mixture(config):
    """Entries change while frames that match them enter without a gap, ten thousand times.

    Whatever the order of verdicts, it must be explained by the states of the table in their order;
    what any mixture of two entries would do is not among what they do.
    """
    rng = random.Random(f"changes, SEED={harness.seed()}")
    payloads = [rng.randbytes(size) for size in (40, 17, 9)]
    ours = [(frames.roce_frame("RC_SEND_ONLY", payload, src=str(flow.src), dst=str(flow.dst),
                               dqpn=flow.dqpn), False) for flow in (A, B) for payload in payloads]
    registers, states, sent = Registers(), [NOBODY], []

    def write(name, **fields):
        return write_command(registers.address(name), registers.pack(name, **fields)), None

    def items():
        for _ in range(CHANGES):
            before = states[-1]
            after = rng.choice([flow for flow in (A, B, STRICT, NOBODY) if flow is not before])
            states.append(after)
            if after is NOBODY:
                operation = FlowOperation.DELETE
            else:
                operation = (FlowOperation.INSERT if before is NOBODY else FlowOperation.REPLACE)
                for name, fields in flow_fields(after).items():
                    yield write(name, **fields)
                    yield send()
            yield write("flow_command", flow=1, op=int(operation))
            for _ in range(BETWEEN):
                yield send()
        yield idle_command(300), None
        yield read_command(registers.address("interrupt_status")), None

    def send():
        sent.append(rng.choice(ours))
        return sent[-1]

    models = {flow: NicModel([KEEPER, flow], config.max_frame) for flow in (A, B, STRICT, NOBODY)}
    expected = {(data, flow): models[flow].judge(data) for data, _ in ours for flow in models}
    lost = []
    with Replay(build(config, device_verilog(config))) as replay:
        replay.reset()
        device = Device(replay)
        device.insert_flow(0, KEEPER)
        device.clear_events(*device.events())
        replay.feed(items())
        verdicts, payloads = [], []
        for event in replay.events():
            if event.kind == Kind.VERDICT:
                verdicts.append(said(event.body).reason)
            elif event.kind == Kind.TRIM:
                payloads.append(event.body)
            elif event.kind == Kind.DATA:
                lost.append(registers.unpack("interrupt_status", int.from_bytes(
                    event.body[4:8], "little")))
            assert event.kind not in (Kind.VIOLATION, Kind.HANG), event.body
        totals = replay.totals
    payload_of = iter(payloads)
    assert len(verdicts) == len(sent) and totals.stalls == 0
    assert totals.beats == totals.last_beat - totals.first_beat + 1
    state = 0
    for number, ((data, _), reason) in enumerate(zip(sent, verdicts, strict=True)):
        payload = next(payload_of) if reason is Reason.NONE else None

        def explains(flow, data=data, reason=reason, payload=payload):
            judged = expected[data, flow]
            return judged.reason is reason and (payload is None or judged.payload == payload)

        while state < len(states) and not explains(states[state]):
            state += 1
        assert state < len(states), f"frame {number}: no state explains {reason!r}, {payload!r}"
    assert next(payload_of, None) is None
    assert state > CHANGES - 10, f"only {state} changes were seen"
    assert [each["command_lost"] for each in lost] == [0]
