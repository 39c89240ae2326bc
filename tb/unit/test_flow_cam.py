# SPDX-License-Identifier: Apache-2.0
"""Flow CAM: looks up at full rate, refuses what it must, and changes in one step."""

import cocotb
import harness
import pytest
from bench import config_of_run
from blocks import cam_flows
from flow_table import FlowTableBench, Table, fill, random_commands, random_key
from pacing import EVERY

from flytrim.flow_cam import FlowCam, FlowStatus


@pytest.mark.model
def test_flow_cam(blocks):
    model, parameters = blocks
    assert harness.run(model, __name__, parameters=parameters) >= 2


def make_bench(dut, **options):
    flows = cam_flows(config_of_run())
    return FlowTableBench(dut, "cam", lambda: Table(flows), latency=FlowCam.latency,
                          patience=flows + 20, **options)


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
@cocotb.parametrize(pacing=EVERY[:2])
async def random_commands_under_lookups(dut, pacing):
    bench = make_bench(dut, pacing=pacing)
    await bench.start()
    flows = bench.table.flows
    await random_commands(bench, (*range(4), *range(4), flows - 1, flows, 0xFFFF),
                          set(FlowStatus) - {FlowStatus.FULL, FlowStatus.PORTS})


@cocotb.test(timeout_time=0.5, timeout_unit="ms")
async def holds_as_many_flows_as_it_says(dut):
    bench = make_bench(dut)
    await bench.start()
    bench.pool = [random_key(bench.rng, qpn=n) for n in range(bench.table.flows)]
    await fill(bench, bench.pool)
