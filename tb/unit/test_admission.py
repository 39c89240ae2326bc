# SPDX-License-Identifier: Apache-2.0
"""Admission: what is written where, by the room there was at a frame's first beat."""

import random

import cocotb
import harness
import pytest
from agents import Edges, LaneSource
from bench import config_of_run
from pacing import EVERY

from flytrim.admission import meta_layout
from flytrim.classifier import Classified, Decision
from flytrim.context import VerdictRecord
from flytrim.verdict import Reason

BYPASS_REASONS = [reason for reason in Reason if Reason.NONE < reason < Reason.OVERSIZE]
ROOMS = ("bypass_room", "trim_room", "meta_room")


@pytest.mark.model
def test_admission(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 2


def rare(rng):
    return rng.random() < 0.1


def send_frame(source, rng, decision):
    """A frame of one to four beats, decided at one of them; rooms change at every beat."""
    beats = rng.randrange(1, 5)
    decided = rng.randrange(beats)
    for n in range(beats):
        last = n == beats - 1
        trims = decision["reason"] == Reason.NONE and n >= decided
        beside = {f"admission__{room}": not rare(rng) for room in ROOMS}
        source.send(
            {"beat": {"packet": {"count": 1, "last": last, "error": rare(rng)}, "first": n == 0,
                      "oversize": last and rare(rng)},
             "decided": n >= decided, "truncated": rare(rng)},
            admission__decision=Decision.const(decision).as_bits(),
            admission__payload__valid=trims and rng.randrange(2),
            admission__ended=last, admission__sent=rng.getrandbits(14),
            admission__icrc_good=not rare(rng), **beside)


class Checker:
    """Says in every cycle what the outputs have to be, from the inputs and what it remembers."""

    def __init__(self, dut, config):
        self._dut, self._config = dut, config
        self._verdict, self._room = None, {}
        self.reasons, self.records = [], 0

    def _port(self, name):
        return self._dut[f"admission__{name}"].value.to_unsigned() \
            if len(self._dut[f"admission__{name}"]) > 1 else int(
                self._dut[f"admission__{name}"].value)

    def _expect(self, name, value):
        assert self._port(name) == value, f"{name}: {value} expected, got {self._port(name)}"

    def step(self):
        port = self._port
        self._expect("verdicts__valid", self._verdict is not None)
        if self._verdict is not None:
            record = VerdictRecord.from_bits(port("verdicts__payload"))
            assert (record.reason, record.flow) == self._verdict
            assert record.verdict == Reason(record.reason).verdict
        self._verdict = None
        if not port("i__valid"):
            self._expect("bypass__valid", 0)
            self._expect("rewind", 0)
            return

        item = Classified(self._config).from_bits(port("i__payload"))
        decision = Decision.from_bits(port("decision"))
        beat, last = item.beat, item.beat.packet.last
        if beat.first:
            self._room = {True: port("trim_room") & port("meta_room"), False: port("bypass_room")}
        trims = decision.reason == Reason.NONE
        damage = Reason.OVERSIZE if beat.oversize else Reason.NONE
        if trims and not damage:
            damage = (Reason.MAC_ERROR if beat.packet.error
                      else Reason.TRUNCATED if item.truncated
                      else Reason.ICRC if decision.check_icrc and not port("icrc_good")
                      else Reason.NONE)

        self._expect("bypass__valid", self._room[False])
        self._expect("commit", item.decided and not trims)
        self._expect("rewind", last and trims)
        admitted = trims and self._room[True]
        self._expect("trim__valid", port("payload__valid") and admitted)
        self._expect("meta__valid", port("ended") and admitted)
        self._expect("damaged", damage != Reason.NONE)
        if port("meta__valid"):
            record = meta_layout(self._config).from_bits(port("meta__payload")).record
            assert (record.reason, record.length, record.flow, record.psn, record.cut) == (
                damage, port("sent"), decision.flow, decision.record.psn, decision.cut)
            self.records += 1
        if last:
            reason = damage or (Reason(decision.reason) if self._room[trims] else Reason.OVERFLOW)
            self._verdict = reason, decision.flow
            self.reasons.append(reason)


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def frame_enters_where_it_belongs_or_nowhere(dut, pacing):
    config, rng, edges = config_of_run(), random.Random(cocotb.RANDOM_SEED), Edges(dut)
    source = LaneSource(edges, "admission__i", Classified(config), rng, pacing=pacing)
    count = 1200
    for _ in range(count):
        reason = Reason.NONE if rng.random() < 0.6 else rng.choice(BYPASS_REASONS)
        send_frame(source, rng, {
            "reason": reason, "hit": 1, "flow": rng.getrandbits(16),
            "check_icrc": rng.randrange(2), "cut": rng.getrandbits(14),
            "record": {"psn": rng.getrandbits(24)}})
    checker = Checker(dut, config)
    edges.every(lambda: edges.in_reset or checker.step())
    await edges.start()
    await source.idle()
    await edges.wait(5)
    assert len(checker.reasons) == count
    assert checker.records > count // 3
    assert set(checker.reasons) == set(Reason)
