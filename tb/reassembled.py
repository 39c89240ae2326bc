# SPDX-License-Identifier: Apache-2.0
"""Messages as a sender makes packets of them, and memory as it must be when they have landed.

Nothing here knows how packets are put together again: a message is bytes, and where they belong is
said when it is made.
"""

from dataclasses import dataclass

import roce

from flytrim.model.reassembly import Arrival

__all__ = ["GUARD", "Memory", "Message", "Sender", "packets_of"]

#: What memory holds where nothing has been written; payloads are drawn without it.
GUARD = 0xA5


@dataclass(frozen=True)
class Message:
    """A message and where it belongs, an offset in the flow's buffer."""

    data: bytes
    offset: int
    kind: str = "SEND"
    transport: str = "RC"
    immediate: int | None = None

    def opcodes(self, packets):
        """Opcodes of its packets."""
        tail = "" if self.immediate is None else "_IMM"
        last = [f"ONLY{tail}"] if packets == 1 else [
            "FIRST", *["MIDDLE"] * (packets - 2), f"LAST{tail}"]
        kind = "READ_RESPONSE" if self.kind == "READ" else self.kind
        return [roce.OPCODES[f"{self.transport}_{kind}_{place}"] for place in last]


def packets_of(message, psn, mtu, *, flow=0, address=0, ack=True):
    """The :class:`Arrival` of each packet; ``address`` is the sender's view of the buffer."""
    parts = [message.data[n:n + mtu] for n in range(0, len(message.data), mtu)] or [b""]
    opcodes = message.opcodes(len(parts))
    for n, (opcode, part) in enumerate(zip(opcodes, parts, strict=True)):
        first, last = n == 0, n == len(parts) - 1
        yield Arrival(
            flow, opcode, (psn + n) % (1 << 24), part,
            address + message.offset if first and message.kind == "WRITE" else 0,
            message.immediate if last and message.immediate is not None else 0,
            ack and last)


class Sender:
    """Numbers the packets of one flow's messages."""

    def __init__(self, psn, mtu, **options):
        self.psn, self._mtu, self._options = psn, mtu, options

    def packets(self, message):
        """The packets of the next message, as a list."""
        made = list(packets_of(message, self.psn, self._mtu, **self._options))
        self.psn = (self.psn + len(made)) % (1 << 24)
        return made



class Memory:
    """Buffers with guard bands around them: what is written outside any is refused with words."""

    def __init__(self, *spans):
        self._spans = {base: bytearray([GUARD] * size) for base, size in spans}

    def write(self, address, data):
        for base, held in self._spans.items():
            if base <= address and address + len(data) <= base + len(held):
                held[address - base:address - base + len(data)] = data
                return
        raise AssertionError(f"{len(data)} bytes at {address:#x} are outside every buffer")

    def __getitem__(self, base):
        return bytes(self._spans[base])
