# SPDX-License-Identifier: Apache-2.0
"""Writes the FLOWS.toml of one rank's device, from the description of a communicator.

    python scripts/collective_flows.py scripts/ring8.toml --rank 0 -o flows.toml

The description names the algorithm and, rank by rank, the address and the queue pairs that receive;
``scripts/ring8.toml`` and ``scripts/tree8.toml`` are two of them, ``fpga/collectives.md`` explains
them. Whatever is told there has to fit: a flow that is wrong matches nothing, and nobody is told.
"""

import sys
from pathlib import Path
from typing import Annotated, Literal

import click
from pydantic import AfterValidator, BeforeValidator, Field

from flytrim.cli.terminal import write
from flytrim.config import CAM_FLOWS
from flytrim.document import Address, Entry, checked, entries, read, table, unknown
from flytrim.errors import InputError
from flytrim.flows import FlowOptions, flow_toml, parse

#: RoCEv2 GIDs name an IPv4 address as ::ffff:10.0.0.1; packets carry 10.0.0.1.
GidAddress = Annotated[Address, AfterValidator(
    lambda address: getattr(address, "ipv4_mapped", None) or address)]
QueuePair = Annotated[int, Field(ge=0, le=0xFFFFFF)]
#: One queue pair or a list of them; an empty one for a neighbour on the same host.
QueuePairs = Annotated[list[QueuePair], BeforeValidator(
    lambda given: given if isinstance(given, list) else [given])]


class Communicator(FlowOptions):
    """``[communicator]``: the algorithm, and what every flow has beside its key."""

    algorithm: Literal["ring", "tree"] = Field(description='must be "ring" or "tree"')


class Rank(Entry):
    """``[[rank]]``: who sends to it, channel by channel, and on which of its queue pairs."""

    address: GidAddress = Field(description='must be an IPv4 or IPv6 address such as "10.0.0.1"')
    qpn: list[dict[str, QueuePairs]] = Field(
        min_length=1, description="must be a table for each channel, sending rank = own queue "
                                  "pair, such as [{ 7 = 0x11 }], with queue pairs to 0xffffff")


def rank_flows(path, rank):
    """The :class:`flytrim.flows.FlowFile` of a rank's device, from the description at ``path``.

    Ranks that share the address share the device. Raises :class:`InputError`.
    """
    with read(path) as document:
        for key in document:
            if key not in ("communicator", "rank"):
                raise InputError(unknown(key, ("communicator", "rank")))
        head = checked(Communicator, table(document, "communicator"), "[communicator]")
        ranks = [checked(Rank, fields, f"rank {number}")
                 for number, fields in enumerate(entries(document, "rank"))]
        if rank >= len(ranks):
            raise InputError(f"--rank {rank}: the description has {len(ranks)} ranks, numbered "
                             f"from 0")
        connections = list(_connections(ranks))
        _check_keys(ranks, connections)
        _check_shape(head.algorithm, ranks)

        options = head.model_dump(exclude={"algorithm"}, exclude_unset=True)
        flows = [{"name": name, "src": str(ranks[peer].address), "dst": str(own.address),
                  "dqpn": qpn, **options}
                 for name, own, peer, qpn in connections if own.address == ranks[rank].address]
        if not flows:
            raise InputError(f"rank {rank}: receives nothing over the network: its device needs "
                             f"no flow")
        return parse({"device": {"flows": _table_size(len(flows))}, "flow": flows})


def _connections(ranks):
    """(name, receiving :class:`Rank`, sending rank, own queue pair) of each queue pair."""
    channels = max(len(each.qpn) for each in ranks)
    numbers = {str(number): number for number in range(len(ranks))}
    for rank, own in enumerate(ranks):
        if len(own.qpn) < channels:
            raise InputError(f"rank {rank}: channel {len(own.qpn)} is missing: the communicator "
                             f"has {channels}, give a table in qpn for each")
        for channel, peers in enumerate(own.qpn):
            for peer, qpns in peers.items():
                if peer not in numbers or peer == str(rank):
                    raise InputError(f'rank {rank}: channel {channel} is received from "{peer}": '
                                     f"name another rank, 0 to {len(ranks) - 1}")
                for index, qpn in enumerate(qpns):
                    name = f"c{channel}-r{peer}-to-r{rank}" + f"-q{index}" * (len(qpns) > 1)
                    yield name, own, numbers[peer], qpn


def _check_keys(ranks, connections):
    """A queue pair is connected to one other: a number that comes twice is a slip."""
    taken = {}
    for name, own, _, qpn in connections:
        other = taken.setdefault((own.address, qpn), name)
        if other != name:
            raise InputError(f"{name}: QP {qpn:#x} at {own.address} is that of {other}: give each "
                             f"its own")


def _check_shape(algorithm, ranks):
    """Who sends to whom makes a ring or a tree of all ranks, on each channel."""
    check = _check_ring if algorithm == "ring" else _check_tree
    for channel in range(len(ranks[0].qpn)):
        try:
            check([[int(peer) for peer in own.qpn[channel]] for own in ranks])
        except InputError as error:
            raise InputError(f"channel {channel}: {error}") from None


def _check_ring(senders):
    for rank, peers in enumerate(senders):
        if len(peers) != 1:
            raise InputError(f"rank {rank} receives from {len(peers)} ranks: in a ring it is 1")
    passed, rank = set(), 0
    while rank not in passed:
        passed.add(rank)
        rank = senders[rank][0]
    if len(passed) < len(senders):
        lost = min(set(range(len(senders))) - passed)
        raise InputError(f"back from rank 0, rank {lost} is never passed: a ring passes all ranks")


def _check_tree(senders):
    for rank, peers in enumerate(senders):
        for peer in peers:
            if rank not in senders[peer]:
                raise InputError(f"rank {peer} sends to rank {rank} and receives nothing from it: "
                                 f"in a tree it does both")
    reached, left = {0}, [0]
    while left:
        found = set(senders[left.pop()]) - reached
        reached |= found
        left += found
    if len(reached) < len(senders):
        lost = min(set(range(len(senders))) - reached)
        raise InputError(f"no way leads from rank 0 to rank {lost}: a tree joins all ranks")
    pairs = sum(map(len, senders)) // 2
    if pairs >= len(senders):
        raise InputError(f"{pairs} pairs of ranks are joined: in a tree of {len(senders)} it is "
                         f"{len(senders) - 1}")


def _table_size(flows):
    """Entries of a table that takes so many flows; a hashed one is filled to 90 % at most."""
    return CAM_FLOWS if flows <= CAM_FLOWS else max(128, 1 << (flows * 10 // 9).bit_length())


def flows_toml(setup, comment):
    """The text of a FLOWS.toml with the flows of ``setup``, in a table that takes them."""
    tables = [f"# {comment}\n", *map(flow_toml, setup.flows)]
    if setup.config.hashed:
        tables.insert(1, f"[device]\nflows = {setup.config.flows}\n")
    return "\n".join(tables)


@click.command()
@click.argument("communicator", type=click.Path())
@click.option("--rank", required=True, type=click.IntRange(min=0),
              help="Whose device to register flows at, from 0.")
@click.option("-o", "--output", type=click.Path(), metavar="FLOWS.toml",
              help="Where to write; standard output if not given.")
def main(communicator, rank, output):
    """Write the FLOWS.toml of one rank's device in COMMUNICATOR, a description in TOML."""
    try:
        text = flows_toml(rank_flows(communicator, rank), f"What arrives at the device of rank "
                                                          f"{rank} of {Path(communicator).name}.")
        if output is None:
            click.echo(text, nl=False)
        else:
            write(output, text)
    except InputError as error:
        click.echo(f"collective_flows: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
