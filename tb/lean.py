# SPDX-License-Identifier: Apache-2.0
"""Packets for lean frames: as the codec has them, and as metadata records and payloads."""

import random

import cocotb
import roce
from agents import Edges, LaneSource, beats_of

from flytrim.context import MetaRecord
from flytrim.lean.codec import LeanFlow, Record, Route
from flytrim.lean.context import WriteContext
from flytrim.packet import Packet

__all__ = ["BITS", "PAYLOADS", "Feeder", "context_of", "extensions_of", "fields_of", "meta_of",
           "some_flow", "some_record"]

#: Opcodes that have payload, as the layers of the tests know them.
PAYLOADS = [code for code in roce.OPCODES.values() if code in (
    *range(0x0C), *range(0x0D, 0x11), 0x16, 0x17, *range(0x20, 0x2C), 0x64, 0x65)]
BITS = ("solicited", "ack_request", "ecn", "migreq", "pad_count")


def some_bits(rng):
    return {name: rng.getrandbits(2 if name in ("ecn", "pad_count") else 1) for name in BITS}


def some_flow(rng, lean_id, **fields):
    """A flow, random in what is not given."""
    route = Route(rng.getrandbits(12), rng.getrandbits(12), rng.getrandbits(8))
    return LeanFlow(**{
        "lean_id": lean_id, "opcode": rng.choice((0x00, 0x01, 0x04, 0x24)),
        "message_bytes": rng.choice((1, 4, 7, 64, 100)), "route": rng.choice((None, route)),
        **some_bits(rng)} | fields)


def some_record(rng, flow, psn, *, bare, longest=200):
    """A packet of a flow: as its template says, or random."""
    if bare:
        return Record(psn=psn, opcode=flow.opcode, payload=rng.randbytes(flow.message_bytes),
                      **flow.bits)
    opcode = rng.choice(PAYLOADS)
    return Record(psn=psn, opcode=opcode, payload=rng.randbytes(rng.randrange(longest)),
                  extensions=extensions_of(meta_of(rng, opcode)), **some_bits(rng))


def meta_of(rng, opcode):
    """Random values of the fields that hold extension headers; those of absent ones are zero."""
    headers = {part.__name__ for part in roce.EXTENSIONS[opcode]}
    reth, deth = "RETH" in headers, "DETH" in headers
    return {"opcode": opcode,
            "immediate": rng.getrandbits(32) * bool(headers & {"ImmDt", "IETH", "AETH"}),
            "address": rng.getrandbits(64) * reth, "rkey": rng.getrandbits(32) * (reth or deth),
            "dma_length": rng.getrandbits(32 if reth else 24) * (reth or deth)}


def extensions_of(meta):
    """The extension headers' bytes."""
    made = {
        "RETH": lambda: roce.RETH(address=meta["address"], rkey=meta["rkey"],
                                  dma_length=meta["dma_length"]),
        "DETH": lambda: roce.DETH(qkey=meta["rkey"], src_qp=meta["dma_length"]),
        "ImmDt": lambda: roce.ImmDt(immediate=meta["immediate"]),
        "IETH": lambda: roce.IETH(rkey=meta["immediate"]),
        "AETH": lambda: roce.AETH(syndrome=meta["immediate"] >> 24,
                                  msn=meta["immediate"] & 0xFFFFFF),
    }
    return b"".join(bytes(made[part.__name__]()) for part in roce.EXTENSIONS[meta["opcode"]])


def fields_of(record):
    """The fields of a metadata record that a record's extension headers stand in."""
    data, found = record.extensions, {}
    for part in roce.EXTENSIONS[record.opcode]:
        header = part(data[:len(part())])
        data = data[len(part()):]
        name = part.__name__
        if name == "RETH":
            found |= {each: getattr(header, each) for each in ("address", "rkey", "dma_length")}
        elif name == "DETH":
            found |= {"rkey": header.qkey, "dma_length": header.src_qp}
        else:
            found["immediate"] = int.from_bytes(bytes(header), "big")
    return found


def context_of(flow, *, flush=1 << 31, dst_mac=0, src_mac=0):
    """The fields of a ``LeanContext``."""
    route = flow.route or Route(0, 0, 0)
    return {"lean_id": flow.lean_id, "flush": flush, "routed": int(flow.route is not None),
            "source": route.source, "destination": route.destination,
            "hop_limit": route.hop_limit, "dst_mac": dst_mac, "src_mac": src_mac,
            "template": {"opcode": flow.opcode, "message_bytes": flow.message_bytes, **flow.bits}}


class Feeder:
    """Packets into a framer as a device gives them: the record with the last beat of payload."""

    def __init__(self, dut, width, prefix, pacing):
        self.dut, self.lanes, self.rng = dut, width // 8, random.Random(cocotb.RANDOM_SEED)
        self.edges = Edges(dut)
        self.writes = LaneSource(self.edges, f"{prefix}__write", WriteContext, self.rng)
        self.metas = LaneSource(self.edges, f"{prefix}__i_meta", MetaRecord, self.rng,
                                pacing=pacing)
        self.payloads = LaneSource(self.edges, f"{prefix}__i", Packet(width), self.rng,
                                   pacing=pacing)

    async def register(self, number, flow, *, enable=1, **options):
        self.writes.send({"flow": number, "enable": enable,
                          "context": context_of(flow, **options)})
        await self.writes.idle()

    def send(self, number, record, *, reason=0):
        """Queue a packet of a flow's number."""
        self.metas.send({"flow": number, "reason": reason, "psn": record.psn,
                         "opcode": record.opcode, "length": len(record.payload),
                         "cut": self.rng.getrandbits(16), **record.bits, **fields_of(record)})
        for beat in beats_of(record.payload, self.lanes):
            self.payloads.send({**beat, "error": int(reason > 0) if beat["last"]
                                else self.rng.getrandbits(1)})

    async def fed(self):
        await self.metas.idle()
        await self.payloads.idle()
