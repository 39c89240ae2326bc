# SPDX-License-Identifier: Apache-2.0
"""TrimNic under hostile frames, back to back at full rate: no hang, and no neighbour is harmed.

Every bit that leaves is compared with the model. Of the good frames in between the payload is known
from how they were made, too.
"""

import random
from collections import Counter

import harness
import pytest
from hostile import GOOD, KINDS, hostile_frames
from replayed import play

from flytrim.config import NicConfig
from flytrim.sim.build import build, device_verilog
from flytrim.verdict import Reason, Verdict

#: Hostile frames of one run of the device. Each run has sound packets of its own to grow them from,
#: and what memory is needed does not depend on how many runs there are.
CHUNK = 50_000


@pytest.mark.model
def test_no_hostile_frame_harms_another(width, pytestconfig, record_property):
    config = NicConfig(width=width)
    program = build(config, device_verilog(config))
    total, counts, kinds = pytestconfig.getoption("--frames"), Counter(), Counter()
    for start in range(0, total, CHUNK):
        about = f"{width} bits, SEED={harness.seed()}, chunk {start // CHUNK}"
        made = list(hostile_frames(random.Random(about), min(CHUNK, total - start),
                                   beat=config.lanes, max_frame=config.max_frame))
        for outcome in play(program, config, made, about):
            sent = outcome.header
            counts[sent.kind == GOOD, outcome.reason] += 1
            kinds[sent.kind] += 1
            if sent.kind == GOOD:
                assert (outcome.verdict, outcome.output) == (Verdict.TRIM, sent.payload), (
                    f"{about}: frame {outcome.index} was harmed: {sent}")
    text = table(counts, f"{counts.total():,} frames at {width} bits, SEED={harness.seed()}")
    print(text)
    record_property("hostile frames", text)
    assert kinds[GOOD] == total + -(-total // CHUNK) and kinds.total() - kinds[GOOD] == total
    # Nothing is hostile that does not come, and what comes is told in every way there is.
    few = [kind for kind in KINDS if kinds[kind] < total // 500]
    few += [reason for reason in Reason
            if reason is not Reason.OVERFLOW and counts[False, reason] < total // 2000]
    assert not few, f"hardly any {few}: {text}"


def table(counts, head):
    """Counts by verdict and reason as text, those of good frames beside those of hostile ones."""
    lines = [head, f"{'verdict':<8} {'reason':<16} {'hostile':>10} {'good':>10}"]
    for reason in Reason:
        if counts[False, reason] or counts[True, reason]:
            lines.append(f"{reason.verdict!s:<8} {'' if reason is Reason.NONE else reason!s:<16} "
                         f"{counts[False, reason]:>10,} {counts[True, reason]:>10,}")
    return "\n".join(lines)
