# SPDX-License-Identifier: Apache-2.0
"""FLOWS.toml of a switch: the groups that it reduces, and the flows that are their children.

Every fault ends in an :class:`~flytrim.errors.InputError` of one line that names the file, the
entry, the value and the remedy.
"""

import difflib
from dataclasses import dataclass

from .config import TYPES, SwitchConfig
from .document import checked, entries, read, table, unknown
from .errors import InputError
from .flows import check_pairs, flow_entry, label_of, refuse_later
from .group_entries import DeviceEntry, GroupEntry, ReducedFlow, header
from .model import Child, Flow, Group

__all__ = ["SwitchFile", "load", "parse"]

#: What a device reduces whether a group asks for it or not.
_ALWAYS = ("fp32", "int32")
# Keys and values of the format whose parts are not built yet.
_LATER_KEYS = {"parent"}
_LATER_VALUES = {("mode", "ring"), ("mode", "transparent"), ("transport", "rc")}


@dataclass(frozen=True)
class SwitchFile:
    """What a FLOWS.toml of a switch says.

    ``config`` is the :class:`~flytrim.config.SwitchConfig` of the device to build, ``groups`` the
    :class:`flytrim.model.Group` list whose order gives the group numbers, which are also the
    numbers of their children's flows, each on its port. ``forward`` is the port that frames leave
    by that are not reduced, by the port they enter on; others are dropped. ``clock_mhz`` is the
    clock that cycles are turned into time with.
    """

    config: SwitchConfig
    groups: tuple
    forward: dict
    clock_mhz: float


def load(path):
    """Read a FLOWS.toml of a switch. Raises :class:`InputError`."""
    with read(path) as document:
        return parse(document)


def parse(document):
    """The :class:`SwitchFile` of a FLOWS.toml that was read, a dict. Raises :class:`InputError`."""
    for key in document:
        if key not in ("device", "flow", "group"):
            raise InputError(unknown(key, ("device", "flow", "group")))
    device = checked(DeviceEntry, table(document, "device"), "[device]")
    groups = [_group(entry, number) for number, entry in enumerate(entries(document, "group"), 1)]
    if not groups:
        raise InputError("no group is there to be reduced: add a [[group]]")
    config = _config(device, groups)
    children = _children(entries(document, "flow"), config)
    members = [_members(group, children) for group in groups]
    _check_memberships(groups, children)
    windows = _windows(groups, config)
    bases = _bases(windows, config)
    return SwitchFile(config, tuple(
        Group(name=group.name, children=tuple(own), op=group.op, dtype=group.dtype, nan=group.nan,
              window=window, base=base, timeout=_cycles(group, device.clock_mhz))
        for group, own, window, base in zip(groups, members, windows, bases, strict=True)),
        _routes(device, config), device.clock_mhz)


def _group(entry, number):
    label = label_of("group", entry, number)
    refuse_later(label, entry, _LATER_KEYS, _LATER_VALUES, GroupEntry)
    group = checked(GroupEntry, entry, label)
    if group.window is not None and group.window & (group.window - 1):
        raise InputError(f"{label}: window = {group.window}: must be a power of two")
    return group


def _config(device, groups):
    names = [group.name for group in groups]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f'[[group]] {number + 1}: name = "{name}" is taken by [[group]] '
                             f'{names.index(name) + 1}: choose another')
    for group in groups:
        if group.sum != groups[0].sum:
            raise InputError(f'group "{group.name}": sum = "{group.sum}": a device adds in one '
                             f'way, and group "{groups[0].name}" has "{groups[0].sum}": give both '
                             f'the same')
        if group.slot_bytes not in (None, device.slot_bytes):
            raise InputError(f'group "{group.name}": slot_bytes = {group.slot_bytes}: the device '
                             f"has slots of {device.slot_bytes} bytes: give 'slot_bytes = "
                             f"{group.slot_bytes}' in [device]")
    used = {*_ALWAYS, *(group.dtype for group in groups)}
    try:
        config = SwitchConfig(
            ports=device.ports, width=device.width, groups=device.groups, window=device.window,
            slot_bytes=device.slot_bytes, max_frame=device.max_frame, sum=groups[0].sum,
            types=tuple(each for each in TYPES if each in used))
    except ValueError as error:
        raise InputError(f"[device]: {error}") from None
    if len(groups) > config.groups:
        raise InputError(f"[[group]] {config.groups + 1}: the device has {config.groups} groups "
                         f"and the file {len(groups)}: remove {len(groups) - config.groups}, or "
                         f"give 'groups = {len(groups)}' in [device]")
    return config


def _children(found, config):
    """The :class:`Child` of each flow, by name."""
    children = {}
    for number, entry in enumerate(found, 1):
        flow, label = flow_entry(ReducedFlow, entry, number), label_of("flow", entry, number)
        if flow.port >= config.ports:
            raise InputError(f"{label}: port = {flow.port}: the device has {config.ports} ports, 0 "
                             f"to {config.ports - 1}: give one of them, or more 'ports' in "
                             f"[device]")
        if flow.name in children:
            raise InputError(f'[[flow]] {number}: name = "{flow.name}" is taken by [[flow]] '
                             f'{[*children].index(flow.name) + 1}: choose another')
        key = flow.model_dump(exclude={"action", "port", "start_psn", "header"})
        children[flow.name] = Child(Flow(**key), flow.port, header(flow, label), flow.start_psn)
    for port in range(config.ports):
        check_pairs([child.flow for child in children.values() if child.port == port])
    return children


def _members(group, children):
    """The children of a group, in the order of summation."""
    label, own = f'group "{group.name}"', []
    for name in group.children:
        if name not in children:
            near = difflib.get_close_matches(name, children, 1)
            hint = f'did you mean "{near[0]}"?' if near else "add a [[flow]] of that name"
            raise InputError(f'{label}: children: there is no flow "{name}": {hint}')
        child = children[name]
        before = own[-1] if own else None
        if before and child.port == before.port:
            raise InputError(f'{label}: children "{before.flow.name}" and "{name}" are both on '
                             f'port {child.port}: a port has one child of a group: remove one, or '
                             f'give it another port')
        if before and child.port < before.port:
            raise InputError(f'{label}: children: "{name}" on port {child.port} comes behind '
                             f'"{before.flow.name}" on port {before.port}: list them by rising '
                             f'port, which is the order of summation')
        own.append(child)
    return own


def _check_memberships(groups, children):
    of = {}
    for group in groups:
        for name in group.children:
            if name in of:
                raise InputError(f'group "{group.name}": child "{name}" is one of group '
                                 f'"{of[name]}" already: a flow has one group')
            of[name] = group.name
    for name in children:
        if name not in of:
            raise InputError(f'flow "{name}": is a child of no group: name it in the children of '
                             f'one, or remove it')


def _windows(groups, config):
    """The window of each group; of those that do not say an equal share of the whole."""
    share = max(1, config.window >> (len(groups) - 1).bit_length())
    return [share if group.window is None else group.window for group in groups]


def _bases(windows, config):
    """The first slot of each group, the largest groups first: so each is aligned to its size."""
    if sum(windows) > config.window:
        enough = 1 << (sum(windows) - 1).bit_length()
        larger = f", or give 'window = {enough}' in [device]" if enough <= 4096 else ""
        raise InputError(f"[[group]]: their windows have {sum(windows)} packets, and that of the "
                         f"device {config.window}: make them smaller{larger}")
    bases, base = {}, 0
    for number in sorted(range(len(windows)), key=lambda number: -windows[number]):
        bases[number] = base
        base += 2 * windows[number]
    return [bases[number] for number in range(len(windows))]


def _cycles(group, clock_mhz):
    cycles = round(group.straggler_us * clock_mhz)
    if cycles >= 1 << 32:
        raise InputError(f'group "{group.name}": straggler_us = {group.straggler_us:g}: is '
                         f'{cycles:,} cycles, more than 32 bits hold: make it smaller, or 0 for '
                         f'never')
    return cycles


def _routes(device, config):
    if device.forward and len(device.forward) != config.ports:
        raise InputError(f"[device]: forward = {device.forward}: has {len(device.forward)} entries "
                         f"for {config.ports} ports: give one for each, -1 to drop its frames")
    for egress in device.forward:
        if not -1 <= egress < config.ports:
            raise InputError(f"[device]: forward = {device.forward}: {egress} is no port: give 0 "
                             f"to {config.ports - 1}, or -1 to drop frames")
    return {port: egress for port, egress in enumerate(device.forward) if egress >= 0}
