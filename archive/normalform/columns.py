"""The sections of a companion: tables of columns, declared once.

A column's name is ``table.field``; all columns of a table have as many rows. ``refers`` names the table
that a column's values are rows of ("string": the strings); ``low`` is the least value, -1 where "none" is
possible. The docstring of the package tells what each holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from archive.debuginfo.model import Layout


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        number: what stands for it in a file.
        name: ``table.field``.
        refers: the table whose rows its values are; None where they are plain numbers.
        low: its least value; None where every 64-bit integer is possible.
        high: what its values are below, if it refers to no table and there is such a bound.
        optional: whether it may be missing where its table is there.
    """

    number: int
    name: str
    refers: str | None = None
    low: int | None = 0
    high: int | None = None
    optional: bool = False

    @property
    def table(self) -> str:
        """The table it belongs to."""
        return self.name.partition(".")[0]


STRINGS = 1
"""The section of the strings themselves: bytes, one behind the other."""

RAW = 2
"""The section of records that are kept as they are: bytes, one behind the other."""

SOLID = 3
"""The section that holds all others, in small packed companions."""

PAGES = 4
"""The section of page checksums, in mapped companions."""

COLUMNS = (
    Column(8, "string.length"),
    Column(9, "string.template", "template"),
    Column(10, "template.length"),
    Column(12, "string.end"),
    Column(11, "number.value"),
    Column(16, "file.top", "string"),
    Column(17, "file.callstacks", high=2, optional=True),
    Column(18, "file.method_version", low=None, optional=True),
    Column(19, "file.path_version", low=None, optional=True),
    Column(20, "file.digest", low=None, optional=True),
    Column(21, "file.qualified_top", "string"),
    Column(22, "file.ordered", high=2, optional=True),
    Column(24, "member.kind", high=32),
    Column(25, "member.modified", high=1 << 32, optional=True),
    Column(32, "record.name", "string"),
    Column(33, "record.layout", high=len(Layout)),
    Column(34, "record.rows"),
    Column(40, "row.offset", low=None),
    Column(41, "row.range", "range"),
    Column(42, "row.line", low=-1),
    Column(43, "row.column", low=None),
    Column(48, "range.source", "source"),
    Column(49, "range.start"),
    Column(50, "range.end"),
    Column(51, "range.tag", low=None),
    Column(56, "source.text", "text", low=-1),
    Column(57, "source.filename", "string", low=-1),
    Column(58, "source.line", low=None),
    Column(59, "source.null", high=2),
    Column(64, "text.node", "node"),
    Column(65, "node.parent", "node", low=-1),
    Column(66, "node.line", "string"),
    Column(72, "handle.handle", low=None),
    Column(73, "handle.tag", low=None),
    Column(74, "handle.op", "string", low=-1),
    Column(75, "handle.stack", "frame", low=-1),
    Column(76, "handle.place", "handle"),
    Column(80, "frame.next", "frame", low=-1),
    Column(81, "frame.module", "module", low=-1),
    Column(82, "frame.tag", low=None),
    Column(83, "frame.function", "string", low=-1),
    Column(84, "module.type", "string"),
    Column(85, "module.instance", "string"),
    Column(86, "module.known", high=2, optional=True),
    Column(88, "method.name", "string"),
    Column(89, "method.instructions"),
    Column(90, "instruction.handle", low=None),
    Column(96, "pathed.name", "string"),
    Column(97, "pathed.steps"),
    Column(98, "step.path", "string"),
    Column(104, "raw.name", "string"),
    Column(105, "raw.length"),
)
BY_NUMBER = {column.number: column for column in COLUMNS}
BY_NAME = {column.name: column for column in COLUMNS}

ALWAYS = ("file", "record", "row", "range", "source", "text", "node")
"""Tables that are there even if they are empty."""
TOGETHER = {"handle": ("frame", "module"), "method": ("instruction",), "pathed": ("step",)}
"""Tables that come with others."""
WITH = {"handle": "file.callstacks", "method": "file.method_version", "pathed": "file.path_version"}
"""What is known once of the record that a table is of."""
