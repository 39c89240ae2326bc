# SPDX-License-Identifier: Apache-2.0
"""Tables of a switch's FLOWS.toml, as a user writes them."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from .config import MAX_PORTS, SUMS, TYPES
from .document import Address, Entry, checked
from .errors import InputError
from .flows import NAME, NAMED, DeviceOptions, FlowEntry
from .headers import OPCODES, Place
from .model import Header

__all__ = ["DeviceEntry", "GroupEntry", "ReducedFlow", "header"]

#: Opcodes that results may have over UC and UD, by name.
_OPCODES = {opcode.name: code for code, opcode in OPCODES.items()
            if opcode.place is Place.ONLY and opcode.name.startswith(("UC_", "UD_"))}
#: Keys of a header that only these opcodes need, by a part of their name.
_NEEDED = {"WRITE": ("va", "rkey"), "UD_": ("qkey", "src_qp")}


def _mac(text):
    if not isinstance(text, str) or not re.fullmatch(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", text):
        raise ValueError(text)
    return int(text.replace(":", ""), 16)


_Mac = Annotated[int, BeforeValidator(_mac)]


def _choice(*names):
    return f"must be {', '.join(map(_quoted, names[:-1]))} or {_quoted(names[-1])}"


def _quoted(name):
    return f'"{name}"'


def _number(bits, what, default=0):
    return Field(default, ge=0, lt=1 << bits, description=f"must be {what}, 0 to "
                                                          f"{(1 << bits) - 1:#x}")


class DeviceEntry(DeviceOptions):
    """``[device]``."""

    ports: int = Field(4, ge=2, le=MAX_PORTS, description=f"must be 2 to {MAX_PORTS} ports")
    groups: int = Field(16, description="must be a number of groups")
    window: int = Field(128, description="must be the packets of the windows of all groups")
    slot_bytes: int = Field(1024, description="must be the bytes of the longest payload")
    forward: list[int] = Field([], description="must be a list of ports: where frames leave that "
                                               "enter on port 0, 1 and so on and are not reduced")


class GroupEntry(Entry):
    """``[[group]]``."""

    name: str = Field(pattern=NAME, description=NAMED)
    children: list[str] = Field(min_length=1, description="must be a list of names of flows")
    op: Literal["sum", "min", "max"] = Field("sum", description=_choice("sum", "min", "max"))
    dtype: Literal[TYPES] = Field("fp32", description=_choice(*TYPES))
    mode: Literal["tree"] = Field("tree", description='must be "tree"')
    transport: Literal["uc"] = Field("uc", description='must be "uc"')
    window: int | None = Field(None, ge=1, le=4096, description="must be 1 to 4096 packets, a "
                                                                "power of two")
    slot_bytes: int | None = Field(None, description="must be that of [device]")
    straggler_us: float = Field(1000, ge=0, description="must be microseconds, or 0 for never")
    nan: Literal["propagate", "ignore"] = Field("propagate",
                                                description=_choice("propagate", "ignore"))
    sum: Literal[SUMS] = Field("tree", description=_choice(*SUMS))


class ReducedFlow(FlowEntry):
    """``[[flow]]`` of a child."""

    action: Literal["reduce"] = Field(description='must be "reduce": a switch has no other flows')
    port: int = Field(ge=0, description="must be the port that it enters on")
    start_psn: int = _number(24, "the PSN of its first packet")
    header: dict = Field(description="must be a table of the headers that results leave with")


class _Header(Entry):
    src_mac: _Mac = Field(description='must be a MAC address such as "02:00:00:00:00:01"')
    dst_mac: _Mac = Field(description='must be a MAC address such as "02:00:00:00:00:02"')
    src: Address | None = Field(None, description='must be an address such as "10.0.0.9"')
    dst: Address | None = Field(None, description='must be an address such as "10.0.0.1"')
    dqpn: int = Field(ge=0, le=0xFFFFFF,
                      description="must be the destination queue pair, 0 to 0xffffff")
    psn: int = _number(24, "the PSN of the first result")
    opcode: Literal[tuple(_OPCODES)] = Field("UC_SEND_ONLY", description=_choice(*_OPCODES))
    udp_sport: int = _number(16, "a UDP port", 49152)
    udp_dport: int = _number(16, "a UDP port", 4791)
    vlan: int | None = Field(None, ge=0, le=4094, description="must be a VLAN ID, 0 to 4094")
    pcp: int = _number(3, "a priority")
    dscp: int = _number(6, "a DSCP")
    ttl: int = Field(64, ge=1, le=255, description="must be a time to live, 1 to 255")
    flow_label: int = _number(20, "a flow label")
    pkey: int = _number(16, "a P_Key", 0xFFFF)
    va: int | None = _number(64, "the address of the first result", None)
    rkey: int | None = _number(32, "an R_Key", None)
    qkey: int | None = _number(32, "a Q_Key", None)
    src_qp: int | None = _number(24, "a source queue pair", None)


def header(flow, label):
    """The :class:`flytrim.model.Header` of a :class:`ReducedFlow`.

    Its addresses are those of the flow the other way round where it has none.
    """
    label = f"{label}: header"
    entry = checked(_Header, flow.header, label)
    fields = entry.model_dump() | {"src": entry.src or flow.dst, "dst": entry.dst or flow.src}
    if fields["src"].version != fields["dst"].version:
        raise InputError(f'{label}: src = "{fields["src"]}" and dst = "{fields["dst"]}" are of two '
                         f'IP versions: give both as IPv4 or both as IPv6')
    if entry.pcp and entry.vlan is None:
        raise InputError(f"{label}: pcp = {entry.pcp} is a part of the VLAN tag: add vlan, 0 for "
                         f"none")
    for part, keys in _NEEDED.items():
        for key in keys:
            if part in entry.opcode and fields[key] is None:
                raise InputError(f'{label}: {key} is missing: opcode = "{entry.opcode}" needs it')
            if part not in entry.opcode and fields[key] is not None:
                raise InputError(f'{label}: {key} has no place in opcode = "{entry.opcode}": '
                                 f'remove it, or give another opcode')
            fields[key] = fields[key] or 0
    return Header(**fields | {"opcode": _OPCODES[entry.opcode]})
