# SPDX-License-Identifier: Apache-2.0
"""Counters as the driver reads them and as the monitor shows them, of devices that are made up."""

import contextlib
import sys
import time

import pytest
from bar import CONFIG
from running import running

from flytrim import __version__, cli
from flytrim.driver import Count, Counters, Device, DeviceError, DeviceGone, Identity
from flytrim.sim.build import build, device_verilog
from flytrim.verdict import Reason

IDENTITY = Identity("0.1.0", commit=0, width=64, flows=16, max_frame=1514, counters=True)
BEFORE = Counters(
    received=Count(1000, 64_000),
    reasons={**dict.fromkeys(Reason, Count(0, 0)), Reason.NONE: Count(900, 60_000),
             Reason.NO_FLOW: Count(100, 4000)},
    parts={"header": 50_000, "payload": 4000, "tail": 6000, "cut": 0}, latency=(8, 19),
    buckets=(0, 0, 0, 700, 300, *[0] * 11), high_water={"trim": 12, "bypass": 3000, "meta": 1},
    depths={"trim": 4096, "bypass": 4096, "meta": 512})
NOW = BEFORE._replace(
    received=Count(4000, 12_000_000_064_000),
    reasons=BEFORE.reasons | {Reason.NONE: Count(3800, 12_000_000_000_000),
                              Reason.ICRC: Count(100, 60_000)},
    parts={"header": 4_000_050_000, "payload": 4000, "tail": 5999, "cut": 0}, latency=(0, 40_000),
    buckets=(1, 2, 3, 0, *[0] * 11, 4))


class FakeDevice:
    """Gives one snapshot after the other, then raises."""

    identity = IDENTITY

    def __init__(self, *snapshots, end):
        self._snapshots, self._end = iter(snapshots), end

    def counters(self):
        for counters in self._snapshots:
            return counters
        raise self._end


@pytest.fixture
def monitor(monkeypatch, capsys):
    """Runs the command on a device; gives status, standard output, standard error, and the waits.

    The clock stands still but for waits, and for a tenth of a second that every read takes.
    """
    waits, clock = [], [100.0]

    def sleep(seconds):
        waits.append(seconds)
        clock[0] += seconds

    def monitor(device, *options):
        def counters(of=device.counters):
            clock[0] += 0.1
            return of()

        @contextlib.contextmanager
        def opened(path, *, offset):
            assert (path, offset) == ("[dev]", 0x1000)
            yield device

        device.counters = counters
        monkeypatch.setattr(Device, "open", opened)
        monkeypatch.setattr(time, "sleep", sleep)
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(sys, "argv", ["flytrim", "monitor", "[dev]", "--offset", "1000",
                                          *options])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr(), [round(wait, 6) for wait in waits]

    return monitor


FIRST = """\
[dev]: flytrim 0.1.0, 64 bits, 16 flows

verdict   reason   frames  frames/s   bytes  bytes/s
trim                  900         -  60,000        -
bypass    no_flow     100         -   4,000        -
received            1,000         -  64,000        -

of trimmed frames   bytes   share  bytes/s
header             50,000  83.33%        -
payload             4,000   6.67%        -
tail                6,000  10.00%        -
cut                     0   0.00%        -

latency, 8 to 19 cycles  frames
8 to 15                     700
16 to 31                    300

most held at once: trim 12 of 4,096, bypass 3,000 of 4,096, meta 1 of 512

"""
SECOND = """\
[dev]: flytrim 0.1.0, 64 bits, 16 flows

verdict   reason   frames  frames/s               bytes  bytes/s
trim                3,800     1.4 k  12,000,000,000,000    6.0 T
bypass    no_flow     100       0.0               4,000      0.0
drop      icrc        100      50.0              60,000   30.0 k
received            4,000     1.5 k  12,000,000,064,000    6.0 T

of trimmed frames          bytes    share  bytes/s
header             4,000,050,000  100.00%    2.0 G
payload                    4,000    0.00%      0.0
tail                       5,999    0.00%        -
cut                            0    0.00%      0.0

latency, 0 to 40,000 cycles  frames
0 to 1                            1
2 to 3                            2
4 to 7                            3
32,768 or more                    4

most held at once: trim 12 of 4,096, bypass 3,000 of 4,096, meta 1 of 512

"""


def lines(text):
    return [line.rstrip() for line in text.splitlines()]


def test_tables_follow_each_other_until_enough_were_shown(monitor):
    status, out, err, waits = monitor(
        FakeDevice(BEFORE, NOW, end=AssertionError("too many")), "--interval", "2", "--count", "2")
    assert lines(out) == lines(FIRST + SECOND)
    assert (status, err, waits) == (0, "", [1.9])


def test_ends_with_a_line_where_the_simulation_is_over(monitor):
    status, out, err, waits = monitor(FakeDevice(BEFORE, end=DeviceGone("register x: gone")))
    assert lines(out) == [*lines(FIRST), "[dev]: the simulation is over."]
    assert (status, err, waits) == (0, "", [0.9])


@pytest.mark.model
def test_watches_a_running_simulation_to_its_end(tmp_path, monkeypatch, capsys):
    path, shown, read = tmp_path / "registers", [], Device.counters
    with contextlib.ExitStack() as simulation:
        def counters(device):
            if shown:
                simulation.close()
            shown.append(read(device))
            return shown[0]

        simulation.enter_context(running(build(CONFIG, device_verilog(CONFIG)), path))
        monkeypatch.setattr(Device, "counters", counters)
        monkeypatch.setattr(time, "sleep", lambda seconds: None)
        monkeypatch.setattr(sys, "argv", ["flytrim", "monitor", str(path)])
        with pytest.raises(SystemExit) as end:
            cli.main()
    out, err = capsys.readouterr()
    assert (end.value.code, err) == (None, "")
    title = f"{path}: flytrim {__version__}, 64 bits, {CONFIG.flows} flows"
    assert out.replace("\n", "").startswith(title)
    assert lines(out)[-1] == f"{path}: the simulation is over."
    assert len(shown) == 1


def test_ends_quietly_where_it_is_interrupted(monitor):
    status, out, err, _ = monitor(FakeDevice(BEFORE, end=KeyboardInterrupt))
    assert (status, lines(out), err) == (0, lines(FIRST), "")


def test_a_fault_of_the_device_is_told(monitor):
    status, out, err, _ = monitor(FakeDevice(end=DeviceError("register x: SLVERR")))
    assert (status, out, err) == (2, "", "flytrim: register x: SLVERR\n")


def test_nothing_was_counted_yet(monitor):
    nothing = Counters(Count(0, 0), dict.fromkeys(Reason, Count(0, 0)),
                       dict.fromkeys(BEFORE.parts, 0), None, (0,) * 16,
                       dict.fromkeys(BEFORE.high_water, 0), BEFORE.depths)
    _, out, _, _ = monitor(FakeDevice(nothing, end=None), "--count", "1")
    assert lines(out)[2:] == [
        "verdict   reason  frames  frames/s  bytes  bytes/s",
        "received               0         -      0        -", "",
        "of trimmed frames  bytes  share  bytes/s",
        *(f"{part:17}      0      -        -" for part in BEFORE.parts), "",
        "most held at once: trim 0 of 4,096, bypass 0 of 4,096, meta 0 of 512", ""]


def test_a_terminal_shows_them_in_place(monitor, monkeypatch):
    for name, value in (("TTY_COMPATIBLE", "1"), ("NO_COLOR", "1"), ("TERM", "xterm"),
                        ("COLUMNS", "100"), ("LINES", "50")):
        monkeypatch.setenv(name, value)
    _, out, _, _ = monitor(FakeDevice(BEFORE, NOW, end=DeviceGone("")), "--interval", "2")
    pages = out.replace("\x1b[1m", "").replace("\x1b[0m", "").split("\x1b[2K")
    assert len(pages) > len(lines(FIRST)), "lines are erased before the next page"
    page, _, rest = pages[-1].partition("\x1b[?25h")    # the cursor is shown again
    assert lines(page) == lines(SECOND)
    assert rest == "[dev]: the simulation is over.\n"


@pytest.mark.parametrize("text", ["0", "0.09", "nan", "inf", "1e9", "soon", "-1"])
def test_an_interval_that_nobody_waits_for_is_refused(monitor, text):
    status, out, err, _ = monitor(FakeDevice(end=None), "--interval", text)
    assert (status, out) == (2, "")
    assert err == (f"flytrim: Invalid value for '--interval': '{text}' is no time from 0.1 to "
                   f"86400 seconds. Try 'flytrim monitor --help'.\n")


class Words(Device):
    """Registers with a number of its own in each field, noted in ``numbers``."""

    def __init__(self, **chosen):
        self.numbers, self._chosen, self.identity = {}, chosen, IDENTITY

    def read(self, name):
        if name in self._chosen:
            return self._chosen[name]
        number = self.numbers.setdefault(name, len(self.numbers) + 1)
        return {"count": number} if "high_water" not in name else {"most": number, "depth_log2": 3}


def test_each_counter_is_read_from_its_register():
    device = Words(**{"counters.latency_minimum": {"cycles": 7},
                      "counters.latency_maximum": {"cycles": 77}})
    counters = device.counters()
    count = {name.removeprefix("counters."): number for name, number in device.numbers.items()}
    assert counters.received == (count.pop("received_frames"), count.pop("received_bytes"))
    assert counters.reasons == {
        reason: (count.pop(f"reason[{int(reason)}].frames"),
                 count.pop(f"reason[{int(reason)}].bytes")) for reason in Reason}
    assert counters.parts == {part: count.pop(f"{part}_bytes")
                              for part in ("header", "payload", "tail", "cut")}
    assert counters.latency == (7, 77)
    assert counters.buckets == tuple(count.pop(f"latency[{n}]") for n in range(16))
    assert counters.high_water == {queue: count.pop(f"high_water_{queue}")
                                   for queue in ("trim", "bypass", "meta")}
    assert not count


def test_a_device_without_counters_says_so():
    device = Words()
    device.identity = IDENTITY._replace(counters=False)
    with pytest.raises(DeviceError, match=(
            "^register features: this device was built without counters$")):
        device.counters()
