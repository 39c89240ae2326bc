# SPDX-License-Identifier: Apache-2.0
"""Classifier: the first reason that applies, by what the headers say and the flow table answers."""

import random

import cocotb
import harness
import pytest
from agents import Edges, LaneMonitor, LaneSource
from bench import config_of_run
from pacing import EVERY

from flytrim.classifier import Classified, Decision
from flytrim.context import Lookup, Parsed
from flytrim.verdict import Reason

HEADER_REASONS = (Reason.NOT_IP, Reason.FRAGMENT, Reason.IP_EXTENSION, Reason.IP_HEADER,
                  Reason.NOT_UDP)


@pytest.mark.model
def test_classifier(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 2


def parsed_of(rng):
    """Facts of a frame of one beat. Every other one fails few tests, so that the last are met."""
    sound = rng.choice((0.85, 0.99))

    def likely():
        return rng.random() < sound

    words = [rng.randrange(1, 0xFFFF) for _ in range(3)]
    words.append(0xFFFF - sum(words) % 0xFFFF)
    if not likely():
        words[0] ^= 1 << rng.randrange(16)
    version = rng.randrange(2)
    header_bytes = 4 * rng.randrange(13, 26) + 2
    return {
        "beat": {"packet": {"count": 1, "last": 1}, "first": 1},
        "seen": min(127, header_bytes + 4) if likely() else header_bytes - 1,
        "bytes": rng.randrange(60, 200), "frame_bytes": rng.randrange(40, 200),
        "header_reason": Reason.NONE if likely() else rng.choice(HEADER_REASONS), "checksum": words,
        "ipv4_at": (0, 1)[version], "ipv6_at": (1, 0)[version],
        "header_bytes": header_bytes, "length": rng.choice((0, 4, 5, 64, 1000)),
        **{name: likely() for name in ("has_link", "has_ip", "has_udp", "has_bth", "sound",
                                          "payload")},
        "only": rng.randrange(2), "tagged": rng.randrange(2), "vlan": rng.choice((1, 2)),
        "sport": rng.choice((1, 2)), "key": {"qpn": rng.getrandbits(24)},
        "record": {"psn": rng.getrandbits(24)},
    }


def lookup_of(rng):
    return {
        "dport_known": rng.random() < 0.95, "hit": rng.random() < 0.95, "flow": rng.getrandbits(16),
        "context": {"check_vlan": rng.randrange(2), "vlan": 1, "check_sport": rng.randrange(2),
                    "sport": 1, "check_length": rng.randrange(2), "cut": rng.randrange(2),
                    "check_icrc": rng.randrange(2), "message_bytes": rng.choice((4, 64, 1 << 20))},
    }


def expected_of(parsed, lookup):
    """(reason, cut) by the order of the tests."""
    context, said = lookup["context"], parsed["header_reason"]
    checksum_fails = parsed["ipv4_at"] and sum(parsed["checksum"]) % 0xFFFF
    whole = parsed["has_bth"] and parsed["seen"] >= parsed["header_bytes"]
    differs = ((context["check_vlan"] and not (parsed["tagged"] and parsed["vlan"] == 1))
               or (context["check_sport"] and parsed["sport"] != 1))
    excess = parsed["length"] - context["message_bytes"]
    too_long = context["check_length"] and parsed["only"] and excess > 0
    tests = (
        (not parsed["has_link"], Reason.TRUNCATED_HEADER),
        (said is Reason.NOT_IP, Reason.NOT_IP),
        (not parsed["has_ip"], Reason.TRUNCATED_HEADER),
        (said in (Reason.FRAGMENT, Reason.IP_EXTENSION, Reason.IP_HEADER), said),
        (checksum_fails, Reason.IP_HEADER),
        (said is Reason.NOT_UDP, Reason.NOT_UDP),
        (not parsed["has_udp"], Reason.TRUNCATED_HEADER),
        (not lookup["dport_known"], Reason.NOT_ROCE),
        (not whole, Reason.TRUNCATED_HEADER),
        (not parsed["sound"], Reason.LENGTH),
        (not lookup["hit"] or differs, Reason.NO_FLOW),
        (not parsed["payload"], Reason.OPCODE),
        (too_long and not context["cut"], Reason.MESSAGE_LENGTH),
    )
    reason = next((reason for applies, reason in tests if applies), Reason.NONE)
    return reason, excess if too_long and context["cut"] else 0


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def first_reason_that_applies_is_told(dut, pacing):
    config, rng, edges = config_of_run(), random.Random(cocotb.RANDOM_SEED), Edges(dut)
    source = LaneSource(edges, "classifier__i", Parsed(config), rng, pacing=pacing)
    parsed = [parsed_of(rng) for _ in range(1500)]
    lookups = [lookup_of(rng) for _ in parsed]
    answers, pending, seen = iter(lookups), [], []

    def flow_table():
        """Answers two cycles behind a key, and holds the answer."""
        if pending:
            dut.classifier__lookups__payload.value = Lookup.const(pending.pop()).as_bits()
        if dut.classifier__keys__valid.value:
            pending.append(next(answers))

    def collect(transaction):
        cycle, item = transaction
        decision = Decision.from_bits(dut.classifier__decision.value.to_unsigned())
        seen.append((cycle, item, decision))

    LaneMonitor(edges, "classifier__o", Classified(config), callback=collect)
    edges.every(flow_table)
    for item in parsed:
        source.send(item)
    await edges.start()
    await source.idle()
    await edges.wait(10)

    assert len(seen) == len(parsed)
    assert {out[0] - into for out, into in zip(seen, source.cycles, strict=True)} == {3}
    told = set()
    for number, (item, lookup, (_, out, decision)) in enumerate(
            zip(parsed, lookups, seen, strict=True)):
        about = f"frame {number}: {item}, {lookup}"
        reason, cut = expected_of(item, lookup)
        assert out.decided, about
        assert out.truncated == (item["bytes"] < item["frame_bytes"]), about
        assert decision.reason == reason, f"{about}: {reason!r} expected"
        belongs = reason in (Reason.NONE, Reason.OPCODE, Reason.MESSAGE_LENGTH)
        assert (decision.hit, decision.flow) == (belongs, lookup["flow"] if belongs else 0), about
        assert decision.record.psn == item["record"]["psn"], about
        if reason is Reason.NONE:
            assert decision.cut == cut, about
            assert decision.check_icrc == lookup["context"]["check_icrc"], about
        told.add(reason)
    assert told == {reason for reason in Reason if reason < Reason.OVERSIZE}
