# SPDX-License-Identifier: Apache-2.0
"""AllReduce of simulated hosts over the reference model of a switch."""

import itertools

import numpy as np
import pytest
import reduced
import softfloat

from flytrim.fabric import DTYPES, OPS, AllReduce, Stalled, modelled, run
from flytrim.fabric.reference import draw
from flytrim.fabric.reference import reduced as reference
from flytrim.fabric.untimed import ModelFabric
from flytrim.model import SwitchModel, reduction
from flytrim.sim.fabric import Left, Ran

HARD = {"loss": 0.1, "duplicate": 0.1, "reorder": 4}


def play(**options):
    plan = AllReduce(**{"bytes": 2048, "payload": 256, "window": 8, "rounds": 3, **options})
    return run(plan, modelled(plan))


def switch(plan, kind=ModelFabric):
    """(model, fabric) of a plan."""
    model = SwitchModel(plan.nodes, slot_bytes=plan.slot_bytes)
    model.configure([plan.group()])
    return model, [kind(model, plan.nodes, plan.rate)]


def test_fifty_rounds_over_a_bad_network_are_right_to_the_bit():
    figures = play(nodes=8, bytes=1024, rounds=50, **HARD)
    assert figures["checked_elements"] == 8 * 50 * 256
    assert figures["differing_elements"] == figures["frame_faults"] == 0
    network = figures["network"]
    assert network["lost"] > 200 and network["duplicated"] > 200 and network["reordered"] > 200
    # Each loss was healed, by something that was sent again.
    assert figures["retransmitted"] > network["lost"] / 2 and figures["results_again"] > 0
    assert {host["sent"] - host["retransmitted"] for host in figures["hosts"]} == {50 * 4}


@pytest.mark.parametrize(("topology", "nodes", "radix"), [
    ("tree", 8, 4), ("tree", 8, 2), ("tree", 7, 3), ("tree", 2, 2), ("tree", 16, 15),
    ("ring", 4, 2), ("ring", 2, 2)])
def test_switches_below_switches_over_a_bad_network_are_right_to_the_bit(topology, nodes, radix):
    figures = play(nodes=nodes, topology=topology, radix=radix, bytes=1024, rounds=20, **HARD)
    assert figures["checked_elements"] == nodes * 20 * 256
    assert figures["difference"] is None and figures["frame_faults"] == 0
    for uplink in figures["uplinks"]:
        # What a link loses, the switch below has sent again.
        assert uplink["up"]["frames"] > 80 and uplink["down"]["frames"] > 80
        assert uplink["up"]["lost"] and uplink["down"]["lost"]


def test_a_good_network_of_switches_sends_everything_once():
    figures = play(nodes=8, topology="tree", radix=2)
    assert [uplink["parent"] for uplink in figures["uplinks"]] == [
        "switch 4", "switch 4", "switch 5", "switch 5", "switch 6", "switch 6"]
    assert figures["retransmitted"] == figures["results_again"] == 0
    for link in (*figures["hosts"], *figures["uplinks"]):
        assert link["up"]["frames"] == link["down"]["frames"] == 3 * 8


def test_a_good_network_needs_no_packet_more_than_the_data():
    figures = play(nodes=4)
    assert figures["retransmitted"] == figures["results_again"] == 0
    for host in figures["hosts"]:
        assert host["up"]["frames"] == host["down"]["frames"] == 3 * 8
        assert host["up"]["wire_bytes"] == 3 * 8 * (256 + 58 + 24)
        assert host["down"]["wire_bytes"] == 3 * 8 * (256 + 62 + 24)
    # Two thirds of the data each way, twice: six steps of 512 bytes.
    assert figures["ring"]["wire_bytes_a_link"] == 3 * 6 * 2 * (256 + 58 + 24)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_every_operation_and_type(op, dtype):
    figures = play(nodes=5, op=op, dtype=dtype, bytes=1000, payload=120, rounds=2, **HARD)
    assert figures["checked_elements"] == 5 * 2 * (1000 // np.dtype(
        np.uint32 if dtype in ("fp32", "int32") else np.uint16).itemsize)
    assert figures["difference"] is None and figures["frame_faults"] == 0


@pytest.mark.parametrize("nodes", [2, 3, 16])
@pytest.mark.parametrize("window", [2, 16])
def test_hosts_keep_to_the_window_whatever_the_network_does(nodes, window):
    plan = AllReduce(nodes=nodes, bytes=2048, payload=128, window=window, rounds=2, **HARD)
    model, fabric = switch(plan)
    assert run(plan, fabric)["difference"] is None
    for counts in model.port_counts:
        assert counts["contributions"] == 2 * plan.packets and counts["duplicates"] > 0
        assert counts["results"] == 2 * plan.packets and counts["replays"] > 0
        assert counts["out_of_window"] == counts["bounds"] == counts["stopped"] == 0


def test_rounds_of_no_bytes_are_barriers():
    figures = play(bytes=0, rounds=20, **HARD)
    assert figures["checked_elements"] == 0 and figures["frame_faults"] == 0
    assert all(host["sent"] - host["retransmitted"] == 20 for host in figures["hosts"])


def test_a_seed_repeats_a_run_and_another_one_does_not():
    first, again, other = (play(nodes=4, seed=seed, **HARD) for seed in (3, 3, 4))
    assert first == again and first["network"] != other["network"]


def test_a_result_does_not_depend_on_who_comes_first():
    """The same data in other orders: each result is checked, so the bits are the same."""
    class Shuffled(ModelFabric):
        """Lets what arrives within a step enter in another order of ports."""

        def send(self, port, frame, cycle=0, error=False):
            super().send(port, frame, cycle // 64 * 64 + (port * 37 + cycle) % 61, error)

    for delay, kind in itertools.product((40, 1000), (ModelFabric, Shuffled)):
        plan = AllReduce(nodes=4, bytes=512, payload=256, rounds=3, window=4, delay_ns=delay)
        assert run(plan, switch(plan, kind)[1])["difference"] is None


def test_a_wrong_sum_is_found(monkeypatch):
    def wrong(payloads, *arguments):
        result = right(payloads, *arguments)
        if len(result) == 256:
            result = result[:100] + bytes([result[100] ^ 1]) + result[101:]
        return result

    right = reduction.reduce_payloads
    monkeypatch.setattr("flytrim.model.switch.reduce_payloads", wrong)
    figures = play(nodes=4, bytes=512, dtype="int32")
    assert figures["differing_elements"] == 4 * 3 * 2
    assert figures["difference"].startswith("host ") and ", round 0, element 25: 0x" in (
        figures["difference"])


def test_another_order_of_summation_is_found(monkeypatch):
    right = reduction.reduce_payloads
    monkeypatch.setattr("flytrim.model.switch.reduce_payloads",
                        lambda payloads, *others: right([*payloads[1:], payloads[0]], *others))
    assert play(nodes=4, rounds=1)["differing_elements"] > 100


class Deaf:
    """A switch that takes and gives nothing, and one that breaks a rule."""

    def __init__(self, faults=()):
        self._faults = list(faults)

    def send(self, *_):
        pass

    def run(self, until):
        return Ran(until, [], self._faults, (0,) * 4, (0,) * 4, False)


class Wrong(Deaf):
    """Sends every host what is no result."""

    def run(self, until):
        return super().run(until)._replace(frames=[Left(0, until, until, False, bytes(60))])


def test_a_switch_that_says_nothing_is_given_up():
    with pytest.raises(Stalled, match=r"no result came since cycle [\d,]+: host 0 waits for "
                                      r"result 0, host 1 waits for result 0, .*"):
        run(AllReduce(nodes=4, bytes=64), [Deaf()])


def test_a_switch_that_breaks_a_rule_is_given_up():
    with pytest.raises(Stalled, match="breaks a rule of its ports: cycle 9: tx0: a gap"):
        run(AllReduce(nodes=4, bytes=64), [Deaf(["cycle 9: tx0: a gap after 64 bytes"])])


def test_frames_that_are_no_results_are_told_when_it_is_given_up():
    with pytest.raises(Stalled, match="a frame is no result: host 0, cycle .*: destination MAC"):
        run(AllReduce(nodes=4, bytes=64), [Wrong()])


@pytest.mark.parametrize(("changes", "why"), [
    ({"nodes": 17}, "nodes must be 2 to 16 hosts, not 17"),
    ({"bytes": 6}, "bytes must be whole elements of 4 bytes, not 6"),
    ({"bytes": -4}, "bytes"), ({"rounds": 0}, "rounds"),
    ({"topology": "mesh"}, "topology must be one of star, tree, ring, not 'mesh'"),
    ({"radix": 1}, "radix must be 2 to 15 children, not 1"), ({"loss": 0.6}, "loss"),
    ({"duplicate": -0.1}, "duplicate"), ({"reorder": -1}, "reorder"), ({"seed": -1}, "seed"),
    ({"width": 100}, "width"), ({"window": 3}, "window"), ({"payload": 2}, "payload"),
    ({"payload": 8196}, "payload"), ({"delay_ns": 0}, "delay_ns"), ({"clock_mhz": 0}, "clock_mhz"),
])
def test_a_plan_that_cannot_be_is_refused(changes, why):
    with pytest.raises(ValueError, match=why):
        AllReduce(**changes)


# The reference itself


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("ports", [2, 3, 5, 8])
def test_the_reference_is_what_softfloat_makes(ports, op, dtype):
    count = 4000
    columns = [draw((np.random.default_rng(5), np.random.default_rng([6, port])), count, dtype)
               for port in range(ports)]
    integer = np.full(count, dtype == "int32")
    code = np.full(count, {"sum": 0, "min": 4, "max": 5}[op])
    name = {"fp16": "f16", "bf16": "bf16"}.get(dtype)
    wide = [softfloat.widen(each, name)[0] if name else each.astype(np.uint32) for each in columns]
    z, _ = reduced.tree(wide, code, integer)
    if name:
        z, _ = softfloat.narrow(z, name)
    np.testing.assert_array_equal(reference(columns, op, dtype), z)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_data_is_gradients_and_a_share_of_what_is_hard(dtype):
    bits = draw((np.random.default_rng(5), np.random.default_rng(6)), 100_000, dtype)
    sign, fraction = {"fp32": (31, 23), "bf16": (15, 7), "fp16": (15, 10)}[dtype]
    magnitude = bits.astype(np.uint64) & (1 << sign) - 1
    infinity = (1 << sign) - (1 << fraction)
    shares = {
        "subnormal": (magnitude > 0) & (magnitude < 1 << fraction),
        "-0": bits == 1 << sign, "infinity": magnitude == infinity, "NaN": magnitude > infinity,
        "nearly infinite": (magnitude < infinity) & (magnitude >= infinity - (1 << fraction))}
    for name, where in shares.items():
        assert 0.002 < where.mean() < 0.05, name
    assert 0.9 < 1 - sum(where.mean() for where in shares.values()) < 0.97
