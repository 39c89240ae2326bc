# SPDX-License-Identifier: Apache-2.0
"""The coverage plan: what frames must have been through the hardware before a run counts.

Points are axes; crosses are what is counted. A bin is left out by a rule of :data:`RULES`, which
follows from the definition of the reasons, never because nothing reached it. A sample that falls
in such a bin is a fault.
"""

import itertools

import directed
import frames
from cocotb_coverage.coverage import CoverCross, CoverPoint, coverage_db, coverage_section

from flytrim.config import NicConfig
from flytrim.driver import Device
from flytrim.model import NicModel
from flytrim.sim.compare import Comparer
from flytrim.sim.replay import Output, Replay, SinkMode
from flytrim.verdict import Reason, Verdict

__all__ = ["CONFIG", "CROSSES", "FLOOR", "RULES", "Coverage", "play_plan"]

#: The device that ``flytrim sim`` runs for a flows file of 64 bits, so that it is there already.
CONFIG = NicConfig(width=64, flows=64, max_frame=directed.MAX_FRAME)
#: Percent of the reachable bins of each cross that a run must reach.
FLOOR = 95
#: Times that the plan is made, each time with other values for all that it leaves open.
PLANS = 2
#: Frames of these payloads leave an output a tenth of the room it asks for, and its sink takes a
#: beat in so few of 256 cycles that hardly another frame finds room.
FILL_BYTES, STALLED_RATE = (5600, 5600, 5600, 5600, 9100), 2

#: Reasons of frames that are admitted to trim and found damaged later.
_DAMAGES = (Reason.MAC_ERROR, Reason.TRUNCATED, Reason.ICRC)
#: Reasons of frames on which the preset of their flow has been asked.
_ASKED = (Reason.NONE, Reason.OPCODE, Reason.MESSAGE_LENGTH)
# Bins of each axis, and its value from what the frame was built from and the hardware's reason.
# Where it is None, no cross with that axis counts the frame.
_AXES = {
    "stack": (tuple(directed.STACKS), lambda order, reason: order.stack),
    "opcode": (directed.OPCODES, lambda order, reason: order.opcode),
    "pad": (tuple(range(4)), lambda order, reason: order.pad),
    "length": (tuple(directed.LENGTHS), lambda order, reason: order.length),
    "reason": (tuple(Reason), lambda order, reason: reason),
    "trimmed": ((Verdict.TRIM,), lambda order, reason: reason.verdict),
    "damage": (_DAMAGES, lambda order, reason: reason if reason in _DAMAGES else None),
    "preset": (directed.PRESETS, lambda order, reason: order.preset if reason in _ASKED else None),
}
#: The crosses, by name.
CROSSES = {
    # Where the payload begins and ends in a beat, for every header chain: the data path.
    "trimmed": ("stack", "opcode", "pad", "length", "trimmed"),
    # Which reason wins, whatever else the headers say.
    "headers": ("stack", "opcode", "reason"),
    "lengths": ("pad", "length", "reason"),
    # The last beat of a packet that is marked bad.
    "damaged": ("opcode", "length", "damage"),
    # Which packets a preset length concerns, and which not.
    "presets": ("opcode", "length", "preset"),
}


def _ruled(opcodes=None, lengths=None, **values):
    """Patterns with each of ``opcodes`` or of ``lengths`` and each one of an axis' values."""
    axis, choices = ("opcode", opcodes) if opcodes else ("length", lengths)
    return [{axis: choice, other: value}
            for choice in choices for other, listed in values.items() for value in listed]


#: What cannot be, and why: each bin that one of the patterns matches is left out.
RULES = {
    "an opcode without payload is never admitted to trim, so never trimmed or dropped as damaged":
        _ruled(opcodes=directed.WITHOUT_PAYLOAD, reason=(Reason.NONE, *_DAMAGES), damage=_DAMAGES,
               trimmed=(Verdict.TRIM,)),
    "a preset length concerns ONLY packets":
        _ruled(opcodes=[name for name in directed.OPCODES if name not in directed.ONLY],
               reason=(Reason.MESSAGE_LENGTH,)),
    "no payload is longer than a preset if it has no bytes":
        _ruled(lengths=("0",), reason=(Reason.MESSAGE_LENGTH,),
               preset=(directed.LONGER, directed.CUT)),
}


class _Cross(CoverCross):
    """A cross that knows how many bins it reached; the library's counts them twice a sample."""

    def __init__(self, name, items, ign_bins):
        self._reached = set()
        super().__init__(name, items, ign_bins)

    @property
    def coverage(self):
        self._reached.update(self._new_hits)
        return len(self._reached)


class Coverage:
    """Coverage of the plan, in cocotb-coverage's database under ``name``, which is used once."""

    def __init__(self, name="frames"):
        self.name = name
        patterns = [pattern for rule in RULES.values() for pattern in rule]
        self._excluded = {frozenset(pattern.items()) for pattern in patterns}
        points = [CoverPoint(f"{name}.{axis}", xf=value, bins=list(bins))
                  for axis, (bins, value) in _AXES.items()]
        crosses = [_Cross(f"{name}.{cross}_cross", [f"{name}.{axis}" for axis in axes],
                          [tuple(pattern.get(axis) for axis in axes)
                           for pattern in patterns if pattern.keys() <= set(axes)])
                   for cross, axes in CROSSES.items()]
        self._items = dict(zip(CROSSES, crosses, strict=True))
        self._sample = coverage_section(*points, *crosses)(lambda order, reason: None)

    def sample(self, order, reason):
        """Count a frame that was built from ``order`` and for which the hardware gave ``reason``.

        Raises ``AssertionError`` where that cannot be.
        """
        values = {axis: value(order, reason) for axis, (_, value) in _AXES.items()}
        wrong = [set(pair) for pair in itertools.combinations(values.items(), 2)
                 if frozenset(pair) in self._excluded]
        assert not wrong, f"excluded by the plan, and yet it came: {order}, {reason}: {wrong}"
        self._sample(order, reason)

    def missing(self, cross):
        """The reachable bins of ``cross`` that were not reached, each as a dict by axis."""
        return [dict(zip(CROSSES[cross], found, strict=True))
                for found, hits in self._items[cross].detailed_coverage.items() if not hits]

    def orders(self, rng):
        """Orders for every bin that is missing, what the bins leave open drawn at random."""
        planned, orders = set(), []
        for cross in CROSSES:
            for wanted in self.missing(cross):
                if (cross, *wanted.values()) not in planned:
                    order = _complete(rng, wanted)
                    orders.append(order)
                    values = {axis: value(order, order.reason)
                              for axis, (_, value) in _AXES.items()}
                    planned.update((other, *(values[axis] for axis in axes))
                                   for other, axes in CROSSES.items())
        rng.shuffle(orders)
        return orders

    def table(self):
        """The figures as text, one line a cross and one for all, then the rules."""
        rows = [("cross", "axes", "bins", "excluded", "reachable", "reached", "%")]
        for cross, item in self._items.items():
            bins = 1
            for axis in CROSSES[cross]:
                bins *= len(_AXES[axis][0])
            rows.append((cross, " x ".join(CROSSES[cross]), bins, bins - item.size, item.size,
                         item.coverage, f"{item.cover_percentage:.1f}"))
        sums = [sum(column) for column in zip(*(row[2:6] for row in rows[1:]), strict=True)]
        rows.append(("all", "", *sums, f"{100 * sums[3] / sums[2]:.1f}"))
        lines = ["{:<8} {:<40} {:>6} {:>9} {:>10} {:>8} {:>6}".format(*row) for row in rows]
        return "\n".join([*lines, *(f"excluded: {rule}" for rule in RULES)])

    def check(self):
        """Raises ``AssertionError`` with what is missing where a cross is below :data:`FLOOR`."""
        faults = []
        for cross, item in self._items.items():
            if item.cover_percentage < FLOOR:
                bins = [" x ".join(map(str, found.values())) for found in self.missing(cross)]
                faults.append(f"{cross}: {item.cover_percentage:.1f} % of the reachable bins, "
                              f"not {FLOOR} %; missing {len(bins)}: {', '.join(bins[:10])}")
        assert not faults, "\n".join(faults)

    def close(self):
        """Take the figures out of the database."""
        for name in [name for name in coverage_db if name.split(".")[0] == self.name]:
            del coverage_db[name]


def _complete(rng, wanted):
    """An order in the bin ``wanted``."""
    axes = {"stack": rng.choice(tuple(directed.STACKS)), "pad": rng.randrange(4), **wanted}
    preset = wanted.get("preset")
    reason = wanted.get("reason", wanted.get("damage", Reason.NONE))
    if preset and wanted["opcode"] in directed.WITHOUT_PAYLOAD:
        reason = Reason.OPCODE
    elif preset == directed.LONGER and wanted["opcode"] in directed.ONLY:
        reason = Reason.MESSAGE_LENGTH
    opcodes = directed.OPCODES
    if reason is Reason.MESSAGE_LENGTH:
        opcodes = directed.ONLY
    elif reason is Reason.NONE or reason in _DAMAGES:
        opcodes = [name for name in directed.OPCODES if name not in directed.WITHOUT_PAYLOAD]
    opcode = wanted.get("opcode") or rng.choice(opcodes)
    lengths = tuple(directed.LENGTHS)[reason is Reason.MESSAGE_LENGTH:]
    length = wanted.get("length") or rng.choice(lengths)
    return directed.Order(axes["stack"], opcode, axes["pad"], length,
                 preset or rng.choice(_presets(opcode, length, reason)), reason)


def _presets(opcode, length, reason):
    """Presets that a frame may have and still end for ``reason``."""
    if reason is Reason.MESSAGE_LENGTH:
        return [directed.LONGER]
    if reason not in (Reason.NONE, Reason.OPCODE, *_DAMAGES):
        return [directed.NO_PRESET]
    if length == "0":
        return [directed.NO_PRESET, directed.FITS]
    lets_pass = opcode not in directed.ONLY or reason is Reason.OPCODE
    return [preset for preset in directed.PRESETS if lets_pass or preset != directed.LONGER]


def play_plan(program, rng, coverage, counts=(None, None)):
    """Send frames of every bin through a replay program, each compared with the model.

    ``counts`` are the files for the counts of a program that keeps some, one for each of the two
    runs: the frames that need stalled sinks come in a run of their own. Returns how many frames
    were sent.
    """
    orders = [order for _ in range(PLANS) for order in coverage.orders(rng)]
    sent = 0
    for stalled, file in zip((False, True), counts, strict=True):
        chosen = [order for order in orders if (order.reason is Reason.OVERFLOW) == stalled]
        made = [(order, *directed.make(rng, order)) for order in chosen]
        if stalled:
            made = [(None, frame, False) for frame in _filling()] + made
        with Replay(program, file) as replay:
            _play(replay, rng, coverage, made, stalled)
        sent += len(made)
    return sent


def _filling():
    """Frames that fill the output of trimmed packets and the one of other frames."""
    flow = directed.FLOWS[0]
    return [frames.roce_frame("RC_SEND_ONLY", bytes(size), src=flow.src, dst=flow.dst, dqpn=dqpn,
                              udp_dport=flow.udp_dport)
            for size in FILL_BYTES for dqpn in (flow.dqpn, flow.dqpn ^ 1)]


def _play(replay, rng, coverage, made, stalled):
    replay.reset()
    Device(replay).insert_flows(directed.FLOWS)
    for output in Output if stalled else ():
        replay.sink(output, SinkMode.RANDOM, rate=STALLED_RATE, seed=rng.getrandbits(32))
    replay.feed((frame, error) for _, frame, error in made)
    errors = {number for number, (_, _, error) in enumerate(made) if error}
    comparer = Comparer(((order, frame) for order, frame, _ in made),
                        NicModel(directed.FLOWS, CONFIG.max_frame), errors=errors,
                        overflow=CONFIG if stalled else None)
    for outcome in comparer.outcomes(replay.events()):
        if outcome.header:
            coverage.sample(outcome.header, outcome.reason)
    comparer.close(len(made))
    assert comparer.checked == len(made)
