# SPDX-License-Identifier: Apache-2.0
"""The command: what it writes, what it refuses, and its exit status."""

import gc
import json
import os
import struct
import subprocess
import sys
import threading
import zlib
from itertools import cycle, takewhile
from pathlib import Path

import pytest
from bar import OFFSET, write_bar

from flytrim import flows
from flytrim.config import NicConfig
from flytrim.model import NicModel
from flytrim.sim.capture import Capture
from flytrim.sim.register_socket import RegisterSocket
from flytrim.verdict import Reason

FLOWS = """
[device]
width = 64
clock_mhz = 200
[[flow]]
name = "w0"
src = "10.0.0.1"
dst = "10.0.0.9"
dqpn = 0x11
"""


def roce(payload, *, dqpn=0x11, psn=0, opcode=0x04):
    """A RoCEv2 frame over IPv4 with correct header checksum and ICRC, padded to 60 bytes."""
    pad = -len(payload) % 4
    bth = struct.pack(">BBHII", opcode, pad << 4, 0xFFFF, dqpn, psn)
    udp_length = 8 + len(bth) + len(payload) + pad + 4
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + udp_length, 0, 0, 64, 17, 0,
                     bytes([10, 0, 0, 1]), bytes([10, 0, 0, 9]))
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack(">H", 0xFFFF - total) + ip[12:]
    packet = (ip + struct.pack(">HHHH", 49152, 4791, udp_length, 0) + bth + payload + bytes(pad))
    masked = bytearray(b"\xff" * 8 + packet)
    for at in (1, 8, 10, 11, 26, 27, 32):
        masked[8 + at] = 0xFF
    icrc = zlib.crc32(masked).to_bytes(4, "little")
    return (bytes(12) + b"\x08\x00" + packet + icrc).ljust(60, b"\0")


FRAMES = [roce(b"\x01\x02\x03\x04"), b"\xff" * 60, roce(b"", psn=1), roce(bytes(1024), psn=2),
          roce(b"\x05", dqpn=0x12), roce(b"\x06\x07\x08", psn=3)]


def pcap(frames):
    file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
    for n, frame in enumerate(frames):
        file += struct.pack("<IIII", n, 1, len(frame), len(frame)) + frame
    return file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a capture and a flows file in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "capture.pcap").write_bytes(pcap(FRAMES))
    (tmp_path / "flows.toml").write_text(FLOWS)
    return tmp_path


SIM = ("sim", "capture.pcap", "--flows", "flows.toml", "--out", "out")


@pytest.mark.model
def test_runs_a_capture_and_writes_what_became_of_each_frame(folder, flytrim):
    status, out, err = flytrim(*SIM)
    assert (status, err) == (0, "")
    assert "RTL and model agree on every bit of 6 frames." in out
    assert sorted(os.listdir("out")) == ["bypass.pcap", "report.html", "report.json",
                                         "verdicts.jsonl"]

    lines = [json.loads(line) for line in (folder / "out/verdicts.jsonl").read_text().splitlines()]
    assert [line["frame"] for line in lines] == [*range(6)]
    assert [(line["verdict"], line["reason"], line["flow"], line.get("payload"))
            for line in lines] == [
        ("trim", None, "w0", "01020304"), ("bypass", "not_ip", None, None),
        ("trim", None, "w0", ""), ("trim", None, "w0", "00" * 1024),
        ("bypass", "no_flow", None, None), ("trim", None, "w0", "060708")]
    beats = [-(-len(frame) // 8) for frame in FRAMES]
    first = lines[0]["cycle_in"]
    assert [line["cycle_in"] - first for line in lines] == [sum(beats[:n]) for n in range(6)]
    assert lines[2]["cycle_out"] is None, "a payload without bytes has no first beat"
    assert all(line["cycle_out"] > line["cycle_in"] for line in lines if line["frame"] != 2)

    bypassed = list(Capture.scan("out/bypass.pcap"))
    assert [data for _, data in bypassed] == [FRAMES[1], FRAMES[4]]

    report = json.loads((folder / "out/report.json").read_text())
    assert (report["capture"], report["frames"], report["checked_frames"]) == ("capture.pcap", 6, 6)
    assert report["verdicts"]["trim"]["frames"] == 4
    assert report["verdicts"]["bypass"]["reasons"]["no_flow"] == {"frames": 1, "bytes": 62}
    assert report["flows"]["w0"]["payload_bytes"] == 4 + 1024 + 3
    wire = sum(len(FRAMES[n]) + 24 for n in (0, 2, 3, 5))
    assert report["flows"]["w0"]["wire_bytes"] == wire
    assert report["trimmed"]["wire_bytes"] == wire
    assert report["trimmed"]["payload_bytes"] == 4 + 1024 + 3
    assert report["throughput"]["beats_per_cycle"] == 1
    assert report["latency"]["trim"]["min_ns"] == 5 * report["latency"]["trim"]["min_cycles"]


@pytest.mark.model
def test_a_flipped_payload_bit_is_dropped_as_icrc_unless_the_flow_ignores_it(folder, flytrim):
    damaged = bytearray(FRAMES[3])
    damaged[500] ^= 0x10
    (folder / "capture.pcap").write_bytes(pcap([FRAMES[0], bytes(damaged), FRAMES[5]]))

    def outcomes():
        status, out, _ = flytrim(*SIM)
        assert status == 0
        assert "agree on every bit of 3 frames" in out
        lines = map(json.loads, (folder / "out/verdicts.jsonl").read_text().splitlines())
        return [(line["verdict"], line["reason"], line["flow"]) for line in lines]

    trimmed = ("trim", None, "w0")
    assert outcomes() == [trimmed, ("drop", "icrc", "w0"), trimmed]
    report = json.loads((folder / "out/report.json").read_text())
    assert (report["flows"]["w0"]["packets"], report["flows"]["w0"]["dropped"]) == (2, 1)
    (folder / "flows.toml").write_text(FLOWS + 'icrc = "ignore"\n')
    assert outcomes() == [trimmed] * 3


@pytest.mark.model
@pytest.mark.parametrize(("check", "sentence"), [
    # Oversize frames are judged in any case: where they left is not in their verdict.
    ("sample", "agree on every bit of 5 frames; the other 203 were not checked."),
    ("none", "agree on every bit of 2 frames; the other 206 were not checked."),
])
def test_what_the_rtl_said_is_written_however_little_is_checked(folder, flytrim, check, sentence):
    damaged = FRAMES[0][:50] + b"\xff" + FRAMES[0][51:]
    (folder / "capture.pcap").write_bytes(
        pcap([*FRAMES, damaged, FRAMES[3][:1000], roce(bytes(2000)), b"\xff" * 2000,
              *FRAMES * 33]))
    (folder / "flows.toml").write_text(FLOWS.replace("[[flow]]", "max_frame = 1600\n[[flow]]"))
    assert flytrim(*SIM)[0] == 0
    names = "verdicts.jsonl", "bypass.pcap"
    before = [(folder / "out" / name).read_bytes() for name in names]
    status, out, _ = flytrim(*SIM, "--check", check)
    assert (status, sentence in out) == (0, True)
    assert [(folder / "out" / name).read_bytes() for name in names] == before
    report = json.loads((folder / "out/report.json").read_text())
    assert report["verdicts"]["drop"]["reasons"].keys() == {"icrc", "truncated", "oversize"}


@pytest.mark.model
def test_waves_stay_where_rtl_and_model_disagree(folder, flytrim, monkeypatch):
    faulty = Path(__file__).parents[1].joinpath("data", "faulty_nic.v").read_text()
    monkeypatch.setattr("flytrim.sim.run.device_verilog", lambda config: faulty)
    monkeypatch.setattr("flytrim.sim.verilator.wave_format", lambda: ("vcd", "VCD it is."))
    status, out, err = flytrim(*SIM, "--wave-frames", "1:2")
    assert (status, out) == (1, "")
    warning, difference = err.splitlines()
    assert warning == "flytrim: warning: VCD it is."
    assert difference.startswith("flytrim: RTL and model disagree: frame ")
    assert os.listdir("out") == ["wave.vcd"]
    assert "s_axis_rx_tdata" in (folder / "out/wave.vcd").read_text()


@pytest.mark.model
def test_results_replace_older_ones_and_are_the_same_again(folder, flytrim):
    assert flytrim(*SIM)[0] == 0
    before = {name: (folder / "out" / name).read_bytes() for name in os.listdir("out")}
    (folder / "out" / "verdicts.jsonl").write_text("old")
    assert flytrim(*SIM)[0] == 0
    assert {name: (folder / "out" / name).read_bytes() for name in os.listdir("out")} == before


@pytest.mark.model
def test_runs_the_whole_frames_of_a_cut_off_capture_with_one_warning(folder, flytrim):
    (folder / "capture.pcap").write_bytes(pcap(FRAMES)[:-10])
    status, out, err = flytrim(*SIM)
    assert status == 0
    assert err == ("flytrim: warning: capture.pcap: ends inside a record; its 5 whole frames are "
                   "run\n")
    assert "agree on every bit of 5 frames" in out


@pytest.mark.model
@pytest.mark.parametrize(("frame", "lie", "message"), [
    (0, {"payload": b"\x01\x02\x07\x04"},
     "frame 0: payload byte 2 of 4: expected 01 02 07 04, got 01 02 03 04"),
    (3, {"payload": bytes(1000)}, "frame 3: payload length: expected 1000 bytes, got 1024 bytes"),
    (5, {"psn": 4}, "frame 5: metadata.psn: expected 0x4, got 0x3"),
    (4, {"reason": Reason.OPCODE}, "frame 4: verdict.reason: expected opcode, got no_flow"),
    (1, {"bypass": b"\xff" * 61}, "frame 1: bypass length: expected 61 bytes, got 60 bytes"),
], ids=["payload", "length", "metadata", "verdict", "bypass"])
def test_ends_with_the_first_difference(folder, flytrim, monkeypatch, frame, lie, message):
    judge = NicModel.judge

    def lying_judge(self, data, **options):
        judgement = judge(self, data, **options)
        return judgement._replace(**lie) if data == FRAMES[frame] else judgement

    monkeypatch.setattr(NicModel, "judge", lying_judge)
    status, out, err = flytrim(*SIM)
    assert (status, out) == (1, "")
    assert err == f"flytrim: RTL and model disagree: {message}\n"
    assert not os.path.exists("out"), "results of a run that failed"


@pytest.fixture
def meanwhile(folder, flytrim, monkeypatch):
    """Runs the capture over and over, with registers at ``socket``, until a function has returned.

    Gives exit status, standard output and standard error of the simulation.
    """
    over, serving = threading.Event(), threading.Event()
    once, listen = Capture.__iter__, RegisterSocket.listen

    def again(capture):
        frames = cycle(list(once(capture)))
        # The model reads them as their verdicts come, and the feeder decides how many there are.
        if threading.current_thread() is threading.main_thread():
            yield from frames
        yield from takewhile(lambda _: not over.is_set(), frames)

    def listening(registers):
        listen(registers)
        serving.set()

    def meanwhile(function):
        failed = []

        def run():
            serving.wait()
            try:
                function()
            except BaseException as error:
                failed.append(error)
            finally:
                over.set()

        client = threading.Thread(target=run)
        client.start()
        try:
            ended = flytrim(*SIM, "--check", "none", "--registers", "socket")
        finally:
            serving.set()
            client.join()
        if failed:
            raise failed[0]
        return ended

    monkeypatch.setattr(Capture, "__iter__", again)
    monkeypatch.setattr(RegisterSocket, "listen", listening)
    return meanwhile


def command(*arguments):
    """(exit status, standard output, standard error) of a command on its own."""
    done = subprocess.run([sys.executable, "-m", "flytrim", *arguments], capture_output=True,
                          text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.model
def test_registers_of_a_running_simulation_are_read_and_written_by_name(folder, meanwhile):
    said = []

    def client():
        said.extend([command("regs", "read", "socket", "capability"),
                     command("regs", "write", "socket", "scratch", "bits=0xCAFE"),
                     command("regs", "read", "socket", "scratch", "flow.qp"),
                     command("regs", "write", "socket", "max_frame", "bytes=1")])

    status, out, err = meanwhile(client)
    assert (status, err) == (0, "")
    assert "throughput  1.000 beats accepted a cycle" in out
    for status, _, err in said[:3]:
        assert (status, err) == (0, "")
    assert [[line.split() for line in out.splitlines()[1:]] for _, out, _ in said[:3]] == [
        [["0x004", "capability", "width", "64", "=", "0x40"],
         ["0x004", "capability", "flows", "64", "=", "0x40"]],
        [],
        [["0x018", "scratch", "bits", "51966", "=", "0xcafe"],
         ["0x124", "flow.qp", "qpn", "17", "=", "0x11"]]]
    assert said[3] == (2, "", "flytrim: register max_frame: is read-only and cannot be written\n")
    assert not os.path.exists("socket")
    assert command("regs", "read", "socket")[::2] == (2, (
        "flytrim: socket: cannot be opened as a device: No such file or directory; give a BAR or "
        "UIO file that may be read and written, or the socket of a simulation that runs\n"))


@pytest.mark.model
def test_the_socket_goes_also_where_the_run_fails(folder, flytrim, monkeypatch):
    monkeypatch.setattr(NicModel, "judge", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        flytrim(*SIM, "--registers", "socket")
    assert sorted(os.listdir()) == ["capture.pcap", "flows.toml"]


SIM_OPTIONS = SIM[2:]
NIC = ("generate", "nic", "-o", "x.v")
TREE = ("generate", "fp32-tree", "-o", "x.v")
SWITCH = ("generate", "switch", "-o", "x.v")
BAD = {
    "capture missing": (("sim", "none.pcap", *SIM_OPTIONS), (
        "none.pcap: is no readable capture: No such file or directory; give a pcap or pcapng "
        "file")),
    "capture is text": (("sim", "flows.toml", *SIM_OPTIONS), (
        "flows.toml: is no readable capture: unknown file format; give a pcap or pcapng file")),
    "flows missing": (("sim", "capture.pcap", "--flows", "none.toml", "--out", "out"), (
        "none.toml: cannot be read: No such file or directory")),
    "no --flows": (("sim", "capture.pcap", "--out", "out"), (
        "Missing option '--flows'. Try 'flytrim sim --help'.")),
    "unknown option": ((*SIM, "--wav"), (
        "No such option '--wav'. Did you mean '--wave'? Try 'flytrim sim --help'.")),
    "unknown command": (("smi",), (
        "No such command 'smi'. Did you mean 'sim'? Try 'flytrim --help'.")),
    "check": ((*SIM, "--check", "some"), (
        "Invalid value for '--check': 'some' is not one of 'all', 'sample', 'none'. Try 'flytrim "
        "sim --help'.")),
    "wave frames": ((*SIM, "--wave-frames", "3:0"), (
        "Invalid value for '--wave-frames': '3:0' is no range of frames: write FIRST:COUNT, such "
        "as 0:200. Try 'flytrim sim --help'.")),
    "waves of no frame": ((*SIM, "--wave-frames", "6:1"), (
        "capture.pcap: has 6 frames, and --wave-frames begins with frame 6: begin below 6")),
    "registers in the way": ((*SIM, "--registers", "flows.toml"), (
        "flows.toml: cannot serve registers there: Address already in use; remove what is "
        "there if no simulation uses it, or give another path")),
    "registers at too long a path": ((*SIM, "--registers", "s" * 108), (
        f"{'s' * 108}: cannot serve registers there: AF_UNIX path too long; give a short path in "
        f"a folder that is there")),
    "no flows": (("flows", "capture.pcap", "--udp-dport", "4793"), (
        "capture.pcap: nothing to trim: none of its 6 frames is RoCEv2 to UDP port 4793; give "
        "--udp-dport for another port")),
    "flows, no folder": (("flows", "capture.pcap", "-o", "none/x.toml"), (
        "none/x.toml: its folder does not exist: make it first")),
    "flows of no capture": (("flows", "flows.toml"), (
        "flows.toml: is no readable capture: unknown file format; give a pcap or pcapng file")),
    "width": ((*NIC, "--width", "48"), (
        "width must be one of 64, 128, 256, 512, 1024 bits, not 48")),
    "flows": ((*NIC, "--flows", "65"), (
        "flows must be 1 to 64, or a power of two from 128 to 65536, not 65")),
    "children": ((*TREE, "--children", "1"), "a reduction has 2 to 64 children, not 1"),
    "types": ((*TREE, "--types", "fp32,fp64"), (
        "Invalid value for '--types': 'fp64' is no type: write some of fp32, int32, bf16, fp16, "
        "with commas. Try 'flytrim generate fp32-tree --help'.")),
    "latency of a node": ((*TREE, "--latency", "2"), "latency is 3 to 11 cycles, not 2"),
    "latency of a sum": ((*TREE, "--children", "8", "--sum", "fused", "--latency", "99"), (
        "latency must be 1 to 24 cycles, not 99")),
    "commit": ((*NIC, "--commit", "123456789"), (
        "Invalid value for '--commit': '123456789' is no hash of up to 8 hexadecimal digits. Try "
        "'flytrim generate nic --help'.")),
    "ports": ((*SWITCH, "--ports", "17"), "ports must be 2 to 16, not 17"),
    "window": ((*SWITCH, "--window", "96"), (
        "window must be a power of two from 2 to 4096 packets, not 96")),
    "slots": ((*SWITCH, "--width", "1024", "--slot-bytes", "64"), (
        "slot_bytes must be a beat of 128 bytes at least, not 64")),
    "latency of a switch": ((*SWITCH, "--width", "64", "--latency", "12"), (
        "latency is 3 to 11 cycles, not 12")),
    "no folder": ((*NIC, "--width", "64", "-o", "none/x.v"), (
        "none/x.v: its folder does not exist: make it first")),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses_bad_input_in_one_line_and_writes_nothing(folder, flytrim, case):
    args, message = BAD[case]
    before = sorted(os.listdir())
    status, out, err = flytrim(*args)
    # What was made before a fault was found goes now, while nobody minds that it was never used.
    gc.collect()
    assert (status, out, err) == (2, "", f"flytrim: {message}\n")
    assert sorted(os.listdir()) == before


def test_a_file_of_a_switch_says_how_to_run_it(folder, flytrim):
    (folder / "flows.toml").write_text(FLOWS + 'action = "reduce"\n[[group]]\nname = "g0"\n')
    assert flytrim(*SIM) == (2, "", (
        "flytrim: flows.toml: [[group]] is for a switch: run it with flytrim sim --top switch, or "
        "remove it\n"))


def test_registers_are_read_and_written_by_name(folder, flytrim):
    write_bar(folder / "bar")
    bar = ("--offset", f"{OFFSET:x}")
    assert flytrim("regs", "write", "bar", "flow.ports", "sport=0x1234", *bar) == (0, "", "")
    assert flytrim("regs", "write", "bar", "flow.ports", "dport=7", *bar) == (0, "", "")
    status, out, err = flytrim("regs", "read", "bar", "flow.ports", "flow_status", *bar)
    assert (status, err) == (0, "")
    assert [line.rstrip().split(maxsplit=3) for line in out.splitlines()[1:]] == [
        ["0x120", "flow.ports", "dport", "7"], ["0x120", "flow.ports", "sport", "4660 = 0x1234"],
        ["0x144", "flow_status", "code", "0 (done)"], ["0x144", "flow_status", "busy", "0"]]
    status, out, err = flytrim("regs", "read", "bar", *bar)
    assert (status, err) == (0, "")
    assert "1179408724 = 0x464c5954" in out
    for arguments, fault in (
            (("read", "bar", "flow.pq"), "no register 'flow.pq': did you mean 'flow.qp'?"),
            (("read", "bar", "flow.src"), "no register 'flow.src': did you mean 'flow.src[0]'?"),
            (("read", "bar", "0x100"), "no register '0x100': flytrim regs read lists them all"),
            (("write", "bar", "flow.qp", "qp=1"), "register flow.qp has no field qp: it has qpn"),
            (("write", "bar", "flow.qp", "qpn=1", "qpn=2"),
             "field qpn is given twice: write it once"),
            (("write", "bar", "flow.qp", "qpn=one"),
             "flow.qp.qpn is a number such as 0x11, not 'one'"),
            (("write", "bar", "flow_command", "op=add"),
             ("flow_command.op is a number such as 0x11 or one of insert, replace, delete, read, "
              "restart, not 'add'")),
            (("write", "bar", "flow.qp", "qpn=0x1000000"),
             "flow.qp.qpn has 24 bits: 0x1000000 does not fit"),
            (("write", "bar", "flow.qp", "qpn"),
             "'qpn' is no field with its value: write FIELD=VALUE, such as qpn=0x11")):
        assert flytrim("regs", *arguments, *bar) == (2, "", f"flytrim: {fault}\n")
    assert flytrim("regs", "write", "bar", "flow_command", "op=restart", "flow=3", *bar)[0] == 0
    status, out, _ = flytrim("regs", "read", "bar", "flow_command", *bar)
    assert (status, out.split()[4:]) == (
        0, ["0x140", "flow_command", "flow", "3", "0x140", "flow_command", "op", "5", "(restart)"])


def test_registers_that_a_device_lacks_are_left_out(folder, flytrim):
    write_bar(folder / "bar", NicConfig(width=64, counters=False))
    status, out, err = flytrim("regs", "read", "bar", "--offset", f"{OFFSET:x}")
    assert (status, err) == (0, "") and "flow_status" in out and "counters." not in out
    assert flytrim("regs", "read", "bar", "flow_counters.packets", "--offset", f"{OFFSET:x}") == (
        2, "", "flytrim: register features: this device was built without counters\n")


def test_refuses_an_output_folder_that_cannot_be(folder, flytrim):
    (folder / "out").write_text("in the way")
    status, out, err = flytrim(*SIM)
    assert (status, out) == (2, "")
    assert err == ("flytrim: out: cannot write the results there: File exists; choose another "
                   "--out folder\n")


def test_says_which_tool_is_missing(folder, flytrim, monkeypatch):
    monkeypatch.setenv("PATH", "")
    status, out, err = flytrim(*SIM)
    assert (status, out) == (2, "")
    assert err.startswith("flytrim: g++ is not on PATH: ")
    assert not os.path.exists("out")


def test_says_where_the_log_of_a_failed_build_is(folder, flytrim, monkeypatch):
    monkeypatch.setenv("FLYTRIM_CACHE", str(folder / "cache"))
    monkeypatch.setattr("flytrim.sim.run.device_verilog", lambda config: "module flytrim_nic (;\n")
    status, _, err = flytrim(*SIM)
    assert status == 2
    message, _, rest = err.partition(str(folder / "cache"))
    assert message == "flytrim: building the simulation failed; "
    log, _, rest = rest.partition(" ")
    assert rest == "says why\n"
    assert "syntax error" in (folder / "cache" / log.lstrip("/")).read_text()
    assert not os.path.exists("out")


def test_prints_the_flows_of_a_capture_as_a_flows_file(folder, flytrim):
    status, out, err = flytrim("flows", "capture.pcap")
    assert (status, err) == (0, "")
    status, said, err = flytrim("flows", "capture.pcap", "-o", "found.toml")
    assert (status, said, err) == (0, "2 flows to trim in found.toml.\n", "")
    assert (folder / "found.toml").read_text() == out
    assert [flow.dqpn for flow in flows.load("found.toml").flows] == [0x11, 0x12]


@pytest.mark.parametrize(("frames", "reason"), [
    ([roce(b"", opcode=0x81)] * 2, (
        "its 1 RoCEv2 flow carries no payload, only acknowledgements, requests or notifications")),
    ([roce(bytes(8), dqpn=1)], "its RoCEv2 payload is management alone (queue pair 0 or 1)"),
])
def test_says_why_there_is_nothing_to_trim(folder, flytrim, frames, reason):
    (folder / "capture.pcap").write_bytes(pcap(frames))
    status, out, err = flytrim("flows", "capture.pcap")
    assert (status, out) == (2, "")
    assert err == f"flytrim: capture.pcap: nothing to trim: {reason}\n"


def test_prints_version_and_help(flytrim):
    status, out, _ = flytrim("--version")
    assert (status, out) == (0, "flytrim, version 0.1.0\n")
    status, out, err = flytrim()
    assert status == 2
    assert "generate" in out + err


@pytest.mark.parametrize("product, options", [
    ("nic", ("--width", "64")), ("fp32-adder", ("--latency", "3")),
    ("fp32-tree", ("--children", "4", "--width", "32", "--types", "fp32,fp16", "--taps", "1")),
    ("switch", ("--ports", "2", "--width", "64", "--groups", "2", "--window", "4", "--slot-bytes",
                "64", "--max-frame", "1514", "--types", "int32", "--commit", "5eed"))])
def test_generates_the_same_bytes_in_every_run_under_every_hash_seed_and_folder(
        tmp_path, product, options):
    texts = set()
    for seed in "0", "1":
        folder = tmp_path / f"folder-{seed}"
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "flytrim", "generate", product, *options, "-o", "it.v"],
            cwd=folder, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert os.listdir(folder) == ["it.v"]
        texts.add((folder / "it.v").read_bytes())
    [text] = texts
    assert f"module flytrim_{product.replace('-', '_')}(".encode() in text
    assert str(tmp_path).encode() not in text
    assert b".py" not in text, "the path of a source"
