# SPDX-License-Identifier: Apache-2.0
"""Containers in plain Python: the document's bytes, Scapy's reading of them, and every fault."""

import dataclasses
import re
import struct
from pathlib import Path

import lean_scapy
import pytest
import roce
from scapy.layers.l2 import Ether

from flytrim.lean import container as c
from flytrim.lean.codec import (
    Container,
    Decoder,
    Encoder,
    LeanError,
    LeanFlow,
    Record,
    Route,
    carried,
    carry,
    decode,
    encode,
)

DOCUMENT = Path(__file__).parents[2] / "fpga" / "lean.md"
SEND, WRITE_IMM = 0x24, 0x2B
FLOW = LeanFlow(lean_id=5, opcode=SEND, message_bytes=4)
FLOWS = {5: FLOW}
#: Opcodes that have payload, as the layers of the tests know them.
PAYLOADS = [code for name, code in roce.OPCODES.items() if code in (
    *range(0x0C), *range(0x0D, 0x11), 0x16, 0x17, *range(0x20, 0x2C), 0x64, 0x65)]


def floats(*values, psn):
    return tuple(Record(psn=(psn + n) % (1 << 24), opcode=SEND, payload=struct.pack("<f", value))
                 for n, value in enumerate(values))


def worked(kind):
    """The bytes of an example in the document."""
    block, = re.findall(rf"^```{kind}\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return bytes.fromhex("".join(
        re.match(r"(?:[0-9a-f]{2} {1,2})*[0-9a-f]{2}(?=\s|$)", line)[0]
        for line in block.splitlines()))


BARE = Container(flow=5, psn=0xFFFFFE, sequence=7, full=False,
                 records=floats(1.0, 2.0, 3.0, psn=0xFFFFFE))
WRITE = Record(psn=0x10, opcode=WRITE_IMM, payload=bytes.fromhex("a1a2a3a4a5"), ack_request=1,
               ecn=3, migreq=1, pad_count=3, extensions=bytes(
                   roce.RETH(address=0x1000, rkey=0x12345678, dma_length=5)
                   / roce.ImmDt(immediate=0xCAFE0001)))
FULL = Container(flow=5, psn=0x10, sequence=8, full=True, route=Route(3, 0x102, 64), records=(
    WRITE, Record(psn=0x11, opcode=SEND, payload=b"", solicited=1)))
ONE = Container(flow=5, psn=0x12, sequence=9, full=False, records=floats(1.5, psn=0x12))


def test_worked_bytes_of_the_document():
    assert worked("bare") == encode(BARE)
    assert worked("full") == encode(FULL)
    assert worked("carried") == carry(encode(ONE, minimum=c.MIN_CARRIED), 0x020000000002,
                                      0x020000000001)
    assert [decode(worked(kind), FLOWS) for kind in ("bare", "full")] == [BARE, FULL]
    assert decode(carried(worked("carried")), FLOWS) == ONE
    assert carried(b"\0" * 60) is None and carried(worked("carried")[:15]) is None


def test_crc_is_that_of_iscsi():
    """RFC 3720, appendix B.4."""
    for data, crc in ((bytes(32), "aa36918a"), (b"\xff" * 32, "43aba862"),
                      (bytes(range(32)), "4e79dd46"), (bytes(range(31, -1, -1)), "5cdb3f11")):
        assert c.CRC32C.of(data).to_bytes(4, "little").hex() == crc


def random_record(rng, psn, opcode=None, longest=70):
    opcode = rng.choice(PAYLOADS) if opcode is None else opcode
    return Record(
        psn=psn, opcode=opcode, payload=rng.randbytes(rng.randrange(longest)),
        solicited=rng.getrandbits(1), ack_request=rng.getrandbits(1), ecn=rng.getrandbits(2),
        migreq=rng.getrandbits(1), pad_count=rng.getrandbits(2), extensions=rng.randbytes(
            sum(len(part()) for part in roce.EXTENSIONS[opcode])))


def random_container(rng, full):
    psn, count = rng.getrandbits(24), rng.randrange(1, 20)
    if full:
        records = tuple(random_record(rng, (psn + n) % (1 << 24)) for n in range(count))
    else:
        records = floats(*(rng.random() for _ in range(count)), psn=psn)
    route = Route(rng.getrandbits(12), rng.getrandbits(12), rng.getrandbits(8))
    return Container(flow=5, psn=psn, sequence=rng.getrandbits(16), full=full, records=records,
                     route=rng.choice((None, route)))


@pytest.mark.parametrize("full", [False, True])
def test_scapy_reads_what_is_encoded(rng, full):
    for _ in range(150):
        sent = random_container(rng, full)
        data = encode(sent, minimum=rng.choice((0, 44, 100)))
        read = lean_scapy.read(data)
        assert bytes(read) == data
        assert (read.version, read.flow, read.psn, read.sequence, read.count) == (
            1, sent.flow, sent.psn, sent.sequence, len(sent.records))
        assert not any(read.fill)
        if sent.route:
            assert (read.source, read.destination, read.hop_limit) == dataclasses.astuple(
                sent.route)
        if full:
            assert [(each.opcode, each.solicited, each.ack_request, each.ecn, each.migreq,
                     each.pad_count, each.extensions, each.payload_bytes, any(each.zeros))
                    for each in read.records] == [
                (each.opcode, each.solicited, each.ack_request, each.ecn, each.migreq,
                 each.pad_count, each.extensions, each.payload, False) for each in sent.records]
        else:
            assert read.body == b"".join(each.payload for each in sent.records)
        assert decode(data, FLOWS) == sent


def test_scapy_reads_the_carriage():
    frame = Ether(worked("carried"))
    assert (frame.type, frame.subtype, frame.psn) == (0x88B5, 0x4C46, 0x12)
    assert (len(frame), frame["lean container"].fill) == (60, bytes(24))


@pytest.mark.parametrize("sent", [BARE, FULL], ids=["bare", "full"])
def test_no_byte_can_change_unseen(sent):
    data = encode(sent)
    for at in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            harmed = bytearray(data)
            harmed[at] ^= flip
            if sent.route and at == 11:
                assert decode(bytes(harmed), FLOWS).records == sent.records
                continue
            with pytest.raises(LeanError) as caught:
                decode(bytes(harmed), FLOWS)
            assert caught.value.fault is c.Fault.DAMAGED
    for size in range(len(data)):
        with pytest.raises(LeanError):
            decode(data[:size], FLOWS)


def sealed(data):
    """Bytes with their own CRC."""
    return data + c.CRC32C.of(data).to_bytes(4, "little")


@pytest.mark.parametrize(("at", "value", "fault"), [
    (0, 0x20, "unknown"), (0, 0x14, "unknown"), (0, 0x18, "unknown"), (2, 6, "unknown"),
    (0, 0x11, "malformed"), (21, 2, "malformed"), (21, 4, "malformed"), (23, 8, "malformed"),
    (23, 13, "malformed"), (23, 16, "malformed"), (23, 0, "malformed")])
def test_sound_containers_that_mean_nothing(at, value, fault):
    data = bytearray(encode(BARE)[:-4])
    data[at] = value
    with pytest.raises(LeanError) as caught:
        decode(sealed(bytes(data)), FLOWS)
    assert str(caught.value.fault) == fault


def test_other_templates_are_seen():
    """Two ends that differ in the length of a message deliver nothing."""
    for message_bytes in (0, 1, 2, 3, 4, 8, 12, 16):
        flows = {5: dataclasses.replace(FLOW, message_bytes=message_bytes)}
        if -(-message_bytes // 4) == 1:
            assert len(decode(encode(BARE), flows).records) == 3
        else:
            with pytest.raises(LeanError) as caught:
                decode(encode(BARE), flows)
            assert caught.value.fault is c.Fault.MALFORMED


def test_sequence_numbers_tell_what_is_lost_swapped_or_sent_twice():
    data = [encode(dataclasses.replace(ONE, sequence=n % (1 << 16))) for n in range(70000)]
    decoder = Decoder([FLOW])
    assert [bool(decoder.receive(data[n])) for n in (0, 1, 1, 2, 4, 3, 5, 0)] == [
        True, True, False, True, True, False, True, False]
    assert (decoder.lost, decoder.faults) == (1, {c.Fault.STALE: 3})
    assert decoder.receive(data[5 + (1 << 15)]) and decoder.lost == (1 << 15)
    assert decoder.receive(data[65535]) and decoder.receive(data[65536])


class TestEncoder:
    def test_closes_for_another_flow_kind_or_psn(self):
        other, wide = dataclasses.replace(FLOW, lean_id=6), Record(
            psn=4, opcode=SEND, payload=bytes(8))
        steps = [(FLOW, *floats(0, psn=1)), (FLOW, *floats(0, psn=2)), (other, *floats(0, psn=3)),
                 (FLOW, *floats(0, psn=3)), (FLOW, wide), (FLOW, *floats(0, psn=5)),
                 (FLOW, *floats(0, psn=7))]
        encoder = Encoder()
        closed = [[len(decode(data, {5: FLOW, 6: other}).records) for data in encoder.push(*step)]
                  for step in steps]
        assert closed == [[], [], [2], [1], [1], [1], [1]]
        last, = encoder.close()
        assert decode(last, FLOWS).sequence == 4 and encoder.close() == []

    def test_is_never_longer_than_it_may(self, rng):
        encoder, sizes = Encoder(container_bytes=300), []
        for n in range(500):
            sizes += map(len, encoder.push(FLOW, random_record(rng, n, SEND, longest=200)))
        assert 250 < max(sizes) <= 300
        assert len(encoder.push(FLOW, random_record(rng, 500, SEND, longest=1))) <= 1
        encoder.push(FLOW, Record(psn=501, opcode=SEND, payload=bytes(400)))
        alone, = encoder.close()
        assert len(decode(alone, FLOWS).records) == 1 and len(alone) > 400

    @pytest.mark.parametrize(("payload", "floor"), [(4, 0.95), (1024, 0.99)])
    @pytest.mark.parametrize("ethernet", [False, True], ids=["link", "ethernet"])
    def test_share_of_payload(self, payload, floor, ethernet):
        flow = dataclasses.replace(FLOW, message_bytes=payload)
        encoder = Encoder(container_bytes=c.ETHERNET_BYTES if ethernet else c.LINK_BYTES)
        sizes = [len(data) for n in range(20000) for data in encoder.push(
            flow, Record(psn=n, opcode=SEND, payload=bytes(payload)))]
        sent = encoder.close()
        total = (20000 - len(decode(sent[0], {5: flow}).records)) * payload
        # Header, FCS, preamble and gap.
        wire = sum(sizes) + len(sizes) * (16 + 4 + 8 + 12) * ethernet
        assert total / wire >= floor
