# SPDX-License-Identifier: Apache-2.0
"""Writes what is made from the register descriptions: C headers, IP-XACT, and pages to read.

    python scripts/register_files.py [--html DIR] [FOLDER]

FOLDER is ``fpga/registers`` if not given, whose files are part of the repository. ``--html`` also
writes pages to browse, which are not.
"""

from pathlib import Path

import click
import jinja2
from peakrdl_cheader.exporter import CHeaderExporter
from peakrdl_ipxact import IPXACTExporter
from systemrdl.node import RegNode

from flytrim import __version__
from flytrim.registers import load, load_lean, load_switch

FOLDER = Path(__file__).parents[1] / "fpga" / "registers"
#: Each description, its source, the title of its page, and what the page is called.
PAGES = ((load, "flytrim", "Registers", "README.md"),
         (load_switch, "switch", "Registers of a switch", "switch.md"),
         (load_lean, "lean", "Registers of a lean link", "lean.md"))
PAGE = """\
# {{ title }}

Made from `hdl/flytrim/registers/{{ source }}.rdl` by `make registers`. \
{{ top.get_property("desc") }}

| address | register | meaning |
|---|---|---|
{% for register in registers %}
| {{ address(register) }} | [`{{ name(register) }}`](#{{ anchor(register) }}) | \
{{ desc(register) }} |
{% endfor %}
{% for register in registers %}

## `{{ name(register) }}`

{{ address(register) }}. {{ desc(register) }}

| bits | field | access | reset | meaning |
|---|---|---|---|---|
{% for field in register.fields() | reverse %}
| {{ bits(field) }} | `{{ field.inst_name }}` | {{ access(field) }} | {{ reset(field) }} | \
{{ desc(field) }} |
{% endfor %}
{% for field in register.fields() if field.get_property("encode") %}

| `{{ field.inst_name }}` | | |
|---|---|---|
{% for choice in field.get_property("encode") %}
| {{ choice.value }} | `{{ choice.name }}` | {{ choice.rdl_desc }} |
{% endfor %}
{% endfor %}
{% endfor %}
"""


def page(top, source, title):
    """The description as Markdown."""
    registers = [node for node in top.descendants() if isinstance(node, RegNode)]

    def name(node):
        return node.get_rel_path(top, empty_array_suffix="[n]")

    def address(node):
        """Of a register, or of all of an array."""
        steps = [f" + {owner.array_stride:#x} n" for owner in lineage(node) if owner.is_array]
        return f"0x{node.raw_absolute_address:03X}{''.join(steps)}"

    def lineage(node):
        return [] if node == top else [*lineage(node.parent), node]

    helpers = {
        "name": name, "address": address,
        "anchor": lambda node: "".join(
            letter for letter in name(node) if letter.isalnum() or letter == "_"),
        "desc": lambda node: node.get_property("desc"),
        "bits": lambda field: field.low if field.width == 1 else f"{field.high}:{field.low}",
        "access": lambda field: field.get_property("sw").name,
        "reset": _reset,
    }
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True,
                                  keep_trailing_newline=True).from_string(PAGE)
    return template.render(top=top, source=source, title=title, registers=registers, **helpers)


def _reset(field):
    value = field.get_property("reset")
    if value is None:
        return ""
    return value if value < 10 else f"0x{value:X}"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--html", type=click.Path(), metavar="DIR", help="Where to write pages, too.")
def main(folder, html):
    """Write all that is made from the register descriptions."""
    folder.mkdir(parents=True, exist_ok=True)
    for description, source, title, name in PAGES:
        top = description()
        made = f"{top.inst_name}_registers"
        CHeaderExporter().export(top, str(folder / f"{made}.h"))
        IPXACTExporter(vendor="flytrim", library="flytrim", version=__version__).export(
            top, str(folder / f"{made}.xml"))
        (folder / name).write_text(page(top, source, title))
    if html:
        # Not installed with the tests: nothing but this needs it.
        from peakrdl_html import HTMLExporter

        HTMLExporter().export([description() for description, *_ in PAGES], html)


if __name__ == "__main__":
    main()
