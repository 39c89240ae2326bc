# SPDX-License-Identifier: Apache-2.0
"""The blocks of the data path side by side in one top, so that one model serves all their benches.

A port of a block is named ``<block>__<member>``, one of a stream ``<block>__i__valid`` and so on.
"""

import dataclasses

from amaranth import Module
from amaranth.back import verilog
from amaranth.hdl import Const, Elaboratable, Value
from control_plane import ControlPlane

from flytrim import registers
from flytrim.admission import Admission
from flytrim.axil_pages import AxilPages
from flytrim.axis import PacketSink
from flytrim.classifier import Classifier
from flytrim.config import CAM_FLOWS, SwitchConfig
from flytrim.encapsulator import Encapsulator
from flytrim.flow_cam import FlowCam
from flytrim.flow_hash import FlowHash
from flytrim.icrc import IcrcChecker
from flytrim.packet import Packet
from flytrim.parser import Parser
from flytrim.reassembly.reassembler import Reassembler
from flytrim.registers.bank import RegisterBank
from flytrim.stream import Queue
from flytrim.stripper import Stripper
from flytrim.switch_control import SwitchControl
from flytrim.telemetry.flow_counters import FlowCounters
from flytrim.telemetry.latency import Latency
from flytrim.telemetry.tally import Tally
from flytrim.telemetry.total import Total
from flytrim.truncator import Truncator

__all__ = ["AHEAD", "COUNTED_FLOWS", "HASH", "PAGES", "PATHS", "QUEUE", "SWITCH", "SWITCH_PAGE",
           "TALLY", "TOP", "TOTAL", "blocks_verilog", "cam_flows", "control_verilog",
           "encapsulator_verilog", "hash_verilog", "pages_verilog", "reassembler_verilog"]

TOP = "blocks"
#: Small, so that a bench fills and empties it often.
QUEUE = {"depth": 16, "margin": 3}
#: Small, so that entries have to move and places, slots and ports run out.
HASH = {"flows": 64, "slots": 4, "ports": 3, "kicks": 8}
#: So narrow that they come to their ends.
TALLY = {"rows": 8, "amounts": {"frames": 1, "bytes": 5}, "width": 8}
TOTAL = {"bits": 5, "width": 8}
COUNTED_FLOWS = 8
#: So few that there are addresses beyond them, and that the rows of their counters are more.
SWITCH_PAGE = {"ports": 3, "groups": 5}
SWITCH = SwitchConfig(**SWITCH_PAGE, width=64, window=8, slot_bytes=64, types=("fp32", "bf16"),
                      sum="fused", commit=0x89ABCDEF)
PAGES = 5
#: Flows of multipath, and their window.
PATHS = {"paths": 3, "window": 64}
#: Cycles that a frame is under way before it is stamped.
AHEAD = 9


class _Blocks(Elaboratable):
    def __init__(self, blocks):
        self._blocks = blocks

    def ports(self):
        """Name to (value, None) of every port that is a signal; directions follow from use."""
        found = {}
        for name, block in self._blocks.items():
            for path, _, value in block.signature.flatten(block):
                value = Value.cast(value)
                # These hang on others. ``ready`` of a lane is a constant.
                if not isinstance(value, Const) and (name, path[0]) not in (
                        ("icrc", "i"), ("cam", "key_again")):
                    found["__".join((name, *map(str, path)))] = value, None
        return found

    def elaborate(self, platform):
        m = Module()
        for name, block in self._blocks.items():
            m.submodules[name] = block
        if "icrc" in self._blocks:
            parser, icrc, cam = (self._blocks[name] for name in ("parser", "icrc", "cam"))
            m.d.comb += [icrc.i.valid.eq(parser.o.valid), icrc.i.payload.eq(parser.o.payload),
                         cam.key_again.eq(cam.i.payload)]
        return m


def cam_flows(config):
    """Entries of the CAM beside the blocks of a configuration."""
    return min(config.flows, CAM_FLOWS)


def blocks_verilog(config):
    """Verilog of all blocks for a configuration, top module :data:`TOP`."""
    return _verilog({
        "receive": PacketSink(config),
        "parser": Parser(config),
        "icrc": IcrcChecker(config),
        "classifier": Classifier(config),
        "cam": FlowCam(cam_flows(config)),
        "hash": FlowHash(**HASH),
        "stripper": Stripper(config),
        "truncator": Truncator(config),
        "admission": Admission(config),
        "queue": Queue(Packet(config.width), **QUEUE),
        "bank": RegisterBank(registers.load()),
        "tally": Tally(**TALLY),
        "total": Total(**TOTAL),
        "flow_counters": FlowCounters(COUNTED_FLOWS),
        "latency": Latency(AHEAD),
        "bare": RegisterBank(registers.load(counters=False)),
        "switch": RegisterBank(registers.load_switch(**SWITCH_PAGE)),
    })


def control_verilog():
    """Verilog of the control plane of a switch, top module :data:`TOP`."""
    return _verilog({
        "plane": ControlPlane(SWITCH),
        "bare": SwitchControl(dataclasses.replace(SWITCH, counters=False)),
    })


def pages_verilog():
    """Verilog of an :class:`AxilPages` alone, top module :data:`TOP`."""
    return _verilog({"pages": AxilPages(PAGES)})


def hash_verilog(flows):
    """Verilog of a :class:`FlowHash` of full size alone, top module :data:`TOP`."""
    return _verilog({"hash": FlowHash(flows)})


def encapsulator_verilog(width):
    """Verilog of an :class:`Encapsulator` alone, top module :data:`TOP`."""
    return _verilog({"encapsulator": Encapsulator(width)})


def reassembler_verilog(config):
    """Verilog of a :class:`Reassembler` alone, top module :data:`TOP`."""
    return _verilog({"reassembler": Reassembler(config, **PATHS)})


def _verilog(blocks):
    top = _Blocks(blocks)
    return verilog.convert(top, name=TOP, ports=top.ports(), emit_src=False,
                           strip_internal_attrs=True)
