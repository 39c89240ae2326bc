# SPDX-License-Identifier: Apache-2.0
"""What enters the ports of a switch: groups, and beside them all that such a port may see."""

import background
from switched import CONFIG, contribution, numbers, random_group

__all__ = ["routes", "traffic"]

WINDOW = 8


def routes(count):
    """Frames of this many ports leave by the next one."""
    return {port: (port + 1) % CONFIG.ports for port in range(count)}


def traffic(rng, *, offsets=50, skew=0.0, others=0.3):
    """(groups, frames of each port in order).

    Contributions come doubled, late, damaged, with other bits, of other lengths, and far ahead of
    the window. ``skew`` is how many offsets they come apart, ``others`` how many frames of no group
    there are beside each of them.
    """
    groups = [random_group(number, rng, window=WINDOW, ports=range(CONFIG.ports) if not number
                           else None) for number in range(3)]
    ports = [[] for _ in range(CONFIG.ports)]
    for group in groups:
        for offset in range(offsets):
            size = 4 * rng.choice((0, 1, 2, 3, 16, 64))
            for child in group.children:
                ports[child.port] += _contributions(rng, group, child, offset, size, skew)
    for entering in ports:
        entering += [(rng.random() * offsets, _other(rng))
                     for _ in range(int(others * len(entering)))]
    return groups, [[frame for _, frame in sorted(entering, key=lambda each: each[0])]
                    for entering in ports]


def _contributions(rng, group, child, offset, size, skew):
    """(when, frame) of what a child sends of an offset."""
    def packet(size, offset=offset, **fields):
        return contribution(child, offset, numbers(rng, size, group.dtype), rng, **fields)

    when, chance = offset + rng.random() * skew, rng.random
    own = packet(rng.choice((size + 4, CONFIG.slot_bytes + 4, 15)) if chance() < 0.02 else size)
    yield when, own
    if chance() < 0.1:
        yield when + rng.random() * 1.5 * WINDOW, own
    if chance() < 0.02:
        yield offset + rng.random() * 3, packet(size)
    if chance() < 0.03:
        yield when - 0.5, packet(size, icrc=b"nope")
    if chance() < 0.02:
        yield when - 0.5, own[:-3]
    if chance() < 0.02:
        yield when, packet(size, offset + 5 * WINDOW)


def _other(rng):
    return rng.choice((
        background.arp, background.tcp6,
        lambda: background.tcp(size=rng.choice((1, 64, 700, 1400))),
        lambda: background.udp(dport=53), lambda: background.tcp(size=512, vlan=100),
        lambda: rng.randbytes(rng.randrange(1, 60)),
        lambda: rng.randbytes(CONFIG.max_frame + rng.randrange(1, 200))))()
