# SPDX-License-Identifier: Apache-2.0
"""The reference model of the reassembler against messages whose places are known beforehand."""

import random

import harness
import pytest
import roce
from reassembled import GUARD, Memory, Message, Sender

from flytrim.model import Arrival, Fate, Landing, ReassemblyModel
from flytrim.model.reassembly import AnswerKind

BASE, SIZE, MTU = 0x1_0000_0FF0, 400_000, 256
#: A message of no byte, of one, of every pad, around whole packets.
SIZES = (0, 1, 2, 3, 4, 5, MTU - 1, MTU, MTU + 1, 3 * MTU - 1, 3 * MTU, 3 * MTU + 1)


def drawn(rng, size):
    """Bytes none of which is that of a guard."""
    return bytes(rng.choice(range(GUARD)) for _ in range(size))


class Run:
    """A model of one flow, its memory, and what it has told."""

    def __init__(self, **landing):
        self.landing = Landing(**{"base": BASE, "bytes": SIZE, **landing})
        self.model, self.memory = ReassemblyModel({0: self.landing}), Memory((BASE, SIZE))
        self.completions, self.answers, self.fates, self.gaps = [], [], [], 0

    def take(self, packet, *fails):
        landed = self.model.packet(packet, *fails)
        if landed.write:
            self.memory.write(*landed.write)
        self.completions += landed.completions
        self.answers += [landed.answer] if landed.answer else []
        self.fates.append(landed.fate)
        self.gaps += landed.gap
        return landed


def holds(run, messages):
    """Memory is what the messages make of it, and guards elsewhere."""
    right = bytearray([GUARD] * SIZE)
    for message in messages:
        right[message.offset:message.offset + len(message.data)] = message.data
    assert run.memory[BASE] == right
    assert [(each.message, each.bytes, each.immediate, each.failed, each.abandoned)
            for each in run.completions] == [
        (n, len(message.data), message.immediate or 0, False, False)
        for n, message in enumerate(messages)]


def contiguous(rng, sizes, **options):
    offset = 0
    for size in sizes:
        yield Message(drawn(rng, size), offset, immediate=rng.choice((None, 0xC0FFEE)), **options)
        offset += size


@pytest.mark.parametrize("transport", ["RC", "UC"])
def test_sends_land_one_behind_the_other(rng, transport):
    run, sender = Run(start_psn=0xFFFFF8), Sender(0xFFFFF8, MTU)
    messages = list(contiguous(rng, SIZES * 2, transport=transport))
    for message in messages:
        for packet in sender.packets(message):
            assert run.take(packet).fate is Fate.PLACED
    holds(run, messages)
    # A message of RC is acknowledged with its last packet, with how many there have been.
    told = [(answer.kind, answer.msn) for answer in run.answers]
    assert told == [(AnswerKind.ACK, n + 1) for n in range(len(messages))] * (transport == "RC")


def test_writes_land_where_they_say(rng):
    address = 0xFFFF_0000_1234_5678
    run, sender = Run(address=address), Sender(0, MTU, address=address)
    offsets = rng.sample(range(0, 40_000, 1000), len(SIZES))
    messages = [Message(drawn(rng, size), offset, kind="WRITE")
                for size, offset in zip(SIZES, offsets, strict=True)]
    for message in messages:
        for packet in sender.packets(message):
            run.take(packet)
    holds(run, messages)


def test_a_stride_leads_back_to_the_start(rng):
    stride = SIZE // 3 - 1
    run, sender = Run(stride=stride), Sender(0, MTU)
    messages = [Message(drawn(rng, 700), n % 3 * stride) for n in range(8)]
    for message in messages:
        for packet in sender.packets(message):
            run.take(packet)
    holds(run, messages)


def test_a_gap_is_told_once_and_the_sender_goes_back(rng):
    run, sender = Run(), Sender(0, MTU)
    messages = list(contiguous(rng, [5 * MTU, MTU, 2 * MTU + 7]))
    packets = [packet for message in messages for packet in sender.packets(message)]
    for packet in packets[:2]:
        run.take(packet)
    for packet in packets[3:7]:
        assert run.take(packet).fate is Fate.OUT_OF_WINDOW
    assert [(answer.kind, answer.psn) for answer in run.answers] == [(AnswerKind.NAK_SEQUENCE, 2)]
    assert run.gaps == 1
    # It goes back too far: what has come already is acknowledged again and not written.
    for packet in packets[1:]:
        run.take(packet)
    assert run.answers[1] == (AnswerKind.ACK, 1, 0, True, None)
    holds(run, messages)


def test_uc_abandons_a_message_with_a_gap_and_says_so(rng):
    run, sender = Run(start_psn=7), Sender(7, MTU)
    lost, whole, headless = (Message(drawn(rng, 3 * MTU), 0, transport="UC") for _ in range(3))
    first, *rest = sender.packets(lost)
    run.take(first)
    run.take(rest[1])
    assert run.fates == [Fate.PLACED, Fate.SEQUENCE]
    for packet in sender.packets(headless)[1:]:
        assert run.take(packet).fate is Fate.SEQUENCE
    for packet in sender.packets(whole):
        run.take(packet)
    assert [(each.message, each.abandoned) for each in run.completions] == [(0, True), (1, False)]
    assert run.memory[BASE][:3 * MTU] == whole.data
    assert run.gaps == 2 and not run.answers


def test_read_responses_go_on_with_first_behind_a_gap_and_are_never_answered(rng):
    run, sender = Run(responses=True), Sender(0, MTU)
    message = Message(drawn(rng, 4 * MTU), 0, kind="READ")
    packets = sender.packets(message)
    run.take(packets[0])
    assert run.take(packets[2]).gap
    rest = Message(message.data[MTU:], MTU, kind="READ")
    for packet in Sender(1, MTU).packets(rest):
        run.take(packet)
    holds(run, [message])
    assert not run.answers


@pytest.mark.parametrize("size", [1, MTU - 1, MTU, MTU + 1, 3 * MTU + 5])
@pytest.mark.parametrize("window", [64, 256])
def test_packets_of_a_window_land_in_any_order(rng, size, window):
    start = 0xFFFFC0
    run = Run(order="multipath", message_bytes=size, path_mtu=MTU, window=window, start_psn=start,
              stride=1100)
    sender = Sender(start, MTU)
    messages = [Message(drawn(rng, size), n % (SIZE // 1100) * 1100,
                        immediate=rng.choice((None, 5))) for n in range(150)]
    packets = [packet for message in messages for packet in sender.packets(message)]
    waiting, first = set(range(min(window, len(packets)))), 0
    while waiting:
        chosen = rng.choice(sorted(waiting))
        assert run.take(packets[chosen]).fate is Fate.PLACED
        if rng.random() < 0.3:
            assert run.take(packets[chosen]).fate is Fate.DUPLICATE
        waiting.remove(chosen)
        while first not in waiting and first < len(packets):
            if first + window < len(packets):
                waiting.add(first + window)
            first += 1
        if first + window < len(packets):
            assert run.take(packets[first + window]).fate is Fate.OUT_OF_WINDOW
    holds(run, messages)


def test_a_refused_write_fails_its_message_and_no_other(rng):
    for order in ("in_order", "multipath"):
        run, sender = Run(order=order, message_bytes=3 * MTU, path_mtu=MTU), Sender(0, MTU)
        for n, message in enumerate(contiguous(rng, [3 * MTU] * 5)):
            for packet in sender.packets(message):
                run.take(packet, lambda *_, bad=n == 2 and packet.psn % 3 == 1: bad)
        assert [each.failed for each in run.completions] == [n == 2 for n in range(5)]


@pytest.mark.parametrize("order", ["in_order", "multipath"])
def test_nothing_is_written_outside_whatever_comes(order):
    rng = random.Random(harness.seed())
    opcodes = [code for name, code in roce.OPCODES.items() if "SEND" in name or "WRITE" in name]
    address = 0x1000
    fates = set()
    for _ in range(300):
        size = rng.choice((0, 1, 100, 1000)) if order == "in_order" else 65_000
        memory = Memory((BASE, size))
        model = ReassemblyModel({0: Landing(
            base=BASE, bytes=size, order=order, address=address, path_mtu=256,
            message_bytes=rng.choice((0, 1, 256, 400, 900)),
            stride=rng.choice((0, 100, 1000)) if order == "in_order" else 1000)})
        for n in range(40):
            landed = model.packet(Arrival(
                0, rng.choice(opcodes), max(0, n + rng.randrange(-3, 3)),
                rng.randbytes(rng.choice((0, 1, 144, 256, 300))),
                address + rng.choice((-1, 0, 1, rng.randrange(-1000, 1000)))))
            fates.add(landed.fate)
            if landed.write:
                memory.write(*landed.write)
    assert fates >= {Fate.PLACED, Fate.DUPLICATE, Fate.SEQUENCE, Fate.BOUNDS}
