# SPDX-License-Identifier: Apache-2.0
"""The figures of an AllReduce on a terminal."""

from rich.text import Text

from ..sim.table import figures_table

__all__ = ["print_allreduce"]

_OPS = {"sum": "sum", "min": "minimum", "max": "maximum"}


def print_allreduce(figures, console):
    """Print what ``flytrim.fabric.run`` gave to a rich ``console``."""
    plan = figures["plan"]
    switch = (f"flytrim_switch, {plan['width']} bits at {plan['clock_mhz']:g} MHz"
              if figures["switch"] == "rtl" else "the reference model of the switch")
    count = 1 + len(figures["uplinks"])
    shape = {"star": "a star around", "tree": f"a tree of {count} switches, each",
             "ring": f"a ring of {count} switches, each"}[plan["topology"]]
    # Sentences are left to the terminal to wrap.
    console.print(Text.assemble(
        (f"AllReduce {_OPS[plan['op']]} of {plan['dtype']}", "bold"),
        f": {plan['nodes']} hosts in {shape} {switch}\n"
        f"{plan['rounds']:,} rounds of {plan['bytes']:,} bytes, packets of {plan['payload']:,}, "
        f"{plan['window']:,} in flight, links of {plan['delay_ns']:g} ns\n"), soft_wrap=True)
    console.print(_links(figures))
    console.print()
    console.print(_wire(figures))
    console.print()
    for name, text in _sentences(figures):
        console.print(Text.assemble((f"{name:12}", "bold"), text), soft_wrap=True)


def _links(figures):
    """What the two links of each host and switch did."""
    table = figures_table("from" if figures["uplinks"] else "host", numbers=(
        "packets", "resent", "lost up", "lost down", "doubled", "reordered", "repeats"))
    columns = []
    rows = [(host["name"], host["sent"] - host["retransmitted"], host["retransmitted"],
             host["results_again"], host) for host in figures["hosts"]]
    # What a switch repeats is more than there are packets.
    packets = figures["packets"] * figures["plan"]["rounds"]
    rows += [(f"{each['name']} to {each['parent'].removeprefix('switch ')}", packets,
              each["up"]["frames"] - packets, each["down"]["frames"] - packets, each)
             for each in figures["uplinks"]]
    for name, count, again, repeats, ways in rows:
        up, down = ways["up"], ways["down"]
        columns.append((count, again, up["lost"], down["lost"],
                        up["duplicated"] + down["duplicated"],
                        up["reordered"] + down["reordered"], repeats))
        table.add_row(name if figures["uplinks"] else name.removeprefix("host "),
                      *map(_number, columns[-1]))
    table.add_row("total", *(_number(sum(each)) for each in zip(*columns, strict=True)),
                  style="bold")
    return table


def _wire(figures):
    """What a link carries each way, beside a ring of the same hosts."""
    table = figures_table("on a host's link, each round", numbers=("wire bytes", "of a ring"))
    plan, way, ring = figures["plan"], figures["wire_bytes_a_link"], figures["ring"]
    for name, count in (("to the switch", way["up"]), ("from the switch", way["down"])):
        table.add_row(name, _number(round(count / plan["rounds"])),
                      f"{count / ring['wire_bytes_a_link']:.1%}")
    table.add_row("ring AllReduce without losses",
                  _number(ring["wire_bytes_a_link"] // plan["rounds"]), "100.0%", style="dim")
    return table


def _sentences(figures):
    plan, ring, network = figures["plan"], figures["ring"], figures["network"]
    yield "time", (f"{figures['cycles']:,} cycles, {figures['microseconds']:,.1f} us: "
                   f"{figures['cycles'] / plan['rounds']:,.0f} cycles a round; the ring needs "
                   f"{ring['cycles_at_best'] / plan['rounds']:,.0f} at best")
    if plan["bytes"]:
        yield "rate", f"{figures['data_gbps']:,.1f} Gb/s of each host's data reduced"
    yield "switch", (f"{figures['beats_in']:,} beats in, {figures['beats_out']:,} out, of all "
                     f"ports")
    if network["lost"]:
        yield "healed", (f"{network['lost']:,} lost frames, by {figures['retransmitted']:,} "
                         f"contributions sent again: one that is lost holds up all hosts")
    if figures["frame_faults"]:
        yield "frames", Text(f"{figures['frame_faults']:,} frames are no results: "
                             f"{figures['first_frame_fault']}", "red")
    yield "check", _check(figures)


def _check(figures):
    checked, differing = figures["checked_elements"], figures["differing_elements"]
    if differing:
        return Text(f"{differing:,} of {checked:,} elements differ; the first: "
                    f"{figures['difference']}", "bold red")
    if not checked:
        return Text("A barrier has no elements; every host came through.", "green")
    return Text(f"All of {checked:,} elements are right, bit for bit, in the order of the ports.",
                "green")


def _number(count):
    return f"{count:,}" if count else "-"
