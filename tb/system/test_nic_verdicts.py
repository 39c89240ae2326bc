# SPDX-License-Identifier: Apache-2.0
"""TrimNic gives each reason where it has to: every bit, every number, every pair of faults."""

import itertools

import cocotb
import frames
import harness
import pytest
from bench import NicBench
from frames import RocePacket, flip, with_checksum

from flytrim.model import Flow
from flytrim.verdict import Reason

LIMIT = {"timeout_time": 0.5, "timeout_unit": "ms"}
BOTH = cocotb.parametrize(ip=["ipv4", "ipv6"])
ADDRESSES = {"ipv4": {"src": "10.0.0.1", "dst": "10.0.0.9"},
             "ipv6": {"src": "fd00::1", "dst": "fd00::9"}}
TPIDS = (0x8100, 0x88A8, 0x9100)
#: Numbers of IPv6 extension headers but that of fragments (IANA).
IPV6_EXTENSIONS = (0, 43, 50, 51, 60, 135, 139, 140, 253, 254)
#: Fields behind the MAC addresses that say nothing of the flow, and their bits.
FREE = {
    "tos": 8, "ttl": 8, "identification": 16, "flow_label": 20, "udp_sport": 16, "udp_checksum": 16,
    "solicited": 1, "migreq": 1, "pkey": 16, "fecn": 1, "becn": 1, "reserved": 6, "ack_request": 1,
    "reserved7": 7, "psn": 24,
}


@pytest.mark.model
def test_nic_verdicts(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) >= 20


@cocotb.test(**LIMIT)
@BOTH
async def every_bit_outside_the_key_is_free(dut, ip):
    bench = await NicBench(dut).start()
    whole = frames.roce_frame("RC_SEND_ONLY", b"four", **ADDRESSES[ip])
    for bit in range(8 * 12):                   # destination and source MAC
        assert bench.send(flip(whole, bit)).reason is Reason.NONE
    for name, bits in FREE.items():
        for bit in range(bits):
            packet = RocePacket(opcode="RC_SEND_ONLY", payload=b"four", **ADDRESSES[ip])
            setattr(packet, name, getattr(packet, name) ^ 1 << bit)
            assert bench.send(packet.to_bytes()).reason is Reason.NONE, (name, bit)
    await bench.finish(at_least=500)


@cocotb.test(**LIMIT)
@BOTH
async def up_to_two_tags_of_any_tpid_are_followed(dut, ip):
    bench = await NicBench(dut).start()
    for count in range(4):
        for tpids in itertools.product(TPIDS, repeat=count):
            vlans = tuple((tpid, bench.rng.getrandbits(16)) for tpid in tpids)
            data = frames.roce_frame("RC_SEND_ONLY", b"four", vlans=vlans, **ADDRESSES[ip])
            assert bench.send(data).reason is (Reason.NONE if count < 3 else Reason.NOT_IP)
    await bench.finish(at_least=60)


@cocotb.test(**LIMIT)
@BOTH
async def every_protocol_number(dut, ip):
    bench = await NicBench(dut).start()
    whole = frames.roce_frame("RC_SEND_ONLY", b"four", **ADDRESSES[ip])
    special = {17: Reason.NONE}
    if ip == "ipv6":
        special |= {number: Reason.IP_EXTENSION for number in IPV6_EXTENSIONS}
        special[44] = Reason.FRAGMENT
    for number in range(256):
        at = 20 if ip == "ipv6" else 23
        data = whole[:at] + bytes([number]) + whole[at + 1:]
        if ip == "ipv4":
            data = with_checksum(data, 14)
        assert bench.send(data).reason is special.get(number, Reason.NOT_UDP), number
    await bench.finish(at_least=500)


@cocotb.test(**LIMIT)
async def ipv4_checksum_of_ffff_stands_for_0(dut):
    bench = await NicBench(dut).start()
    candidates = (frames.roce_frame("RC_SEND_ONLY", b"four", identification=number)
                  for number in range(1 << 16))
    whole = next(data for data in candidates if data[24:26] == b"\0\0")
    for checksum in (b"\0\0", b"\xff\xff"):
        assert bench.send(whole[:24] + checksum + whole[26:]).reason is Reason.NONE
    await bench.finish(at_least=4)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@BOTH
@cocotb.parametrize(tags=[0, 2])
async def every_bit_of_the_headers(dut, ip, tags):
    # The ICRC would cover up what has to be trimmed whatever the bit.
    flow = Flow("careless", dqpn=0x11, icrc="ignore", **ADDRESSES[ip])
    bench = await NicBench(dut, flows=[flow]).start()
    packet = RocePacket(opcode="RC_WRITE_ONLY_IMM", payload=bench.rng.randbytes(40),
                        vlans=((0x88A8, 0xE123), (0x8100, 7))[:tags], **ADDRESSES[ip])
    whole, l3 = packet.to_bytes(), packet.ip_offset()
    for bit in range(8 * (len(whole) - 44)):
        data = flip(whole, bit)
        bench.send(data)
        if ip == "ipv4" and 0 <= bit // 8 - l3 < 20:
            bench.send(with_checksum(data, l3))
    await bench.finish(at_least=1000)
    met = {judgements[0].reason for _, judgements in bench.sent}
    assert met >= {Reason.NOT_IP, Reason.IP_HEADER, Reason.NOT_UDP, Reason.NOT_ROCE,
                   Reason.LENGTH, Reason.NO_FLOW, Reason.OPCODE, Reason.NONE}


@cocotb.test(**LIMIT)
@BOTH
async def headers_pad_and_icrc_have_to_fit(dut, ip):
    bench = await NicBench(dut).start()
    for opcode, pad in itertools.product(("RC_SEND_ONLY", "RC_WRITE_ONLY_IMM", "CNP"), range(4)):
        packet = RocePacket(opcode=opcode, payload=bytes(8), pad=pad, **ADDRESSES[ip])
        least = packet.udp_size() - 8
        for size in (0, 7, 8, least - 1, least):
            packet.udp_length, packet.ip_length = size, size + packet.ip_overhead()
            judgement = bench.send(packet.to_bytes())
            assert (judgement.reason is Reason.LENGTH) == (size < least), (opcode, pad, size)
    await bench.finish(at_least=100)


@cocotb.test(**LIMIT)
@BOTH
async def bytes_behind_the_datagram_are_pad(dut, ip):
    bench = await NicBench(dut).start()
    for size in range(2 * bench.config.lanes + 2):
        data = frames.roce_frame("RC_SEND_FIRST", b"gradient" * 3, minimum=0,
                                 tail=bench.rng.choice((bytes, bench.rng.randbytes))(size),
                                 **ADDRESSES[ip])
        assert bench.send(data).payload == b"gradient" * 3
    await bench.finish(at_least=36)


@cocotb.test(**LIMIT)
async def psn_may_repeat_and_jump(dut):
    bench = await NicBench(dut).start()
    for psn in (5, 5, 9, 4, 0xFFFFFF, 0, 0):
        judgement = bench.send(frames.roce_frame("RC_SEND_MIDDLE", b"four", psn=psn))
        assert (judgement.reason, judgement.psn) == (Reason.NONE, psn)
    await bench.finish(at_least=14)


@cocotb.test(**LIMIT)
@BOTH
async def icrc_is_checked_unless_the_flow_ignores_it(dut, ip):
    flows = [Flow("checked", dqpn=1, **ADDRESSES[ip]),
             Flow("careless", dqpn=2, icrc="ignore", **ADDRESSES[ip])]
    bench = await NicBench(dut, flows=flows).start()
    for flow in flows:
        whole = frames.roce_frame("UC_WRITE_ONLY", bytes(range(21)), dqpn=flow.dqpn, minimum=0,
                                  **ADDRESSES[ip])
        for byte in range(len(whole) - 4 - 3 - 21, len(whole)):     # payload, pad, ICRC
            judgement = bench.send(flip(whole, 8 * byte + bench.rng.randrange(8)))
            assert judgement.reason is (Reason.ICRC if flow.icrc == "check" else Reason.NONE)
    await bench.finish(at_least=100)


def before_zero_bytes(register, count):
    """What a CRC-32 register held ``count`` bytes of zero ago."""
    for _ in range(8 * count):
        top = register >> 31
        register = (register ^ 0xEDB88320 * top) << 1 | top
    return register


@cocotb.test(**LIMIT)
async def every_bit_of_the_crc_counts(dut):
    """Errors in the ICRC that turn over one bit of the register, as it is at the beat's end."""
    bench = await NicBench(dut).start()
    lanes = bench.config.lanes
    for words in range(lanes // 4):
        whole = frames.roce_frame("RC_SEND_ONLY", bytes(4 * words), minimum=0)
        for bit in range(32):
            error = before_zero_bytes(1 << bit, 4 + -len(whole) % lanes)
            harmed = int.from_bytes(whole[-4:], "little") ^ error
            judgement = bench.send(whole[:-4] + harmed.to_bytes(4, "little"))
            assert judgement.reason is Reason.ICRC, (words, bit)
    await bench.finish(at_least=64)


#: Faults in the order of the tests. A frame too long is one whatever else it is: it cannot leave
#: bit-exactly. A header is missed only where all before it is sound.
FAULTS = {
    "too long": Reason.OVERSIZE, "ends in link": Reason.TRUNCATED_HEADER, "type": Reason.NOT_IP,
    "ends in IP": Reason.TRUNCATED_HEADER, "fragment": Reason.FRAGMENT,
    "extension": Reason.IP_EXTENSION, "version": Reason.IP_HEADER, "protocol": Reason.NOT_UDP,
    "ends in UDP": Reason.TRUNCATED_HEADER, "port": Reason.NOT_ROCE,
    "ends in BTH": Reason.TRUNCATED_HEADER, "lengths": Reason.LENGTH, "QPN": Reason.NO_FLOW,
    "TVer": Reason.OPCODE, "ONLY": Reason.MESSAGE_LENGTH, "flag": Reason.MAC_ERROR,
    "cut": Reason.TRUNCATED, "ICRC": Reason.ICRC,
}
#: Bytes that are left of a frame, counted from the IP header.
ENDS = {"ends in link": -1, "ends in IP": 19, "ends in UDP": 7, "ends in BTH": 19}
#: What IPv6 says in one byte.
NEXT_HEADER = {"fragment": 44, "extension": 60, "protocol": 6}


def faulty(faults, ip, max_frame):
    """A frame with all of ``faults``, or None where they exclude each other."""
    size = 20 if ip == "ipv4" else 40
    ends = [name for name in faults if name in ENDS]
    if "too long" in faults and ends or ip == "ipv6" and len(NEXT_HEADER.keys() & faults) > 1:
        return None
    packet = RocePacket(
        opcode="RC_SEND_ONLY" if "ONLY" in faults else "RC_SEND_FIRST", payload=bytes(range(12)),
        tver="TVer" in faults, dqpn=0x11 ^ ("QPN" in faults), minimum=0,
        udp_dport=4790 if "port" in faults else 4791, icrc=bytes(4) if "ICRC" in faults else None,
        tail=bytes(max_frame) if "too long" in faults else b"", **ADDRESSES[ip])
    if "cut" in faults:
        packet.udp_length = 0xFF00
        packet.ip_length = packet.udp_length + packet.ip_overhead()
    if "lengths" in faults:
        packet.ip_length = 0
    data = bytearray(packet.to_bytes())
    if "fragment" in faults and ip == "ipv4":
        data[20] |= 0x20
    if "extension" in faults and ip == "ipv4":
        data[14] |= 2
    if "version" in faults:
        data[14] ^= 0x10
    if "protocol" in faults and ip == "ipv4":
        data[23] = NEXT_HEADER["protocol"]
    if ip == "ipv4":
        data[:] = with_checksum(bytes(data), 14)
    else:
        data[20] = next((number for name, number in NEXT_HEADER.items() if name in faults), 17)
    if "type" in faults:
        data[12:14] = b"\x08\x06"
    for name in ends:
        inner = name in ("ends in UDP", "ends in BTH")
        del data[14 + ENDS[name] + (size if inner else 0):]
    return bytes(data)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@BOTH
async def of_two_faults_the_first_is_told(dut, ip):
    flow = Flow("preset", dqpn=0x11, message_bytes=4, **ADDRESSES[ip])
    bench = await NicBench(dut, flows=[flow]).start()
    for faults in (*itertools.combinations(FAULTS, 1), *itertools.combinations(FAULTS, 2)):
        data = faulty(faults, ip, bench.config.max_frame)
        if data is not None:
            judgement = bench.send(data, error="flag" in faults)
            assert judgement.reason is FAULTS[faults[0]], faults
    await bench.finish(at_least=250)
