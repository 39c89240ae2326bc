# SPDX-License-Identifier: Apache-2.0
"""``flytrim sim --top switch``: what leaves, what is told of it, and what its check sees."""

import functools
import json
import os
import random
from collections import Counter
from pathlib import Path

import harness
import numpy as np
import pytest
from roce_packet import RocePacket
from scapy.layers.inet import UDP
from scapy.utils import rdpcap
from switch_traffic import routes, traffic
from switched import CONFIG
from test_cli import pcap

from flytrim import groups
from flytrim.groups import SwitchFile
from flytrim.model.reduction import reduce_payloads
from flytrim.sim import switch_run
from flytrim.sim.capture import Capture
from flytrim.sim.compare import Difference
from flytrim.sim.fabric import Fabric
from flytrim.sim.switch_check import SwitchCheck
from flytrim.sim.switch_counts import check_counts

pytestmark = pytest.mark.model

# With all four types in use this is the switch of switched.CONFIG, which is compiled anyway.
DEVICE = f"""
[device]
width = {CONFIG.width}
clock_mhz = 200
ports = {CONFIG.ports}
groups = {CONFIG.groups}
window = {CONFIG.window}
slot_bytes = {CONFIG.slot_bytes}
max_frame = {CONFIG.max_frame}
forward = [1, 0, -1, -1]
"""
GROUPS = {"words": "int32", "halves": "fp16", "brains": "bf16"}
PACKETS, COPIED = 20, 12
ARP = bytes.fromhex("ffffffffffff020000000001080600010800060400010200000000010a000001"
                    "0000000000000a000009").ljust(60, b"\0")


def flows_toml():
    text = DEVICE
    for number, (name, dtype) in enumerate(GROUPS.items()):
        for port in range(CONFIG.ports):
            text += f"""
[[flow]]
name = "{name}{port}"
src = "10.0.0.{port + 1}"
dst = "10.0.0.9"
dqpn = {0x11 + number}
action = "reduce"
port = {port}
start_psn = 0xFFFFFC
header = {{ src_mac = "02:00:00:00:00:09", dst_mac = "02:00:00:00:00:01", dqpn = 0x21 }}
"""
        text += f"""
[[group]]
name = "{name}"
children = {[f"{name}{port}" for port in range(CONFIG.ports)]}
dtype = "{dtype}"
window = 8
"""
    return text


def sent(port, words):
    """A port's frames: its contributions to the first group, an ARP frame, a copy that is late."""
    own = [RocePacket(opcode="UC_SEND_ONLY", payload=row.tobytes(), src=f"10.0.0.{port + 1}",
                      psn=(0xFFFFFC + offset) % (1 << 24)).to_bytes()
           for offset, row in enumerate(words)]
    return [*own[:3], ARP, *own[3:], own[COPIED]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with flows.toml and a capture for each port in it, and their words."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(harness.seed())
    words = rng.integers(0, 1 << 32, (CONFIG.ports, PACKETS, 64), np.uint32)
    (tmp_path / "flows.toml").write_text(flows_toml())
    for port in range(CONFIG.ports):
        (tmp_path / f"port{port}.pcap").write_bytes(pcap(sent(port, words[port])))
    return words


def sim(ports=CONFIG.ports, out="out"):
    return ("sim", "--top", "switch", *(arg for port in range(ports)
                                        for arg in ("--port", f"port{port}.pcap")),
            "--flows", "flows.toml", "--out", out)


def test_sums_leave_every_port_and_the_rest_is_forwarded(folder, flytrim):
    status, out, err = flytrim(*sim())
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["port", "3", "22", "20", "1", "1"] in rows      # came
    assert ["port", "1", "22", "20", "1", "1"] in rows      # left
    assert ["port", "3", "21", "20", "1", "-"] in rows
    assert next(row for row in rows if row[:1] == ["words"])[1:6] == [
        "sum", "of", "int32", "8", "20"]
    assert out.endswith(
        "check       RTL and model agree on every bit of 86 frames that left: 84 results, 2 "
        "forwarded.\nResults are in out.\n")
    sums = [row.tobytes() for row in folder.sum(0, dtype=np.uint32)]
    for port in range(CONFIG.ports):
        left = rdpcap(f"out/tx{port}.pcap")
        payloads = [bytes(frame[UDP].payload)[12:-4] for frame in left if UDP in frame]
        # All of them in order, and one once more for its copy.
        assert [*dict.fromkeys(payloads)] == sums and len(payloads) == PACKETS + 1
        assert payloads.count(sums[COPIED]) == 2
        assert [bytes(frame) for frame in left if UDP not in frame] == [ARP] * (port < 2)
    figures = json.loads(Path("out/report.json").read_text())
    assert figures["ports"][0]["reasons"] == {"not_ip": 1}
    assert figures["ports"][2]["forward"] is None
    assert [group["results"] for group in figures["groups"]] == [PACKETS, 0, 0]
    assert figures["slots_waiting"] == 0


def test_captures_may_be_fewer_than_ports_and_groups_then_wait(folder, flytrim):
    status, out, err = flytrim(*sim(ports=3))
    assert (status, err) == (0, "")
    # A window of eight waits for port 3, and thirteen packets are beyond.
    assert ["port", "0", "22", "8", "13", "1"] in [line.split() for line in out.splitlines()]
    assert "waiting     8 packets of groups still wait" in out
    assert rdpcap("out/tx3.pcap").res == []
    assert sorted(os.listdir("out")) == ["report.json", "tx0.pcap", "tx1.pcap", "tx2.pcap",
                                         "tx3.pcap"]


class Doctored(Fabric):
    """Changes a bit of the tenth frame that leaves."""

    seen = 0

    def _run(self, *arguments):
        ran, frames = super()._run(*arguments), []
        for left in ran.frames:
            self.seen += 1
            if self.seen == 10:
                bits = bytearray(left.frame)
                bits[50] ^= 4
                left = left._replace(frame=bytes(bits))
            frames.append(left)
        return ran._replace(frames=frames)


def test_a_changed_bit_ends_it_and_nothing_is_written(folder, flytrim, monkeypatch):
    monkeypatch.setattr(switch_run, "Fabric", Doctored)
    before = sorted(os.listdir())
    status, out, err = flytrim(*sim())
    assert (status, out) == (1, "")
    assert err.startswith('flytrim: RTL and model disagree: group "words", offset 2, port ')
    assert err.endswith("1 times, got it 0 times\n") and len(err.splitlines()) == 1
    assert sorted(os.listdir()) == before


SWITCH = ("sim", "--top", "switch", "--flows", "flows.toml", "--out", "out")
NIC = ("sim", "--flows", "flows.toml", "--out", "out")
BAD = {
    "a capture of a NIC": ((*SWITCH, "port0.pcap"), (
        "CAPTURE is for a NIC: give a switch --port port0.pcap, and one --port more for each "
        "further port. Try 'flytrim sim --help'.")),
    "no port": (SWITCH, (
        "Missing option '--port': what enters port 0, then port 1, and so on. Try 'flytrim sim "
        "--help'.")),
    "ports of a NIC": ((*NIC, "--port", "port0.pcap"), (
        "--port is for a switch: give --top switch as well. Try 'flytrim sim --help'.")),
    "no capture": (NIC, "Missing argument 'CAPTURE'. Try 'flytrim sim --help'."),
    "a switch of a NIC's file": ((*NIC, "port0.pcap"), (
        "flows.toml: [[group]] is for a switch: run it with flytrim sim --top switch, or "
        "remove it")),
    **{name: ((*SWITCH, "--port", "port0.pcap", *options), (
        f"{options[0]} is for a NIC: remove it. Try 'flytrim sim --help'."))
       for name, options in {"check": ("--check", "all"), "waves": ("--wave",), "some waves": (
           "--wave-frames", "0:1"), "registers": ("--registers", "socket")}.items()},
    "too many": ((*SWITCH, *("--port", "port0.pcap") * 5), (
        "flows.toml: the switch has 4 ports, and --port is given 5 times: give fewer, or more "
        "'ports' in [device]")),
    "no such capture": ((*SWITCH, "--port", "port0.pcap", "--port", "none.pcap"), (
        "none.pcap: is no readable capture: No such file or directory; give a pcap or pcapng "
        "file")),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses_bad_input_in_one_line_and_writes_nothing(folder, flytrim, case):
    args, message = BAD[case]
    before = sorted(os.listdir())
    assert flytrim(*args) == (2, "", f"flytrim: {message}\n")
    assert sorted(os.listdir()) == before


# What the check sees

MIXES = {
    "in step": ({"others": 0}, {}),
    "with others": ({}, routes(3)),
    "apart": ({"skew": 6}, routes(2)),
    "too much for a port": ({"others": 2}, {0: 3, 1: 3, 2: 3}),
    "back to where they came from": ({"others": 1}, {port: port for port in range(4)}),
}


@pytest.fixture(scope="session", params=MIXES)
def ran(request, switch_program, tmp_path_factory):
    """(setup, arrivals, frames that left, counts) of a run of hard traffic."""
    chosen, forward = MIXES[request.param]
    members, ports = traffic(random.Random(f"{harness.seed()} {request.param}"), **chosen)
    folder, sources = tmp_path_factory.mktemp("captures"), []
    for port, frames in enumerate(ports):
        path = folder / f"{port}.pcap"
        path.write_bytes(pcap(frames))
        sources.append(Capture.scan(path))
    setup = SwitchFile(CONFIG, tuple(members), forward, 250)
    with Fabric(switch_program) as fabric:
        return setup, *switch_run.play(fabric, sources, setup)[:3]


@functools.cache
def _reduced(payloads, *how):
    return reduce_payloads([*payloads], *how)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The model remembers its sums: most of what it takes to judge the same packets once more."""
    monkeypatch.setattr("flytrim.model.switch.reduce_payloads",
                        lambda payloads, *how: _reduced(tuple(payloads), *how))


def verdict(setup, arrivals, frames, counts):
    """What the check says first, and what it agreed to where it says nothing."""
    check = SwitchCheck(setup, arrivals)
    try:
        agreed = check.compare(frames)
        check_counts(counts, setup, check, agreed)
    except Difference as difference:
        return str(difference), None
    return None, agreed


def test_a_right_switch_is_not_accused(ran):
    fault, agreed = verdict(*ran)
    assert fault is None
    assert agreed.certain > 50 and agreed.unchecked == 0
    assert len(agreed.finished) == 3


def _flipped(left, rng):
    bits = bytearray(left.frame)
    bits[rng.randrange(len(bits))] ^= 1 << rng.randrange(8)
    return left._replace(frame=bytes(bits))


#: What somebody does to a frame that leaves: nothing, one or more are in its place.
FORGERIES = {
    "gone": lambda left, rng: [],
    "twice more": lambda left, rng: [left] * 3,
    "another bit": lambda left, rng: [_flipped(left, rng)],
    "marked": lambda left, rng: [left._replace(error=not left.error)],
    "at another port": lambda left, rng: [left._replace(port=(left.port + 1) % CONFIG.ports)],
    "shorter": lambda left, rng: [left._replace(frame=left.frame[:-1])],
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_frame_that_is_not_as_it_was_is_found(ran, forgery):
    setup, arrivals, frames, counts = ran
    rng = random.Random(f"{harness.seed()} {forgery}")
    # A frame that was too long and finds no room is counted as too long, so it is not missed; and
    # a result that leaves again may be marked.
    often = Counter((left.port, left.frame) for left in frames)
    whole = [place for place, left in enumerate(frames)
             if not left.error and often[left.port, left.frame] == 1]
    for place in rng.sample(whole, 8):
        changed = [*frames[:place], *FORGERIES[forgery](frames[place], rng), *frames[place + 1:]]
        fault, _ = verdict(setup, arrivals, changed, counts)
        assert fault is not None, frames[place]


def test_a_result_may_be_marked_that_was_overwritten_while_it_left_again(folder, switch_program):
    setup = groups.load("flows.toml")
    for port in range(CONFIG.ports):
        own = sent(port, folder[port])
        # Offsets 2 and 12 come again; 18 takes the place of the former.
        Path(f"port{port}.pcap").write_bytes(pcap([*own[:11], own[2], *own[11:]]))
    with Fabric(switch_program) as fabric:
        played = switch_run.play(fabric, [
            Capture.scan(f"port{port}.pcap") for port in range(CONFIG.ports)], setup)
    frames = played.frames
    often = Counter((left.port, left.frame) for left in frames)
    early, late = [[place for place, left in enumerate(frames) if often[left.port, left.frame] == 2
                    and folder.sum(0, dtype=np.uint32)[offset].tobytes() in left.frame]
                   for offset in (2, COPIED)]
    assert len(early) == len(late) == 2 * CONFIG.ports
    for place in (early[0], late[0]):
        marked = frames[place]._replace(error=True, frame=frames[place].frame[:-9] + b"overwrite")
        fault, agreed = verdict(setup, played.arrivals,
                                [*frames[:place], marked, *frames[place + 1:]], played.counts)
        assert fault is not None if place in late else agreed.spoilt == 1


def test_a_switch_that_does_nothing_is_found_whatever_it_counts(ran):
    setup, arrivals, frames, counts = ran
    entered = {arrival.frame for arrival in arrivals}
    # Frames that were too long are marked.
    quiet = [left for left in frames if left.error or left.frame in entered]
    assert len(quiet) < len(frames)
    fault, _ = verdict(setup, arrivals, quiet, counts)
    assert fault.startswith('group "g')
    if setup.forward:
        fault, _ = verdict(setup, arrivals, [], counts)
        assert "nothing, and there was room" in fault


def test_counters_are_held_against_what_left(ran):
    setup, arrivals, frames, counts = ran
    switch, reasons = counts.switch, counts.reasons
    port = switch.ports[0]
    told = {
        "packets of children": port._replace(contributions=port.contributions + 1),
        "packets longer than a slot": port._replace(bounds=port.bounds + 1,
                                                    duplicates=port.duplicates - 1),
        "results that left": port._replace(replays=port.replays + 1),
        "results": port._replace(results=port.results + 1, replays=port.replays - 1),
    }
    for what, changed in told.items():
        wrong = counts._replace(switch=switch._replace(ports=(changed, *switch.ports[1:])))
        assert verdict(setup, arrivals, frames, wrong)[0].startswith(
            f"counters of port 0: {what}: expected ")
    for reason in reasons[0]:
        wrong = counts._replace(reasons=[{**reasons[0], reason: reasons[0][reason] + 1},
                                         *reasons[1:]])
        assert verdict(setup, arrivals, frames, wrong)[0].startswith("counters of port 0: ")
    for field in ("results", "flushed"):
        group = counts.groups[1]
        wrong = counts._replace(groups=[counts.groups[0], group._replace(
            **{field: getattr(group, field) + 1}), counts.groups[2]])
        assert verdict(setup, arrivals, frames, wrong)[0].startswith(
            f'counters of group "g1": {field}: expected ')
