# SPDX-License-Identifier: Apache-2.0
"""The figures of a run, the page and the tables that show them."""

import io
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from rich.console import Console

from flytrim.config import NicConfig
from flytrim.model import Flow
from flytrim.sim.compare import Outcome
from flytrim.sim.page import page
from flytrim.sim.replay import Summary
from flytrim.sim.report import Report
from flytrim.sim.table import print_figures
from flytrim.verdict import Reason

SETUP = SimpleNamespace(
    flows=(Flow("w0", "10.0.0.1", "10.0.0.9", 1), Flow("<w1>", "10.0.0.2", "10.0.0.9", 2)),
    config=NicConfig(width=64), clock_mhz=200)
SUMMARY = Summary(frames=5, beats=40, first_beat=10, last_beat=49, stalls=0, verdicts=5)


def outcome(reason=Reason.NONE, *, flow=0, size=62, output=b"abcd", latency=8):
    return Outcome(0, None, bytes(size), reason.verdict, reason, flow, output, 100,
                   None if latency is None else 100 + latency)


@pytest.fixture
def figures():
    report = Report(SETUP, "some/<capture>.pcap")
    for each in (outcome(), outcome(output=b"", size=58, latency=None),
                 outcome(size=1082, output=bytes(1024), latency=9),
                 outcome(Reason.NOT_IP, flow=None, size=60, output=bytes(60), latency=500),
                 outcome(Reason.ICRC, flow=1)):
        report.add(each)
    report.close(SUMMARY, 5)
    return report.figures()


def test_adds_up_what_was_trimmed(figures):
    assert (figures["capture"], figures["frames"]) == ("<capture>.pcap", 5)
    wire = 86 + 84 + 1106
    assert (figures["trimmed"]["wire_bytes"], figures["trimmed"]["payload_bytes"]) == (wire, 1028)
    assert figures["trimmed"]["record_bytes"] == 3 * 32
    assert figures["wire_bytes"] == wire + 84 + 86
    flow = figures["flows"]["w0"]
    assert (flow["packets"], flow["payload_bytes"], flow["dropped"]) == (3, 1028, 0)
    assert flow["framing_bytes"] == wire - 1028
    assert flow["payload_share"] == pytest.approx(1028 / wire, abs=1e-6)
    other = figures["flows"]["<w1>"]
    assert (other["packets"], other["dropped"], other["payload_share"]) == (0, 1, None)
    assert [(row["from"], row["to"], row["packets"]) for row in figures["sizes"]] == [
        (0, 0, 1), (1, 4, 1), (513, 1024, 1)]
    assert figures["latency"]["trim"] == {
        "min_cycles": 8, "median_cycles": 8, "max_cycles": 9,
        "min_ns": 40, "median_ns": 40, "max_ns": 45,
        "histogram": {"8": 1, "9": 1}}
    assert figures["throughput"]["beats_per_cycle"] == 1
    gbps = (wire + 170) * 8 / (40 * 5)
    assert figures["throughput"]["wire_gbps"] == pytest.approx(gbps, abs=1e-3)


class Page(HTMLParser):
    """Checks that elements are closed in order, and collects the text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.attributes = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_shows_everything_and_asks_for_nothing(figures):
    html = page(figures)
    text = " ".join(" ".join(Page(html).text).split())
    for word in ("<capture>.pcap", "<w1>", "icrc", "not_ip", "513 to 1024 B", "40 to 45 ns",
                 "64 bits at 200 MHz", "RTL and model agree on every bit of 5 frames."):
        assert word in text, word
    assert not re.search(r"https?:|//|@import|url\(|<script|<link|src=", html)
    assert page(figures) == html
    assert len(html) < 100_000


def test_the_page_of_a_wide_spread_shares_columns_and_one_without_trims_says_so():
    report = Report(SETUP, "x.pcap")
    for latency in (8, 9, 1000):
        report.add(outcome(Reason.NOT_IP, flow=None, latency=latency))
    report.close(SUMMARY, 0)
    html = page(report.figures())
    assert html.count("<rect") == 2
    assert "39 cycles: 2 frames" in html
    assert "no frame was trimmed" in html
    assert "No frame was held against the model." in html


def printed(figures):
    console = Console(file=io.StringIO(), width=80, highlight=False)
    print_figures(figures, console)
    return console.file.getvalue()


def test_the_table_fits_a_terminal_and_names_what_was_saved(figures):
    text = printed(figures)
    lines = [line.rstrip() for line in text.splitlines()]
    assert "drop     icrc         1           62" in lines
    assert "<w1>         0        1           0              0              -" in lines
    assert "total        3        1       1,276          1,028         80.56%" in lines
    assert "19.4% of these frames' wire bytes were framing: 1,276 -> 1,028 of payload" in text
    assert "3 metadata records, 96 bytes" in text
    assert "1.000 beats accepted a cycle: 40 beats in 40 cycles, 57.8 Gb/s of wire" in text
    assert "trim 8 to 9 cycles (40 to 45 ns), bypass 500 cycles (2500 ns)" in text


def test_flows_without_damaged_packets_have_no_column_for_them(figures):
    assert "dropped" in printed(figures)
    figures["flows"]["<w1>"]["dropped"] = 0
    assert "dropped" not in printed(figures)


def test_the_table_names_brackets_as_they_are(figures):
    figures["flows"]["[bold]"] = figures["flows"].pop("w0")
    figures["capture"] = "[red]x.pcap"
    text = printed(figures)
    assert "[bold]" in text
    assert "[red]x.pcap" in text


