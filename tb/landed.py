# SPDX-License-Identifier: Apache-2.0
"""Traffic for the reassembler: senders that behave, go back, lose, double and lie."""

import roce
from paths import PathSender, path_landing
from reassembled import GUARD, Message, packets_of

from flytrim.model import Landing

__all__ = ["Traffic"]

MTU = 256
#: Transport and kind of message by flow, one after the other.
_STYLES = (("RC", "SEND"), ("RC", "WRITE"), ("UC", "SEND"), ("UC", "WRITE"), ("RC", "READ"),
           ("UD", "SEND"))
_PAYLOAD = [code for name, code in roce.OPCODES.items()
            if any(kind in name for kind in ("_SEND_", "_WRITE_", "_READ_RESPONSE_"))]


class _Sender:
    """One flow: the packets that it has made and not yet given."""

    def __init__(self, rng, flow, landing, transport, kind, sizes):
        self._rng, self._flow, self._landing = rng, flow, landing
        self._transport, self._kind, self._sizes = transport, kind, sizes
        self._psn, self._place = landing.start_psn, 0
        self._made, self._at = [], 0

    def _message(self):
        """Packets of the next message, which may be one that does not fit."""
        rng = self._rng
        size = rng.choice(self._sizes)
        if self._transport == "UD":
            size = min(size, MTU)
        offset = rng.randrange(max(1, self._landing.bytes - size + 40))
        data = bytes(rng.choices(range(GUARD), k=size))
        immediate = rng.getrandbits(32) if self._kind != "READ" and rng.random() < 0.3 else None
        message = Message(data, offset, self._kind, self._transport, immediate)
        made = [packet._replace(ack_request=rng.random() < 0.3) for packet in packets_of(
            message, self._psn, MTU, flow=self._flow, address=self._landing.address)]
        self._psn = (self._psn + len(made)) % (1 << 24)
        return made

    def next(self, wild):
        """The next packet; now and then one that was lost, doubled, sent again or is wrong."""
        rng = self._rng
        self._made = self._made[-300:] if self._at >= len(self._made) else self._made
        if self._at >= len(self._made):
            self._at = len(self._made)
            self._made += self._message()
        packet = self._made[self._at]
        self._at += 1
        if rng.random() >= wild:
            return packet
        match rng.randrange(6):
            case 0:
                return packet._replace(good=False)
            case 1:                 # lost: the one behind it is given in its place, if there is one
                self._at = min(self._at, len(self._made) - 1)
                return self._made[self._at]
            case 2:                 # sent again from some packets ago on
                self._at = max(0, self._at - rng.randrange(1, 8))
                return packet
            case 3:
                return packet._replace(opcode=rng.choice(_PAYLOAD))
            case 4:
                return packet._replace(psn=rng.getrandbits(24))
            case _:
                return packet._replace(address=rng.getrandbits(64))


class Traffic:
    """Turns for a reassembler: (is a command, landing of a flow or packet).

    The first ``paths`` flows are multipath. Buffers of the flows lie side by side, each at any
    address, with room for guards between them.
    """

    def __init__(self, rng, flows, *, sizes=(0, 1, 3, 40, MTU, MTU + 1, 3 * MTU - 2), room=3000,
                 stride=None, paths=0):
        self.rng, self.flows, self._sizes = rng, flows, sizes
        self.room, self._stride, self._paths = max(room, 25_000 if paths else 0), stride, paths
        self._senders = {}
        self._landings = [self._draw(flow) for flow in range(flows)]

    def landing(self, flow):
        return self._landings[flow]

    def area(self, flow):
        """(base, bytes) of where the landings of a flow lie."""
        return 0x7F_F000_0000 + 3 * self.room * flow, 2 * self.room

    def _draw(self, flow):
        rng, base = self.rng, self.area(flow)[0] + self.rng.randrange(self.room)
        if flow < self._paths:
            return path_landing(rng, base, rng.getrandbits(63))
        return Landing(
            base=base,
            bytes=rng.randrange(self.room // 2, self.room), address=rng.getrandbits(63),
            start_psn=rng.choice((0, 0xFFFFF0, rng.getrandbits(24))),
            stride=rng.choice((0, 800, 800, 1500)) if self._stride is None else self._stride,
            responses=_STYLES[flow % len(_STYLES)][1] == "READ")

    def _sender(self, flow):
        if flow < self._paths:
            return PathSender(self.rng, flow, self._landings[flow], ("SEND", "WRITE")[flow % 2])
        return _Sender(self.rng, flow, self._landings[flow], *_STYLES[flow % len(_STYLES)],
                       self._sizes)

    def turns(self, count, *, wild=0.1, restarts=0.01):
        """So many turns; each flow is started first."""
        for flow in range(self.flows):
            self._senders[flow] = self._sender(flow)
            yield True, (flow, self._landings[flow])
        yield from self.more(count, wild=wild, restarts=restarts)

    def more(self, count, *, wild=0, restarts=0):
        """So many further turns."""
        rng, senders = self.rng, self._senders
        for _ in range(count):
            flow = rng.randrange(self.flows)
            if rng.random() < restarts:
                again = rng.random() < 0.8
                if again:
                    self._landings[flow] = self._draw(flow)
                    senders[flow] = self._sender(flow)
                yield True, (flow, self._landings[flow] if again else None)
            else:
                # Packets of one flow come in a row, too.
                for _ in range(rng.choice((1, 1, 1, 4))):
                    yield False, senders[flow].next(wild)
                    for path in range(self._paths):
                        senders[path].passes()
