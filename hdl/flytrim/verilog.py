# SPDX-License-Identifier: Apache-2.0
"""Verilog text as people and tools like it: each module once, memories set in small blocks."""

import re

__all__ = ["tidy", "without_zeros"]

#: Rows of a memory that one ``initial`` block sets. Yosys takes time with the square of that: the
#: largest flow table in one block would take it hours, in blocks of this size it takes seconds.
ROWS = 128
_INITIAL = re.compile(r"^  initial begin\n((?:    \w+\[\d+\] = .*;\n)+)  end\n", re.MULTILINE)
#: A memory that begins with zeros in every row, and these.
_ZEROS = re.compile(r"^(  reg \[\d+:0\] (\w+) \[\d+:0\];\n)"
                    r"(?:  initial begin\n(?:    \2\[\d+\] = \d+'h0+;\n)+  end\n)+"
                    r"(?!  initial begin\n    \2\[)", re.MULTILINE)
_MODULE = re.compile(r"^(?:\(\*.*\*\)\n)*module (\S+)[ (].*?^endmodule\n", re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  (\S+) ( ?\S+ +\(\n.*?\n  \);\n)", re.MULTILINE | re.DOTALL)
_FORMAL = re.compile(r"(?<=^    \.)\\\S+(?= \()", re.MULTILINE)
_HEAD = re.compile(r"^module [^;]*;\n", re.MULTILINE)
#: A declaration with its attributes.
_DECLARATION = re.compile(r"(?:^  \(\*.*\*\)\n)*^  (?:wire|reg|input|output) [^=\n]*(?:= \S+)?;\n",
                          re.MULTILINE)
#: Names that the writer of the text has made up, with numbers that run through all modules.
_NUMBERED = re.compile(r"\\(?:\$auto\$[^\s$]+|port)\$\S+")
#: Assignments to some of these in a row, which stand in the order of the letters of the numbers.
_ROW = re.compile(r"(?:^  assign \\\$auto\$\S+ .*;\n)+", re.MULTILINE)
_NUMBER = re.compile(r"\$(\d+) ")


def tidy(text):
    """``text`` with modules that are alike written once, under the name of the first.

    Instances may name clock and reset of modules that have none; they do not any more.
    """
    modules = {match[1]: match[0] for match in _MODULE.finditer(text)}
    # By text, whose it is; by name, who stands for a module, and what its numbered names became.
    known, stand_in, renamed = {}, {}, {}

    def visit(name):
        def instance(match):
            if match[1] not in modules:
                return match[0]
            visit(match[1])
            formals = renamed[match[1]]
            start, connections = _FORMAL.sub(
                lambda formal: formals.get(formal[0], formal[0]), match[2]).split("(\n", 1)
            connections = connections.removesuffix("\n  );\n").split(",\n")
            absent = {f"    .{name}({name})" for name in ("clk", "rst")
                      if not re.search(rf"^  input {name};$", modules[match[1]], re.MULTILINE)}
            connections = ",\n".join(each for each in connections if each not in absent)
            return f"  {stand_in[match[1]]} {start}(\n{connections}\n  );\n"

        if name in stand_in:
            return
        names = renamed[name] = {}
        body = _ROW.sub(_in_order, _INSTANCE.sub(instance, modules[name]))
        # Numbered as they are used: declarations stand in the order of the old names.
        for found in _NUMBERED.findall(_HEAD.sub("", _DECLARATION.sub("", body)) + body):
            names.setdefault(found, f"net_{len(names)}")
        body = _NUMBERED.sub(lambda found: names.get(found[0], found[0]), body)
        declared = sorted(match[0] for match in _DECLARATION.finditer(body))
        used = _HEAD.sub("", _DECLARATION.sub("", body))
        stand_in[name] = known.setdefault((*declared, used), name)
        modules[name] = body

    for name in list(modules):
        visit(name)
    head = text[:_MODULE.search(text).start()]
    return head + "\n".join(_INITIAL.sub(_in_blocks, body) for name, body in modules.items()
                            if stand_in[name] == name)


def without_zeros(text):
    """``text`` without the zeros that memories begin with where all of one does.

    They are no hardware, and a memory of a simulation begins so anyway. To hold those of the
    largest flow table Yosys needs more than the 4 GB that it has as WebAssembly.
    """
    return _ZEROS.sub(r"\1", text)


def _in_order(row):
    lines = row[0].splitlines(keepends=True)
    return "".join(sorted(lines, key=lambda line: int(_NUMBER.search(line)[1])))


def _in_blocks(initial):
    rows = initial[1].splitlines(keepends=True)
    return "".join(f"  initial begin\n{''.join(rows[n:n + ROWS])}  end\n"
                   for n in range(0, len(rows), ROWS))
