"""The columns of the normal form: each one's name, meaning, bounds, and number in a companion file.

A column's name is ``table.field``. The columns of a table are equally long: they have a value for each row.
:func:`column_lines` makes the specification's list of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from archive.debuginfo.model import Generation, Layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from archive.base.columns import Ints

ColumnName = Literal[
    "string.length",
    "string.template",
    "string.end",
    "template.length",
    "number.value",
    "file.top",
    "file.qualified_top",
    "file.callstacks",
    "file.method_version",
    "file.path_version",
    "file.digest",
    "file.ordered",
    "member.kind",
    "member.modified",
    "record.name",
    "record.layout",
    "record.rows",
    "row.offset",
    "row.range",
    "row.line",
    "row.column",
    "range.source",
    "range.start",
    "range.end",
    "range.tag",
    "source.text",
    "source.filename",
    "source.line",
    "source.null",
    "text.node",
    "node.parent",
    "node.line",
    "handle.handle",
    "handle.tag",
    "handle.op",
    "handle.stack",
    "handle.place",
    "frame.next",
    "frame.module",
    "frame.tag",
    "frame.function",
    "module.type",
    "module.instance",
    "module.known",
    "method.name",
    "method.instructions",
    "instruction.handle",
    "pathed.name",
    "pathed.steps",
    "step.path",
    "raw.name",
    "raw.length",
]
"""The names as a type, so that mypy finds a misspelt one."""

if TYPE_CHECKING:
    Columns: TypeAlias = dict[ColumnName, Ints]
    """Columns by name. Forms may share an array: a column is replaced, its values are never overwritten."""

NONE = -1
"""The value of a reference that refers to nothing."""

LAYOUTS = list(Layout)
"""The layouts of source ranges; ``record.layout`` is an index into them."""

GENERATIONS = [Generation.CALLSTACK_3, Generation.CALLSTACK_4]
"""The layouts of call-stack maps; ``file.callstacks`` is an index into them."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's declaration.

    Attributes:
        number: its number in a companion file.
        name: ``table.field``.
        meaning: of a value.
        refers: the table whose rows the values are; None where they are plain numbers.
        low: the least value; None where every 64-bit integer is possible.
        high: the bound that values stay below, where the column refers to no table but has one.
        optional: whether the column may be missing where its table is present.
    """

    number: int
    name: ColumnName
    meaning: str
    refers: str | None = None
    low: int | None = 0
    high: int | None = None
    optional: bool = False

    @property
    def table(self) -> str:
        """The table that the column belongs to."""
        return self.name.partition(".")[0]


STRINGS = 1
"""Section of the strings' bytes, one string behind the other."""

RAW = 2
"""Section of the raw records' bytes, one record behind the other."""

SOLID = 3
"""Section that holds all others, in small packed companions."""

PAGES = 4
"""Section of the pages' checksums, in mapped companions."""

COLUMNS = (
    Column(8, "string.length", "bytes of a string"),
    Column(9, "string.template", "what is left of it without its numbers", "template"),
    Column(10, "template.length", "bytes of a template"),
    Column(12, "string.end", "where a string ends in the section of strings"),
    Column(11, "number.value", "a number that fills a hole of a template"),
    Column(16, "file.top", "class of the top module, as PyTorch prints it", "string"),
    Column(17, "file.callstacks", "layout of the call-stack map: 3 or 4 elements", high=2, optional=True),
    Column(18, "file.method_version", "version that method handles state", low=None, optional=True),
    Column(19, "file.path_version", "version that module paths state", low=None, optional=True),
    Column(20, "file.digest", "digest of the archive, if a join gives it back", low=None, optional=True),
    Column(21, "file.qualified_top", "qualified name of that class", "string"),
    Column(22, "file.ordered", "1 if range.tag is in order", high=2, optional=True),
    Column(24, "member.kind", "how a join gets a record of the archive", high=32),
    Column(25, "member.modified", "its time in the zip, as there", high=1 << 32, optional=True),
    Column(32, "record.name", "name of a source-range record", "string"),
    Column(33, "record.layout", "its layout", high=len(Layout)),
    Column(34, "record.rows", "how many rows are its own"),
    Column(40, "row.offset", "byte of the generated code, -1 in lowered modules", low=None),
    Column(41, "row.range", "source of the code from there on", "range"),
    Column(42, "row.line", "line of that byte, from 0; -1 if unknown", low=NONE),
    Column(43, "row.column", "byte of that line", low=None),
    Column(48, "range.source", "source that the range is cut out of", "source"),
    Column(49, "range.start", "its first byte"),
    Column(50, "range.end", "the byte behind its last one"),
    Column(51, "range.tag", "its number in the archive, -1 if it has none", low=None),
    Column(56, "source.text", "text, -1 if it is empty", "text", low=NONE),
    Column(57, "source.filename", "file, -1 if none is recorded", "string", low=NONE),
    Column(58, "source.line", "line of that file that the text starts in", low=None),
    Column(59, "source.null", '1 for PyTorch\'s null source, "no source"', high=2),
    Column(64, "text.node", "first line of a text", "node"),
    Column(65, "node.parent", "the line behind it, -1 at the text's end", "node", low=NONE),
    Column(66, "node.line", "the line itself, with its line feed", "string"),
    Column(72, "handle.handle", "debug handle; in order", low=None),
    Column(73, "handle.tag", "tag of the operation's range", low=None),
    Column(74, "handle.op", "operator's name, -1 if none is recorded", "string", low=NONE),
    Column(75, "handle.stack", "outermost call that leads there, -1 without any", "frame", low=NONE),
    Column(76, "handle.place", "for the record's n-th row: its row here", "handle"),
    Column(80, "frame.next", "the call inside of a call, -1 in the innermost", "frame", low=NONE),
    Column(81, "frame.module", "module whose method is called, -1 for functions", "module", low=NONE),
    Column(82, "frame.tag", "tag of the call's range, in the caller", low=None),
    Column(83, "frame.function", "function's name, -1 if none is recorded", "string", low=NONE),
    Column(84, "module.type", "qualified name of a module's class", "string"),
    Column(85, "module.instance", "attribute that holds the module", "string"),
    Column(86, "module.known", "1 if the archive has that class", high=2, optional=True),
    Column(88, "method.name", "qualified name of a method with handles", "string"),
    Column(89, "method.instructions", "how many instructions are its own"),
    Column(90, "instruction.handle", "debug handle of an instruction", low=None),
    Column(96, "pathed.name", "qualified name of a method with module paths", "string"),
    Column(97, "pathed.steps", "how many paths are its own"),
    Column(98, "step.path", "module path of an operator", "string"),
    Column(104, "raw.name", "name of a raw record", "string"),
    Column(105, "raw.length", "its bytes"),
)
BY_NUMBER = {column.number: column for column in COLUMNS}
BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}

ALWAYS = ("file", "record", "row", "range", "source", "text", "node")
"""Tables that every companion has, if only without rows."""
TOGETHER = {"handle": ("frame", "module"), "method": ("instruction",), "pathed": ("step",)}
"""Tables that a table needs beside it."""
WITH: dict[str, ColumnName] = {
    "handle": "file.callstacks",
    "method": "file.method_version",
    "pathed": "file.path_version",
}
"""The fact about a whole record that comes with the record's table."""


def column_lines() -> Iterator[str]:
    """The columns as a list: number, name, meaning, and the table whose rows the values are."""
    for column in COLUMNS:
        refers = f" → {column.refers}" if column.refers else ""
        yield f"{column.number:>3} {column.name:<19} {column.meaning}{refers}"
