# SPDX-License-Identifier: Apache-2.0
"""A sender of multipath traffic: packets of a window in any order, some of them wrong."""

from reassembled import GUARD, Message, packets_of

from flytrim.model import Landing

__all__ = ["PathSender", "path_landing"]

WINDOW, MTU = 64, 256
#: Turns after which a sender knows what has come: more than the cycles that a window moves behind.
KNOWN_AFTER = 40


def path_landing(rng, base, address):
    """A landing for messages of some size, with as many places as a window needs and some more."""
    size = rng.choice((0, 1, MTU, MTU + 44, 4 * MTU - 1, 4 * MTU))
    stride = size + rng.choice((0, 24))
    packets = max(1, -(-size // MTU))
    places = -(-(WINDOW + packets) // packets) + rng.randrange(2)
    return Landing(base=base, bytes=places * stride + rng.randrange(max(1, stride)),
                   address=address, order="multipath", start_psn=rng.choice((0, 0xFFFFE0)),
                   stride=stride, path_mtu=MTU, message_bytes=size, window=WINDOW)


class PathSender:
    """Sends any packet of its window, and knows only later which have come.

    A packet that is beyond the window for the sender, and not for a window that is moved at once,
    is never sent: what becomes of it depends on cycles.
    """

    def __init__(self, rng, flow, landing, kind):
        self._rng, self._flow, self._landing, self._kind = rng, flow, landing, kind
        self._made, self._come, self._missing = [], set(), 0
        self._known = [0] * KNOWN_AFTER

    def _packet(self, number):
        landing, rng = self._landing, self._rng
        while len(self._made) <= number:
            message = len(self._made) // landing.packets
            made = Message(bytes(rng.choices(range(GUARD), k=landing.message_bytes)),
                           message % landing.places * landing.step, self._kind, "RC",
                           rng.choice((None, rng.getrandbits(32))))
            self._made += [packet._replace(ack_request=rng.random() < 0.3) for packet in packets_of(
                made, landing.start_psn + len(self._made), MTU, flow=self._flow,
                address=landing.address)]
        return self._made[number]

    def passes(self):
        """A turn of anybody's has passed."""
        self._known = [*self._known[1:], self._missing]

    def next(self, wild):
        """The next packet."""
        rng, window = self._rng, self._landing.window
        open_ = [n for n in range(self._missing, self._known[0] + window) if n not in self._come]
        late = [n for n in range(max(0, self._missing - 300), self._known[0] + window)
                if n < self._missing or n in self._come]
        wrong = rng.random() < wild
        if late and (not open_ or wrong and rng.random() < 0.4):
            return self._packet(rng.choice(late))
        # The first missing one is late, now and then for long.
        number = rng.choice(open_[1:6] or open_) if rng.random() < 0.6 else rng.choice(open_)
        if rng.random() < 0.2:
            number = open_[0]
        if wrong:
            match rng.randrange(4):
                case 0:
                    return self._packet(number)._replace(good=False)
                case 1:
                    return self._packet(self._missing + window + rng.randrange(100))
                case 2:
                    return self._packet(number)._replace(opcode=0x01 if self._landing.packets < 3
                                                         else 0x04)
                case _:
                    self._comes(number)
                    return self._packet(number)._replace(address=rng.getrandbits(64))
        self._comes(number)
        return self._packet(number)

    def _comes(self, number):
        self._come.add(number)
        while self._missing in self._come:
            self._come.remove(self._missing)
            self._missing += 1
