# SPDX-License-Identifier: Apache-2.0
"""Groups with a parent: asked again when it is silent, and never told anything that is not so."""

import dataclasses

import harness
from switched import CONFIG, Stuck, Switched, contribution, player, random_group

from flytrim.sim.fabric import SinkMode

ALL = range(CONFIG.ports)
RESEND = 3000


def family(rng, **choices):
    """A group of all ports, the last of which has its parent."""
    group = random_group(0, rng, window=8, ports=ALL, dtype="int32", resend=RESEND, **choices)
    *children, parent = group.children
    return dataclasses.replace(group, children=tuple(children), parent=parent)


def give(both, rng, offset, members, size=64):
    """Packets of an offset; what leaves for them, as (port, frame)."""
    return [leaves for member in members for leaves in both.send(
        member.port, contribution(member, offset, rng.randbytes(size), rng), f"offset {offset}")]


def wait(both, cycles):
    """Frames that leave in so many cycles."""
    return both.fabric.run(both.fabric.run(0).cycle + cycles).frames


def test_a_parent_that_is_silent_is_asked_again_until_it_answers(switch_program):
    rng = player(harness.seed())
    group = family(rng)
    with Switched(switch_program, [group], {}) as both:
        for offset in range(20):
            give(both, rng, offset, group.children)
            asked, = both.settle().frames
            assert asked.port == group.parent.port
            repeats = wait(both, 4 * RESEND)
            assert 3 <= len(repeats) <= 4
            assert {left.frame for left in repeats} == {asked.frame}
            ends = [asked.last, *(left.last for left in repeats)]
            assert all(RESEND <= b - a < RESEND + 200
                       for a, b in zip(ends, ends[1:], strict=False))
            give(both, rng, offset, [group.parent])
            assert sorted(left.port for left in both.settle().frames) == list(group.ports)
            assert not wait(both, 3 * RESEND)


def test_an_offset_that_lacks_a_child_asks_nobody(switch_program):
    rng = player(harness.seed())
    group = family(rng)
    with Switched(switch_program, [group], {}) as both:
        give(both, rng, 0, [*group.children[1:], group.parent])
        assert not both.settle().frames
        assert not wait(both, 3 * RESEND)
        # The answer is there before the question, and is taken.
        give(both, rng, 0, group.children[:1])
        assert sorted(left.port for left in both.settle().frames) == list(group.ports)
        assert both.command("stop_group", 0) == "done"
        assert not wait(both, 3 * RESEND)


def test_what_waits_for_a_stuck_parent_is_not_what_came_behind_it(switch_program):
    rng = player(harness.seed())
    group = family(rng)
    with Switched(switch_program, [group], {}) as both:
        stuck = Stuck(both, rng, group.parent.port)
        asked = set()
        for offset in range(200):
            asked |= {frame for _, frame in give(
                both, rng, offset, group.children, CONFIG.slot_bytes)}
            # More than once in some, so that repeats wait, too.
            stuck.run(rng.choice((500, RESEND, 2 * RESEND)) if offset % 8 == 0 else 500)
            give(both, rng, offset, [group.parent], CONFIG.slot_bytes)
            stuck.run(500)
        both.fabric.sink(group.parent.port, SinkMode.ALWAYS)
        found = stuck.left()
        upward = [data for port, data in found if port == group.parent.port]
        assert upward and set(upward) <= asked
        assert len([port for port, _ in found if port == 0]) == 200
