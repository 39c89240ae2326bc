# SPDX-License-Identifier: Apache-2.0
"""``scripts/collective_flows.py``: each rank's device trims what its neighbours send, alone."""

import re
import subprocess
import sys
from pathlib import Path

import background
import frames
import numpy as np
import pytest
import roce
from bar import OFFSET, write_bar
from click.testing import CliRunner

from flytrim import flows
from flytrim.discover import find_flows
from flytrim.driver import MappedFile, Registers
from flytrim.model import NicModel
from flytrim.verdict import Reason, Verdict

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

import collective_flows  # noqa: E402
import demo_traffic  # noqa: E402

RANKS = range(8)
#: Parents of the tree of channel 0, rank by rank; that of channel 1 is its mirror image.
PARENTS = (None, 2, 4, 2, 0, 6, 4, 6)
#: A queue pair that a rank sends from. Answers arrive there, and permissions to send.
SENDING_QPN = 0x900
RING, TREE = ((SCRIPTS / name).read_text() for name in ("ring8.toml", "tree8.toml"))


def address(rank):
    return f"10.0.0.{rank + 1}"


def ring():
    """(channel, sender, receiver, its queue pair) of ring8.toml."""
    for rank in RANKS:
        yield 0, (rank - 1) % 8, rank, 0x100 + 16 * rank
        yield 1, (rank + 1) % 8, rank, 0x101 + 16 * rank


def tree():
    """The same of tree8.toml."""
    parents = PARENTS, tuple(None if up is None else 7 - up for up in reversed(PARENTS))
    for channel, ups in enumerate(parents):
        for rank in RANKS:
            downs = [other for other in RANKS if ups[other] == rank]
            senders = ([] if ups[rank] is None else [ups[rank]]) + downs
            for index, sender in enumerate(senders):
                yield channel, sender, rank, 0x100 + 16 * rank + 4 * channel + index


def alike():
    """A ring in which all ranks have queue pairs of the same two numbers."""
    for channel, sender, rank, qpn in ring():
        yield channel, sender, rank, qpn & 0xF0F


COMMUNICATORS = {"ring": (RING, list(ring())), "tree": (TREE, list(tree())),
                 "alike": (re.sub(r"0x1\d(\d)", r"0x10\1", RING), list(alike()))}


@pytest.fixture(params=COMMUNICATORS)
def communicator(request, tmp_path):
    """(models of the devices by rank, connections)"""
    text, connections = COMMUNICATORS[request.param]
    path = tmp_path / "communicator.toml"
    path.write_text(text)
    models = []
    for rank in RANKS:
        written = tmp_path / f"flows{rank}.toml"
        written.write_text(collective_flows.flows_toml(
            collective_flows.rank_flows(path, rank), "a test"))
        models.append(NicModel(flows.load(written).flows))
    return models, connections


def built(opcode, payload=b"", **fields):
    return roce.build(frames.roce_packet(opcode, payload, **fields))


def message(rng, **fields):
    """(frame, payload) of a message in one packet, of one of three, and of one without payload."""
    packets = [("RC_WRITE_ONLY_IMM", 1024), ("RC_WRITE_FIRST", 256), ("RC_WRITE_MIDDLE", 256),
               ("RC_WRITE_LAST_IMM", 100), ("RC_WRITE_ONLY_IMM", 0), ("UC_SEND_ONLY", 4)]
    for psn, (opcode, size) in enumerate(packets):
        payload = rng.randbytes(size)
        yield built(opcode, payload, psn=psn, udp_sport=rng.randrange(0xC000, 0x10000),
                    immediate=size, **fields), payload


def passed(model, frame):
    """The reason why a frame leaves by bypass, as it came."""
    judged = model.judge(frame)
    assert (judged.verdict, judged.bypass) == (Verdict.BYPASS, frame)
    return judged.reason


def test_messages_are_trimmed_at_the_neighbour_and_nowhere_else(communicator, rng):
    models, connections = communicator
    for channel, sender, receiver, qpn in connections:
        for frame, payload in message(rng, src=address(sender), dst=address(receiver), dqpn=qpn):
            for rank, model in enumerate(models):
                if rank != receiver:
                    assert passed(model, frame) is Reason.NO_FLOW
                    continue
                judged = model.judge(frame)
                assert (judged.verdict, judged.payload) == (Verdict.TRIM, payload)
                assert model.flows[judged.flow].name == f"c{channel}-r{sender}-to-r{receiver}"


def test_what_else_travels_between_neighbours_passes_by(communicator):
    models, connections = communicator
    for _, sender, receiver, qpn in connections:
        there = {"src": address(sender), "dst": address(receiver)}
        back = {"src": address(receiver), "dst": address(sender)}
        for frame in (frames.ack(**there, dqpn=qpn), frames.cnp(**there, dqpn=qpn),
                      frames.read_request(**there, dqpn=qpn)):
            assert passed(models[receiver], frame) is Reason.OPCODE
        for model in models:
            # Of these two the second has payload: it permits the sender to send.
            assert passed(model, frames.ack(**back, dqpn=SENDING_QPN)) is Reason.NO_FLOW
            assert passed(model, built("RC_WRITE_ONLY", bytes(64), **back,
                                       dqpn=SENDING_QPN)) is Reason.NO_FLOW
            assert passed(model, built("RC_SEND_ONLY", bytes(64), **there,
                                       dqpn=qpn + 0x80)) is Reason.NO_FLOW
            assert passed(model, background.tcp(size=64)) is Reason.NOT_UDP


def test_a_message_that_is_too_long_passes_by(communicator):
    models, connections = communicator
    for _, sender, receiver, qpn in connections:
        frame = built("RC_SEND_ONLY", bytes(1025), src=address(sender), dst=address(receiver),
                      dqpn=qpn)
        assert passed(models[receiver], frame) is Reason.MESSAGE_LENGTH


def test_flows_are_those_that_a_capture_of_the_messages_shows(communicator, rng):
    models, connections = communicator
    for rank, model in enumerate(models):
        capture = [frame for _, sender, receiver, qpn in connections if receiver == rank
                   for frame, _ in message(rng, src=address(sender), dst=address(rank), dqpn=qpn)]
        assert ({(flow.src, flow.dst, flow.dqpn) for flow in find_flows(capture)}
                == {(flow.src, flow.dst, flow.dqpn) for flow in model.flows})


def test_a_tree_of_two_channels_takes_four_flows_at_most(tmp_path):
    path = tmp_path / "tree.toml"
    path.write_text(TREE)
    counts = [len(collective_flows.rank_flows(path, rank).flows) for rank in RANKS]
    assert counts == [2, 4, 4, 4, 4, 4, 4, 2]


def test_the_root_of_a_star_registers_what_the_demo_does(tmp_path, rng):
    workers = [worker for worker in demo_traffic.WORKERS
               if worker.dst == demo_traffic.SWITCH and worker.vlan is None]
    ups = ", ".join(f"{n} = {worker.dqpn}" for n, worker in enumerate(workers, 1))
    ranks = [(demo_traffic.SWITCH, ups), *((worker.src, "0 = 7") for worker in workers)]
    path = tmp_path / "star.toml"
    path.write_text("[communicator]\nalgorithm = 'tree'\n" + "".join(
        f"[[rank]]\naddress = '{end}'\nqpn = [{{ {qpn} }}]\n" for end, qpn in ranks))
    root = collective_flows.rank_flows(path, 0)

    demo = tmp_path / "demo.toml"
    demo.write_text(demo_traffic.flows_toml())
    names = {worker.name for worker in workers}
    assert len(names) == 5
    assert ([flow.key for flow in root.flows]
            == [flow.key for flow in flows.load(demo).flows if flow.name in names])
    model = NicModel(root.flows)
    for worker in workers:
        for frame in demo_traffic.messages(worker, np.arange(300), rng):
            assert model.judge(frame).verdict is Verdict.TRIM


@pytest.fixture
def rank_flows(tmp_path):
    """The flows of a rank in a communicator of this text."""
    def rank_flows(text, rank=0):
        path = tmp_path / "communicator.toml"
        path.write_text(text)
        return collective_flows.rank_flows(path, rank)
    return rank_flows


def test_options_stand_in_every_flow(rank_flows):
    given = "excess = 'cut'\nicrc = 'ignore'\nvlan = 100\nudp_sport = 5\nudp_dport = 4793\n"
    for flow in rank_flows(TREE.replace("\n[[rank]]", f"{given}[[rank]]", 1), 4).flows:
        assert (flow.message_bytes, flow.excess, flow.icrc) == (1024, "cut", "ignore")
        assert (flow.vlan, flow.udp_sport, flow.udp_dport) == (100, 5, 4793)


def test_an_ipv4_address_may_be_given_as_a_gid(rank_flows):
    mapped = RING.replace('"10.0.0.', '"::ffff:10.0.0.')
    assert rank_flows(mapped).flows == rank_flows(RING).flows


def test_a_connection_may_have_several_queue_pairs_or_none(rank_flows):
    several = RING.replace("7 = 0x100", "7 = [0x100, 0x1100]")
    assert [(flow.name, flow.dqpn) for flow in rank_flows(several).flows] == [
        ("c0-r7-to-r0-q0", 0x100), ("c0-r7-to-r0-q1", 0x1100), ("c1-r1-to-r0", 0x101)]
    # Ranks 0 and 1 are on one host: nothing that they send each other is on the wire.
    local = RING.replace("1 = 0x101", "1 = []").replace("0 = 0x110", "0 = []")
    assert [flow.name for flow in rank_flows(local).flows] == ["c0-r7-to-r0"]
    assert [flow.name for flow in rank_flows(local, 1).flows] == ["c1-r2-to-r1"]


def test_ranks_of_one_address_share_a_device(rank_flows):
    shared = RING.replace('"10.0.0.5"', '"10.0.0.1"')
    names = ["c0-r7-to-r0", "c1-r1-to-r0", "c0-r3-to-r4", "c1-r5-to-r4"]
    assert [flow.name for flow in rank_flows(shared).flows] == names
    assert [flow.name for flow in rank_flows(shared, 4).flows] == names


@pytest.mark.parametrize(("count", "entries"), [(64, 64), (65, 128), (115, 128), (116, 256)])
def test_many_flows_get_a_table_that_takes_them(rank_flows, tmp_path, count, entries):
    text = RING.replace("7 = 0x100", f"7 = {list(range(0x1000, 0x1000 + count - 1))}")
    setup = rank_flows(text)
    assert (len(setup.flows), setup.config.flows) == (count, entries)
    written = tmp_path / "flows.toml"
    written.write_text(collective_flows.flows_toml(setup, "many"))
    assert flows.load(written) == setup


@pytest.mark.parametrize(("text", "message"), [
    ("", '[communicator]: algorithm is missing: it must be "ring" or "tree"'),
    (RING.replace("= 1024 ", "= "), "is not TOML: "),
    (RING.replace("algorithm", "algoritm"),
     '[communicator]: unknown key "algoritm": did you mean "algorithm"?'),
    (RING.replace('"ring" ', '"star" '),
     '[communicator]: algorithm = "star": must be "ring" or "tree"'),
    (RING.replace("= 1024", "= 0"),
     "[communicator]: message_bytes = 0: must be 1 to 2147483648 bytes"),
    (RING.replace("message_bytes = 1024", 'excess = "cut"'),
     'flow "c0-r7-to-r0": excess = "cut" has no length to cut to: add message_bytes'),
    (RING.replace("[[rank]]", "[[ranks]]"), 'unknown key "ranks": did you mean "rank"?'),
    (RING.partition("# Ranks")[0],
     "--rank 0: the description has 0 ranks, numbered from 0"),
    (RING.replace('address = "10.0.0.3"', ""),
     'rank 2: address is missing: it must be an IPv4 or IPv6 address such as "10.0.0.1"'),
    (RING.replace('"10.0.0.3"', '"10.0.0.300"'),
     'rank 2: address = "10.0.0.300": must be an IPv4 or IPv6 address such as "10.0.0.1"'),
    (RING.replace('"10.0.0.2"', '"fd00::2"'),
     ('flow "c1-r1-to-r0": src = "fd00::2" and dst = "10.0.0.1" are of two IP versions: give both '
      'as IPv4 or both as IPv6')),
    (RING.replace("0x120", "0x1000000"),
     ('rank 2: qpn = [{"1": 16777216}, {"3": 289}]: must be a table for each channel, sending '
      'rank = own queue pair, such as [{ 7 = 0x11 }], with queue pairs to 0xffffff')),
    (RING.replace("[{ 1 = 0x120 }, { 3 = 0x121 }]", "[{ 1 = 0x120 }]"),
     "rank 2: channel 1 is missing: the communicator has 2, give a table in qpn for each"),
    (RING.replace("{ 1 = 0x120 }", "{ 8 = 0x120 }"),
     'rank 2: channel 0 is received from "8": name another rank, 0 to 7'),
    (RING.replace("{ 1 = 0x120 }", "{ 2 = 0x120 }"),
     'rank 2: channel 0 is received from "2": name another rank, 0 to 7'),
    (RING.replace("{ 1 = 0x120 }", "{ 01 = 0x120 }"),
     'rank 2: channel 0 is received from "01": name another rank, 0 to 7'),
    (RING.replace("0x121", "0x120"),
     "c1-r3-to-r2: QP 0x120 at 10.0.0.3 is that of c0-r1-to-r2: give each its own"),
    (RING.replace("{ 1 = 0x120 }", "{ }"),
     "channel 0: rank 2 receives from 0 ranks: in a ring it is 1"),
    (RING.replace("{ 1 = 0x120 }", "{ 1 = 0x120, 5 = 0x122 }"),
     "channel 0: rank 2 receives from 2 ranks: in a ring it is 1"),
    (RING.replace("{ 1 = 0x120 }", "{ 3 = 0x120 }"),
     "channel 0: back from rank 0, rank 1 is never passed: a ring passes all ranks"),
    (TREE.replace("7 = 0x162", "3 = 0x162"),
     "channel 0: rank 3 sends to rank 6 and receives nothing from it: in a tree it does both"),
    (TREE.replace(", 7 = 0x162", "").replace("6 = 0x170", ""),
     "channel 0: no way leads from rank 0 to rank 7: a tree joins all ranks"),
    (TREE.replace("6 = 0x170", "6 = 0x170, 0 = 0x171").replace("4 = 0x100", "4 = 0x100, 7 = 0x1"),
     "channel 0: 8 pairs of ranks are joined: in a tree of 8 it is 7"),
    (RING.replace("{ 7 = 0x100 }, { 1 = 0x101 }", "{ 7 = [] }, { 1 = [] }"),
     "rank 0: receives nothing over the network: its device needs no flow"),
])
def test_refuses_with_place_value_and_remedy(tmp_path, text, message):
    path, output = tmp_path / "communicator.toml", tmp_path / "flows.toml"
    path.write_text(text)
    result = CliRunner().invoke(collective_flows.main,
                                [str(path), "--rank", "0", "-o", str(output)])
    assert (result.exit_code, result.stdout, output.exists()) == (2, "", False)
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"collective_flows: {path}: {message}")
    assert result.stderr.endswith(f"{message}\n") or message.endswith(": ")


def test_refuses_a_rank_that_is_not_there():
    for arguments, message in (
            (["ring8.toml", "--rank", "8"],
             "ring8.toml: --rank 8: the description has 8 ranks, numbered from 0\n"),
            (["none.toml", "--rank", "0"],
             "none.toml: cannot be read: No such file or directory\n")):
        run = subprocess.run([sys.executable, "collective_flows.py", *arguments], cwd=SCRIPTS,
                             capture_output=True, text=True)
        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr == f"collective_flows: {message}"


def blocks(language):
    """The blocks of code on the page."""
    page = (ROOT / "fpga" / "collectives.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_example_on_the_page_is_what_the_program_writes_and_the_driver_registers(
        tmp_path, monkeypatch):
    [shown] = [block for block in blocks("toml") if "[[flow]]" in block]
    [script] = blocks("python")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, SCRIPTS / "collective_flows.py", SCRIPTS / "ring8.toml",
                    "--rank", "0", "-o", "flows.toml"], check=True)
    assert shown == Path("flows.toml").read_text()
    [described] = [block for block in blocks("toml") if "[[rank]]" in block]
    assert described.strip("\n.# ") in RING

    Path("bar").write_bytes(write_bar(tmp_path / "padded").read_bytes()[OFFSET:])
    exec(re.sub(r'"/sys/[^"]*"', '"bar"', script), {})
    registers = Registers()
    with MappedFile("bar") as bus:
        last = {name: registers.unpack(name, bus.read(registers.address(name)))
                for name in ("flow.qp", "flow.message", "flow_command")}
    assert last == {"flow.qp": {"qpn": 0x101}, "flow.message": {"bytes": 1024},
                    "flow_command": {"flow": 1, "op": registers.value("flow_command", "op",
                                                                      "insert")}}
