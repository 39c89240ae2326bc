# SPDX-License-Identifier: Apache-2.0
"""What the frames of the coverage plan leave out: registers, flow commands, outputs that wait."""

import contextlib
import dataclasses

import directed
import frames
from coverage_plan import CONFIG

from flytrim.driver import Device, Registers
from flytrim.flow_cam import FlowOperation, FlowStatus
from flytrim.model import NicModel
from flytrim.sim.compare import Comparer
from flytrim.sim.replay import Kind, Output, Replay, SimulationError, SinkMode

__all__ = ["play_registers", "play_waiting"]


def play_registers(program, rng, file):
    """Reads and writes of every register, and flow commands with every status."""
    device = Registers()
    shadow = [name for name in device if name.startswith("flow.")]
    insert, replace, delete = FlowOperation.INSERT, FlowOperation.REPLACE, FlowOperation.DELETE
    with Replay(program, file) as replay:
        def command(number, operation, words=()):
            """Status of a flow command behind writes to the shadow registers."""
            for name, word in dict(words).items():
                replay.write(device.address(name), word)
            word = device.pack("flow_command", flow=number, op=int(operation))
            replay.write(device.address("flow_command"), word)
            status = {"busy": True}
            while status["busy"]:
                word = replay.read(device.address("flow_status"))
                status = device.unpack("flow_status", word)
            return FlowStatus(status["code"])

        replay.reset()
        entries = [{name: rng.getrandbits(32) for name in shadow} for _ in range(CONFIG.flows)]
        # Each bit of each entry goes both ways.
        for turn in (0, 0xFFFFFFFF, 0):
            for number, words in enumerate(entries):
                words = {name: word ^ turn for name, word in words.items()}
                if not turn:
                    command(number, delete)
                assert command(number, replace if turn else insert, words) is FlowStatus.DONE
                for name in device:
                    replay.read(device.address(name))
            for address in (device.address("max_frame") + 4, 0xFFC):    # of no register
                for access in (replay.read, lambda address: replay.write(address, 0)):
                    with contextlib.suppress(SimulationError):
                        access(address)
        other = entries[0] | {"flow.options": entries[0]["flow.options"] ^ 1 << 16}
        for number, operation, words, status in (
                (0, insert, {}, "OCCUPIED"), (CONFIG.flows, insert, {}, "BAD_NUMBER"),
                (0xFFFF, delete, {}, "BAD_NUMBER"), (0, 0, {}, "UNKNOWN"),
                (1, replace, entries[0], "DUPLICATE"), (1, replace, other, "OVERLAP"),
                (0, replace, other, "DONE"), (0, replace, entries[0], "DONE")):
            assert command(number, operation, words).name == status, (number, operation)
        for number in range(CONFIG.flows):
            assert command(number, delete) is FlowStatus.DONE
        for operation in replace, delete:
            assert command(0, operation) is FlowStatus.EMPTY
        replay.feed(())
        assert not [event for event in replay.events() if event.kind != Kind.SUMMARY]


def play_waiting(program, rng, file):
    """Packets whose payloads and records wait for their sinks, until there is no room for more."""
    presets = [rng.choice((rng.randrange(1, 12), rng.getrandbits(32))) for _ in directed.FLOWS]
    flows = [dataclasses.replace(flow, message_bytes=preset)
             for flow, preset in zip(directed.FLOWS, presets, strict=True)]
    made = []
    for number in range(6 * CONFIG.queue_records):
        # Records fill their queue behind short packets, payloads theirs behind long ones.
        longest = 12 if number % 16 else rng.choice((1600, 9000))
        size = rng.randrange(longest)
        opcode = rng.choice(directed.ONLY if longest > 1600 else frames.PAYLOAD)
        packet = frames.RocePacket(opcode=opcode, payload=rng.randbytes(size),
                                   **frames.flow_fields(rng, rng.choice(flows)))
        # A damaged frame's verdict does not tell whether there was room, so these find some.
        early = number < CONFIG.queue_records // 2
        damage = rng.choice(("", "flag", "icrc", "length")) if early else ""
        packet.icrc = bytes(4) if damage == "icrc" else None
        if damage == "length":
            packet.udp_length = 0xFFDF
            packet.ip_length = packet.udp_length + packet.ip_overhead()
        made.append((packet.to_bytes(), damage == "flag"))
    with Replay(program, file) as replay:
        replay.reset()
        Device(replay).insert_flows(flows)
        replay.sink(Output.METADATA, SinkMode.RANDOM, rate=5, seed=rng.getrandbits(32))
        replay.sink(Output.TRIM, SinkMode.RANDOM, rate=200, seed=rng.getrandbits(32))
        replay.feed(made)
        comparer = Comparer(((None, frame) for frame, _ in made),
                            NicModel(flows, CONFIG.max_frame), overflow=CONFIG,
                            errors={number for number, (_, error) in enumerate(made) if error})
        for _ in comparer.outcomes(replay.events()):
            pass
        comparer.close(len(made))
    return len(made)
