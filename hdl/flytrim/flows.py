# SPDX-License-Identifier: Apache-2.0
"""FLOWS.toml: the device and its registered flows, as a user writes them.

A file with groups is one of a switch, which :mod:`flytrim.groups` reads.

Every fault ends in an :class:`~flytrim.errors.InputError` of one line that names the file, the
entry, the value and the remedy.
"""

import json
from dataclasses import MISSING, dataclass, fields
from typing import Literal

from pydantic import Field

from .config import CAM_FLOWS, MAX_FRAME, MIN_MAX_FRAME, WIDTHS, NicConfig
from .document import Address, Entry, checked, entries, read, shown, table, unknown
from .errors import InputError
from .model import Flow

__all__ = ["NAME", "NAMED", "DeviceOptions", "FlowEntry", "FlowFile", "FlowOptions", "check_pairs",
           "flow_entry", "flow_toml", "label_of", "load", "parse", "refuse_later"]


# Keys and values of the format whose parts are not built yet.
_LATER_KEYS = {"path_mtu", "order", "buffer", "lean_id", "flush_ns"}
_LATER_VALUES = {("action", "reassemble")}
# What a file of a switch has in its flows and its device.
_SWITCH_KEYS = {"port", "start_psn", "header"}
_SWITCH_OPTIONS = {"ports", "groups", "window", "slot_bytes", "forward"}
_OF_A_SWITCH = "is for a switch: run it with flytrim sim --top switch, or"

#: What a name is made of, and how that is said.
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
NAMED = "must be 1 to 64 letters, digits, '_', '-' or '.', in quotes"


class DeviceOptions(Entry):
    """What every device may be told."""

    width: Literal[WIDTHS] = Field(
        512, description=f"must be {', '.join(map(str, WIDTHS[:-1]))} or {WIDTHS[-1]} bits")
    clock_mhz: float = Field(250, gt=0, le=10_000,
                             description="must be a clock in MHz, above 0 and up to 10000")
    max_frame: int = Field(MAX_FRAME, ge=MIN_MAX_FRAME, le=MAX_FRAME,
                           description=f"must be {MIN_MAX_FRAME} to {MAX_FRAME} bytes")


class _Device(DeviceOptions):
    flows: int = Field(CAM_FLOWS, description="must be the entries of the flow table")


class FlowOptions(Entry):
    """What a flow may have beside its name, its addresses, its queue pair and its action."""

    udp_dport: int = Field(4791, ge=1, le=0xFFFF, description="must be a UDP port, 1 to 65535")
    udp_sport: int | None = Field(None, ge=0, le=0xFFFF,
                                  description="must be a UDP port, 0 to 65535")
    vlan: int | None = Field(None, ge=0, le=4094, description="must be a VLAN ID, 0 to 4094")
    icrc: Literal["check", "ignore"] = Field("check",
                                             description='must be "check" or "ignore"')
    message_bytes: int | None = Field(None, ge=1, le=1 << 31,
                                      description="must be 1 to 2147483648 bytes")
    disabled: bool = Field(False, description="must be true or false")
    excess: Literal["bypass", "cut"] = Field("bypass", description='must be "bypass" or "cut"')


class FlowEntry(FlowOptions):
    """What every flow has, whatever becomes of it."""

    name: str = Field(pattern=NAME, description=NAMED)
    src: Address = Field(description='must be an IPv4 or IPv6 address such as "10.0.0.1"')
    dst: Address = Field(description='must be an IPv4 or IPv6 address such as "10.0.0.9"')
    dqpn: int = Field(ge=0, le=0xFFFFFF,
                      description="must be the destination queue pair, 0 to 0xffffff")


class _Flow(FlowEntry):
    action: Literal["trim"] = Field("trim", description='must be "trim"')


@dataclass(frozen=True)
class FlowFile:
    """What a FLOWS.toml says.

    ``config`` is the device to build, ``flows`` the :class:`flytrim.model.Flow` list whose order
    gives the flow numbers, ``clock_mhz`` the clock that cycles are turned into time with.
    """

    config: NicConfig
    flows: tuple
    clock_mhz: float


def load(path):
    """Read a FLOWS.toml. Raises :class:`InputError`."""
    with read(path) as document:
        return parse(document)


def parse(document):
    """The :class:`FlowFile` of a FLOWS.toml that was read, a dict. Raises :class:`InputError`."""
    for key in document:
        if key == "group":
            raise InputError(f"[[group]] {_OF_A_SWITCH} remove it")
        if key not in ("device", "flow"):
            raise InputError(unknown(key, ("device", "flow")))
    for key in table(document, "device"):
        if key in _SWITCH_OPTIONS:
            raise InputError(f"[device]: {key} {_OF_A_SWITCH} remove it")
    device = checked(_Device, table(document, "device"), "[device]")
    found = entries(document, "flow")
    if not found:
        raise InputError("no flow is registered: add a [[flow]]")
    try:
        config = NicConfig(width=device.width, flows=device.flows, max_frame=device.max_frame)
    except ValueError as error:
        raise InputError(f"[device]: {error}") from None
    if len(found) > config.flows:
        raise InputError(f"[[flow]] {config.flows + 1}: the flow table has {config.flows} "
                         f"entries and the file {len(found)} flows: remove "
                         f"{len(found) - config.flows}, or ask for a larger table with "
                         f"'flows = 4096' in [device]")
    flows = tuple(_flow(entry, number) for number, entry in enumerate(found, 1))
    check_pairs(flows)
    return FlowFile(config, flows, device.clock_mhz)


def _flow(entry, number):
    label = label_of("flow", entry, number)
    for key in entry:
        if key in _SWITCH_KEYS:
            raise InputError(f"{label}: {key} {_OF_A_SWITCH} remove it")
    if entry.get("action") == "reduce":
        raise InputError(f'{label}: action = "reduce" {_OF_A_SWITCH} write "trim"')
    flow = flow_entry(_Flow, entry, number)
    return Flow(**flow.model_dump(exclude={"action"}))


def label_of(kind, entry, number):
    """How a fault names an entry of ``[[kind]]``, counted from 1: by its name, if it has one."""
    name = entry.get("name")
    return f'{kind} "{name}"' if isinstance(name, str) and name else f"[[{kind}]] {number}"


def refuse_later(label, entry, keys, values, schema):
    """Raises where an entry has a key, or a pair of key and value, that is not built yet."""
    for key, value in entry.items():
        if key in keys:
            raise InputError(f"{label}: {key} needs a later version: remove it")
        if isinstance(value, str) and (key, value) in values:
            default = schema.model_fields[key].default
            raise InputError(f'{label}: {key} = {shown(value)} needs a later version: '
                             f'write "{default}"')


def flow_entry(schema, entry, number):
    """The ``[[flow]]`` of this number, counted from 1, as a :class:`FlowEntry` of ``schema``."""
    label = label_of("flow", entry, number)
    refuse_later(label, entry, _LATER_KEYS, _LATER_VALUES, schema)
    flow = checked(schema, entry, label)
    if flow.src.version != flow.dst.version:
        raise InputError(f'{label}: src = "{flow.src}" and dst = "{flow.dst}" are of two IP '
                         f'versions: give both as IPv4 or both as IPv6')
    if flow.excess == "cut" and flow.message_bytes is None:
        raise InputError(f'{label}: excess = "cut" has no length to cut to: add message_bytes')
    return flow


def check_pairs(flows):
    """Raises where two of the flows of one device cannot be told apart."""
    names, keys = {}, {}
    for number, flow in enumerate(flows, 1):
        if flow.name in names:
            raise InputError(f'[[flow]] {number}: name = "{flow.name}" is taken by [[flow]] '
                             f'{names[flow.name]}: choose another')
        names[flow.name] = number
        other = keys.setdefault(flow.key, flow)
        if other is flow:
            continue
        if (other.vlan, other.udp_sport) == (flow.vlan, flow.udp_sport):
            raise InputError(f'flow "{flow.name}": has the key of flow "{other.name}" ({flow.src} '
                             f'to {flow.dst}, port {flow.udp_dport}, QP {flow.dqpn:#x}): '
                             f'remove one')
        raise InputError(f'flow "{flow.name}": overlaps flow "{other.name}", they differ only in '
                         f'vlan or udp_sport: give one another dqpn or remove it')


def flow_toml(flow):
    """The text of the ``[[flow]]`` that registers a :class:`flytrim.model.Flow`.

    What has its default is left out.
    """
    lines = ["[[flow]]"]
    for field in fields(flow):
        value = getattr(flow, field.name)
        if field.name == "dqpn":
            lines.append(f"dqpn = {value:#x}")
        elif field.default is MISSING or value != field.default:
            lines.append(f"{field.name} = {json.dumps(value, default=str)}")
    return "\n".join([*lines, 'action = "trim"', ""])
