# SPDX-License-Identifier: Apache-2.0
"""TrimNic between AXI models written by others."""

import logging
import random

import cocotb
import frames
import harness
import pytest
from agents import Edges
from agents.bus import drive
from bench import FLOWS, config_of_run
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from flytrim.driver import Device
from flytrim.model import NicModel


@pytest.mark.model
def test_nic_second_opinion(nic):
    model, parameters = nic
    assert harness.run(model, __name__, parameters=parameters) == 1


def words_of(received, lanes):
    """Bytes and tkeep of a frame that was received without compaction."""
    kept = bytes(byte for byte, keep in zip(received.tdata, received.tkeep, strict=True) if keep)
    assert received.tkeep[:len(kept)] == [1] * len(kept), "tkeep has a hole"
    assert len(received.tdata) - len(kept) < lanes, "null beat"
    return kept


def flag_of(received):
    """``tuser`` of the frame's last byte."""
    user = received.tuser
    return user[-1] if isinstance(user, list) else user


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def works_with_cocotbext_axi(dut):
    config, rng = config_of_run(), random.Random(cocotb.RANDOM_SEED)
    edges, model = Edges(dut), NicModel(FLOWS, config.max_frame)

    def end(kind, bus, prefix):
        agent = kind(bus.from_prefix(dut, prefix), dut.clk, dut.rst)
        for part in (agent, getattr(agent, "write_if", None), getattr(agent, "read_if", None)):
            if log := getattr(part, "log", None):
                log.setLevel(logging.WARNING)
        return agent

    source = end(AxiStreamSource, AxiStreamBus, "s_axis_rx")
    bypass, trim = (end(AxiStreamSink, AxiStreamBus, f"m_axis_{name}")
                    for name in ("bypass", "trim"))
    meta = end(AxiStreamSink, AxiStreamBus, "m_axis_meta")
    registers = end(AxiLiteMaster, AxiLiteBus, "s_axil")
    await edges.start()
    await drive(lambda bus: Device(bus).insert_flows(FLOWS),
                read=registers.read_dword, write=registers.write_dword)

    judgements = []
    for _ in range(60):
        data = frames.good_frame(rng)[:1400] if rng.random() < 0.6 else frames.random_frame(rng)
        judgements.append(model.judge(data))
        await source.send(AxiStreamFrame(data, tuser=0))
    compared = 0
    for judgement in judgements:
        if judgement.payload is not None:
            record = await meta.recv(compact=False)
            assert len(record.tdata) == 32 + -(-config.side_width // 8)
        for sink, data in ((bypass, judgement.bypass), (trim, judgement.payload)):
            if data:
                received = await sink.recv(compact=False)
                assert words_of(received, config.lanes) == data
                assert flag_of(received) & 1 == judgement.error
                compared += 1
    await edges.wait(50)
    assert all(sink.empty() for sink in (bypass, trim, meta))
    assert compared >= 50
