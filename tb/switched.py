# SPDX-License-Identifier: Apache-2.0
"""A compiled ``TrimSwitch`` beside its model: every frame that leaves is held against it."""

import contextlib
import random

from roce_packet import RocePacket

from flytrim.config import SwitchConfig
from flytrim.driver import Switch
from flytrim.groups import SwitchFile
from flytrim.model import Child, Flow, Group, Header, SwitchModel
from flytrim.sim.build import build_fabric, device_verilog
from flytrim.sim.fabric import Fabric, SinkMode

__all__ = ["CONFIG", "Stuck", "Switched", "contribution", "header", "program", "random_group"]

#: Small in all but its number of types, so that windows wrap soon and it compiles soon.
CONFIG = SwitchConfig(ports=4, width=64, groups=16, window=32, slot_bytes=256, max_frame=1514,
                      types=("fp32", "int32", "bf16", "fp16"))
#: Cycles after which a switch must have come to rest.
REST = 1_000_000
OPCODES = ("UC_SEND_ONLY", "UC_WRITE_ONLY", "UC_SEND_MIDDLE", "RC_SEND_ONLY_IMM")
_RESULT_OPCODES = (0x24, 0x25, 0x2A, 0x2B, 0x04, 0x05, 0x0A, 0x0B, 0x64, 0x65)


def program(config=CONFIG, **options):
    """The path of the compiled switch."""
    return build_fabric(config, device_verilog(config, "switch"), **options)


def header(port, rng):
    """Headers that a port's results leave under, everything in them random."""
    net = "fd00::" if rng.random() < 0.3 else "10.0.0."
    return Header(
        src_mac=0x0200000000FE, dst_mac=0x020000000100 + port, src=f"{net}254", dst=f"{net}{port}",
        dqpn=rng.getrandbits(24), psn=rng.getrandbits(24), opcode=rng.choice(_RESULT_OPCODES),
        vlan=rng.choice((None, rng.getrandbits(12))), pcp=rng.getrandbits(3),
        va=rng.getrandbits(64), rkey=rng.getrandbits(32), qkey=rng.getrandbits(32),
        src_qp=rng.getrandbits(24), dscp=rng.getrandbits(6), ttl=rng.randrange(1, 256),
        flow_label=rng.getrandbits(20), udp_sport=rng.getrandbits(16))


def random_group(number, rng, *, window, ports=None, roles=False, **choices):
    """A group with the slots behind those of lower numbers; PSNs often wrap soon.

    With ``roles`` it may have a parent, and children that give or get no payload.
    """
    ports = ports or sorted(rng.sample(range(CONFIG.ports), rng.randint(1, CONFIG.ports)))
    members = [
        Child(Flow(f"g{number}p{port}", f"10.1.{number}.{port}", "10.0.0.254", 0x11 + number),
              port, header(port, rng),
              rng.choice((rng.getrandbits(24), (1 << 24) - rng.randrange(1, 40))),
              relay=roles and rng.random() < 0.3)
        for port in ports]
    parent = None
    if roles and len(members) > 1 and rng.random() < 0.5:
        parent = members.pop(rng.randrange(len(members)))
    chosen = {"op": rng.choice(("sum", "min", "max")), "dtype": rng.choice(CONFIG.types),
              "nan": rng.choice(("propagate", "ignore")), **choices}
    for role in ("sources", "receivers"):
        if roles and rng.random() < 0.3:
            chosen[role] = tuple(each.port for each in members if rng.random() < 0.6)
    return Group(f"g{number}", tuple(members), window=window, base=2 * window * number,
                 parent=parent, **chosen)


def contribution(child, offset, payload, rng, **fields):
    """A child's packet of this offset."""
    flow = child.flow
    chosen = {"opcode": rng.choice(OPCODES), "tos": rng.choice((0, 2, 2, 3)), **fields}
    return RocePacket(payload=payload, src=str(flow.src), dst=str(flow.dst), dqpn=flow.dqpn,
                      psn=(child.start_psn + offset) % (1 << 24), **chosen).to_bytes()


class Switched:
    """Sends frames and commands to both; a context manager.

    Parameters
    ----------
    program : path
        What :func:`program` gave.
    groups : list of flytrim.model.Group
    routes : dict
        The port that frames leave by which are not reduced, by that they enter on.

    Raises ``AssertionError``, with what was done last, where the two differ.
    """

    def __init__(self, program, groups, routes, config=CONFIG):
        self.config = config
        self.model = SwitchModel(config.ports, groups=config.groups, slot_bytes=config.slot_bytes,
                                 max_frame=config.max_frame)
        self.model.configure(groups, routes)
        self.groups, self.routes = list(groups), routes
        self._program, self._stack = program, contextlib.ExitStack()
        self._expected, self._done = [], []

    def __enter__(self):
        self.fabric = self._stack.enter_context(Fabric(self._program))
        self.fabric.reset()
        self.switch = Switch(self.fabric)
        self.switch.configure(SwitchFile(self.config, tuple(self.groups), self.routes, 250))
        return self

    def __exit__(self, *problem):
        return self._stack.__exit__(*problem)

    def send(self, port, frame, about, **options):
        """Let a frame enter; what it brings about is expected at the next :meth:`settle`."""
        self._done.append(f"port {port}: {about}")
        error = options.get("error", False)
        leaves = self.model.receive(port, frame, error)
        # What is forwarded keeps the mark of the MAC.
        self._expected += [(to, data, error and data == frame) for to, data in leaves]
        self.fabric.send(port, frame, **options)
        return leaves

    def command(self, name, group, *arguments):
        """Run a command on both; its outcome, a name, is the same or this raises."""
        self._done.append(f"{name} group {group} {arguments}")
        outcomes = []
        for side in (self.model, self.switch):
            try:
                left = getattr(side, name)(group, *arguments)
                outcomes.append("done")
                if side is self.model:
                    self._expected += [(*each, False) for each in left or ()]
            except Exception as refused:
                outcomes.append(getattr(refused, "code", None) or str(refused))
        assert outcomes[0] == outcomes[1], self._explain(f"model and switch: {outcomes}")
        return outcomes[0]

    def settle(self):
        """Let all of it leave, and compare; frames of a port may leave in another order."""
        ran = self.fabric.drain(self.fabric.run(0).cycle + REST)
        assert not ran.faults, self._explain(ran.faults[0])
        found = sorted((left.port, left.frame, left.error) for left in ran.frames)
        expected, self._expected = sorted(self._expected), []
        if found != expected:
            missing = [each for each in expected if each not in found]
            extra = [each for each in found if each not in expected]
            raise AssertionError(self._explain(
                f"missing {[(port, data.hex(), error) for port, data, error in missing[:2]]}, "
                f"unexpected {[(port, data.hex(), error) for port, data, error in extra[:2]]}"))
        return ran

    def check_counters(self):
        """Counters of ports and groups are those of the model."""
        found = self.switch.counters()
        for port, model in enumerate(self.model.port_counts):
            # The hardware tells of a group that does not run as of one too far ahead.
            expected = [model["contributions"], model["duplicates"],
                        model["out_of_window"] + model["stopped"], model["bounds"],
                        model["replays"], model["results"]]
            assert list(found.ports[port]) == expected, f"port {port}"
        for group, model in enumerate(self.model.group_counts):
            assert list(self.switch.group_counters(group)) == [
                model["results"], model["aborted"], model["flushed"]], f"group {group}"

    def _explain(self, fault):
        return "\n".join([fault, "what was done last:", *self._done[-20:]])


class Stuck:
    """A switch of whose ports one takes nothing, and slots that are full of results for it."""

    def __init__(self, both, rng, port):
        self.both, self.rng, self.ran = both, rng, []
        both.fabric.sink(port, SinkMode.RANDOM, rate=0)

    def give(self, number, offsets, size, last):
        """Contributions, that of port ``last`` behind the others; what the model says leaves."""
        leaves = []
        for offset in offsets:
            children = self.both.groups[number].children
            for child in sorted(children, key=lambda child: child.port == last):
                if child.port == last:
                    self.run(100)
                leaves += self.both.send(child.port, contribution(
                    child, offset, self.rng.randbytes(size), self.rng), f"{number} {offset}")
        return leaves

    def run(self, cycles):
        self.ran += self.both.fabric.run(self.both.fabric.run(0).cycle + cycles).frames

    def left(self):
        """(port, frame) of all that has left since the last call and is not marked bad."""
        self.run(5000)
        found = [(left.port, left.frame) for left in self.ran if not left.error]
        self.ran.clear()
        return found


def numbers(rng, size, dtype):
    """Bytes of a payload, some of its elements odd ones."""
    if rng.random() < 0.2:
        return rng.randbytes(size)
    step = 4 if dtype in ("fp32", "int32") else 2
    odd = {"fp32": (0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x7F7FFFFF),
           "bf16": (0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 1, 0x7F7F),
           "fp16": (0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 1, 0x7BFF)}.get(dtype, (0, 1 << 31))
    return b"".join(
        rng.choice(odd).to_bytes(step, "little") if rng.random() < 0.1 else rng.randbytes(step)
        for _ in range(size // step)) + bytes(size % step)


def player(seed):
    """The random numbers of a run."""
    return random.Random(f"switch {seed}")
