# SPDX-License-Identifier: Apache-2.0
"""Answers: merged while they wait, none that matters lost; and the frames that they leave as."""

import ipaddress
import random

import harness
import pytest
import roce
from amaranth.sim import Simulator
from roce_packet import RocePacket

from flytrim.reassembly.answers import Answers
from flytrim.reassembly.records import SYNDROMES, AnswerKind
from flytrim.reassembly.responder import Responder

FLOWS, COUNT = 5, 3000
NAKS = [kind for kind in AnswerKind if kind.name.startswith("NAK")]


def simulate(component, *benches):
    simulator = Simulator(component)
    simulator.add_clock(1e-8)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


def drawn(rng, n):
    kind = rng.choice((*[AnswerKind.ACK] * 6, *[AnswerKind.AGAIN] * 3, *NAKS[:3],
                       *[AnswerKind.NAK_OPERATION] * (rng.random() < 0.1)))
    return {"flow": rng.randrange(FLOWS), "kind": kind, "psn": n, "msn": rng.getrandbits(24)}


def stands_for(kinds, before, after):
    """Whether what lies between two answers that were sent need not be sent itself."""
    between = kinds[before + 1:after]
    if before >= 0 and kinds[before] == AnswerKind.NAK_OPERATION:
        return True
    if after == len(kinds):
        # Nothing is left to be told but what a NAK before it stood for.
        return all(kind == AnswerKind.AGAIN and kinds[before] in NAKS for kind in between)
    weighty = [kind for kind in between if kind != AnswerKind.AGAIN]
    if kinds[after] == AnswerKind.AGAIN and weighty and weighty[-1] in NAKS:
        return False
    return AnswerKind.NAK_OPERATION not in between


@pytest.mark.parametrize("taken", [1.0, 0.3, 0.02])
def test_what_is_merged_says_no_less(taken):
    answers, rng = Answers(FLOWS), random.Random(harness.seed())
    given, sent = [drawn(rng, n) for n in range(COUNT)], []
    over = False

    async def source(ctx):
        nonlocal over
        for answer in given:
            ctx.set(answers.i.payload, answer)
            ctx.set(answers.i.valid, 1)
            await ctx.tick()
            ctx.set(answers.i.valid, 0)
            await ctx.tick().repeat(rng.choice((0, 0, 1, 3)) or 1)
        over = True

    async def sink(ctx):
        quiet = 0
        while not over or quiet < 100 / taken:
            ctx.set(answers.o.ready, rng.random() < taken)
            quiet += 1
            if ctx.get(answers.o.valid) and ctx.get(answers.o.ready):
                answer = ctx.get(answers.o.payload)
                sent.append({name: answer[name] for name in given[0]})
                quiet = 0
            await ctx.tick()

    simulate(answers, source, sink)
    for flow in range(FLOWS):
        own, left = ([answer for answer in all_ if answer["flow"] == flow]
                     for all_ in (given, sent))
        kinds, places = [answer["kind"] for answer in own], [own.index(answer) for answer in left]
        assert places == sorted(places)
        for before, after in zip([-1, *places], [*places, len(own)], strict=True):
            assert stands_for(kinds, before, after), (before, after, kinds[before:after + 1])
    assert (len(sent) < COUNT / 2) == (taken < 0.1)


def test_a_start_takes_back_what_was_to_be_told():
    answers, told = Answers(FLOWS), []

    async def bench(ctx):
        async def give(**answer):
            ctx.set(answers.i.payload, answer)
            ctx.set(answers.i.valid, 1)
            await ctx.tick()
            ctx.set(answers.i.valid, 0)

        # The sink stands still until the queue to it is full.
        for n in range(10):
            await give(flow=n % 2, kind=AnswerKind.ACK, psn=n)
            await ctx.tick().repeat(8)
        for flow in range(FLOWS):
            await give(flow=flow, kind=AnswerKind.NAK_OPERATION, psn=99)
        for flow in range(FLOWS):
            await give(flow=flow, restart=1)
        await give(flow=3, kind=AnswerKind.ACK, psn=1)
        ctx.set(answers.o.ready, 1)
        for _ in range(60):
            if ctx.get(answers.o.valid):
                told.append((ctx.get(answers.o.payload.flow), ctx.get(answers.o.payload.psn)))
            await ctx.tick()

    simulate(answers, bench)
    assert told[-1] == (3, 1) and (99 not in [psn for _, psn in told])


@pytest.mark.parametrize(("bits", "window"), [(64, 64), (64, 256), (512, 64), (512, 256)])
def test_frames_are_those_that_scapy_makes(bits, window):
    rng = random.Random(harness.seed())
    responder = Responder(bits, FLOWS, paths=2, window=window)
    word = rng.getrandbits
    headers = [{
        "dst_mac": word(48), "src_mac": word(48), "src": word(32), "dst": word(32),
        "dscp": word(6), "ecn": word(2), "ttl": word(8), "sport": word(16), "dport": 4791,
        "pkey": 0xFFFF, "qpn": word(24), "psn": word(24), "opcode": word(8)}
        for _ in range(FLOWS)]
    given = [{**drawn(rng, n), "flow": n % FLOWS, "multipath": n % FLOWS < 2}
             for n in range(4 * FLOWS)]
    reports = [{"psn": word(24), "msn": word(24), "bitmap": word(window)} for _ in given]
    frames = []

    async def bench(ctx):
        for flow, header in enumerate(headers):
            ctx.set(responder.headers, header)
            ctx.set(responder.flow, flow)
            ctx.set(responder.written, 1)
            await ctx.tick()
        ctx.set(responder.written, 0)
        ctx.set(responder.o.ready, 1)
        for answer, report in zip(given, reports, strict=True):
            ctx.set(responder.reports.payload, {"flow": answer["flow"], **report})
            ctx.set(responder.reports.valid, answer["multipath"])
            await ctx.tick()
            ctx.set(responder.reports.valid, 0)
            ctx.set(responder.i.payload, answer)
            ctx.set(responder.i.valid, 1)
            await ctx.tick()
            ctx.set(responder.i.valid, 0)
            frame, last = b"", False
            for _ in range(60):
                if ctx.get(responder.o.valid):
                    beat = ctx.get(responder.o.payload)
                    frame += beat.data.to_bytes(bits // 8, "little")[:beat.count]
                    last = beat.last
                await ctx.tick()
                if last:
                    break
            frames.append(frame)

    simulate(responder, bench)
    for answer, report, frame in zip(given, reports, frames, strict=True):
        fields, payload = headers[answer["flow"]], b""
        if answer["multipath"]:
            answer |= {name: report[name] for name in ("psn", "msn")}
            payload = report["bitmap"].to_bytes(window // 8, "little")
        right = roce.build(RocePacket(
            opcode="RC_ACKNOWLEDGE", payload=payload, src=ipaddress.ip_address(fields["src"]),
            dst=ipaddress.ip_address(fields["dst"]), dqpn=fields["qpn"], udp_dport=4791,
            udp_sport=fields["sport"], psn=answer["psn"], ttl=fields["ttl"], pkey=fields["pkey"],
            tos=fields["dscp"] << 2 | fields["ecn"], syndrome=SYNDROMES[answer["kind"]],
            msn=answer["msn"], src_mac=_mac(fields["src_mac"]),
            dst_mac=_mac(fields["dst_mac"])).to_scapy())
        assert frame == right.ljust(60, b"\0"), f"{frame.hex()} but not\n{right.hex()}"


def _mac(number):
    return ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))
