"""The columns of the normal form: each one's name, meaning, bounds, and number in a companion file.

A column's name is ``table.field``. All columns of a table have the same length: a value for each row.
:func:`column_lines` makes the list in the specification.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass
from archive.debuginfo.model import Generation, RangeLayout
from archive.debuginfo.unique_handles import LEAST_PREFIX, PREFIX_BOUND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from archive.base.columns import Ints

if TYPE_CHECKING:
    Columns: TypeAlias = dict[str, Ints]
    """Columns by name. Forms may share an array: a column is replaced, its values are never overwritten."""

NO_ROW = -1
"""The value of a reference that refers to nothing."""
VALUE_WIDTH = 8
"""Bytes of a value: columns are arrays of int64."""

RANGE_LAYOUTS = list(RangeLayout)
"""The layouts of source ranges; ``record.layout`` is an index into them."""

CALLSTACK_LAYOUTS = [Generation.CALLSTACK_3, Generation.CALLSTACK_4]
"""The layouts of call-stack maps; ``file.callstacks`` is an index into them."""

STRINGS = 1
"""Section of the strings' bytes, concatenated."""

RAW = 2
"""Section of the raw records' bytes, concatenated."""

SOLID = 3
"""Section that holds all others, in small packed companions."""

PAGES = 4
"""Section of the pages' checksums, in mapped companions."""

OBJECTS = 5
"""Section of the bytes after the segments of shared objects, concatenated."""

MOST_MARKED = 1 << 16
"""Terminal columns that a part of a mark stays below; a wider mark is part of the code's text."""
PROGRAM_TABLES = (
    *("scope", "site", "call", "line", "inside", "instance", "maker", "made", "origin", "address", "keyset"),
    *("key", "kept"),
)
"""Tables of exported programs, besides ``program``."""


@dataclass(frozen=True)
class Column:
    """A column's declaration.

    Attributes:
        number: its number in a companion file.
        name: ``table.field``.
        meaning: of a value.
        refers: the table whose rows the values are; None if they are plain numbers.
        low: the least value; None if every 64-bit integer is possible.
        high: the bound that values stay below, if the column refers to no table but has a bound.
        optional: whether the column may be missing even if its table is present.
    """

    number: int
    name: str
    meaning: str
    refers: str | None = None
    low: int | None = 0
    high: int | None = None
    optional: bool = False

    @cached_property
    def table(self) -> str:
        """The table that the column belongs to."""
        return self.name.partition(".")[0]


PROGRAM_COLUMNS = (
    Column(112, "program.name", "name of an exported program", "string"),
    Column(113, "program.sites", "how many nodes it has"),
    Column(114, "program.scopes", "how many graphs are inside its own"),
    Column(116, "scope.parent", "graph around this one; -1 for the program's own", "scope", low=NO_ROW),
    Column(117, "scope.holder", "node that holds the graph", "site"),
    Column(118, "scope.name", "name of the graph", "string"),
    Column(120, "site.scope", "graph that the node is in; -1 for the program's own", "scope", low=NO_ROW),
    Column(121, "site.base", "name of the node, without a number at its end", "string"),
    Column(122, "site.number", "number at the end of its name; -1 if there is none", low=NO_ROW),
    Column(123, "site.target", "what the node calls", "string"),
    Column(124, "site.keys", "which metadata the node has", "keyset"),
    Column(125, "site.trace", "innermost call of its stack trace; -1 if none", "call", low=NO_ROW),
    Column(
        126, "site.layout", "1: the trace's first line is indented; 2: its last one ends; 3: both", high=4
    ),
    Column(127, "site.inside", "innermost module instance; -1 if none", "inside", low=NO_ROW),
    Column(128, "site.maker", "function that made the node; -1 if none", "maker", low=NO_ROW),
    Column(
        129,
        "site.made",
        "innermost of the functions that strict export records; -1 if none",
        "made",
        low=NO_ROW,
    ),
    Column(130, "site.origin", "first of the nodes that it was made from; -1 if none", "origin", low=NO_ROW),
    Column(132, "call.outer", "call around this one; -1 for the outermost", "call", low=NO_ROW),
    Column(133, "call.line", "line that ran", "line"),
    Column(136, "line.file", "file of the line", "string"),
    Column(137, "line.number", "its number, from 1"),
    Column(138, "line.function", "function that it is part of", "string"),
    Column(139, "line.code", "its text; -1 if none is recorded", "string", low=NO_ROW),
    Column(
        140,
        "line.blank",
        "columns before the mark below it; -1 without a mark",
        low=NO_ROW,
        high=MOST_MARKED,
    ),
    Column(141, "line.before", "tildes before the carets of the mark", high=MOST_MARKED),
    Column(142, "line.carets", "carets of the mark", high=MOST_MARKED),
    Column(143, "line.after", "tildes after the carets", high=MOST_MARKED),
    Column(144, "inside.outer", "instance around this one; -1 for the outermost", "inside", low=NO_ROW),
    Column(145, "inside.instance", "the module", "instance"),
    Column(
        146, "inside.id", "id of the module in the process that exported; -1 if none", "address", low=NO_ROW
    ),
    Column(147, "inside.call", "number of the call; -1 if none", low=NO_ROW),
    Column(148, "instance.name", "attribute path of a module, below the module around it", "string"),
    Column(149, "instance.whole", "1 if the name is the path from the top module", high=2),
    Column(150, "instance.class", "qualified name of the module's class", "string"),
    Column(
        151, "instance.key", "key of the instance; -1 if it follows from path or id", "string", low=NO_ROW
    ),
    Column(152, "maker.base", "name of a node when it was made, without a number at its end", "string"),
    Column(153, "maker.number", "number at the end of that name; -1 if there is none", low=NO_ROW),
    Column(154, "maker.function", "function that made it", "string"),
    Column(156, "made.outer", "function around this one; -1 for the outermost", "made", low=NO_ROW),
    Column(157, "made.maker", "the function, and the node's name", "maker"),
    Column(160, "origin.base", "name of a node of an earlier graph, without a number at its end", "string"),
    Column(161, "origin.number", "number at the end of that name; -1 if there is none", low=NO_ROW),
    Column(162, "origin.target", "what that node calls", "string"),
    Column(163, "origin.graph", "id of that graph", "address"),
    Column(164, "origin.pass", "pass that made a node from it", "string"),
    Column(165, "origin.action", "what the pass did", "string"),
    Column(
        166,
        "origin.inner",
        "first of the nodes that it was itself made from; -1 if none",
        "origin",
        low=NO_ROW,
    ),
    Column(
        167,
        "origin.next",
        "next of the nodes that one node was made from; -1 for the last",
        "origin",
        low=NO_ROW,
    ),
    Column(168, "address.value", "id of an object in the process that exported", low=None),
    Column(172, "keyset.count", "how many keys of metadata the set has"),
    Column(174, "key.name", "key of metadata: stack_trace", "string"),
    Column(176, "kept.site", "node whose text is kept as it is", "site"),
    Column(177, "kept.key", "its key", "string"),
    Column(178, "kept.text", "the text", "string"),
)
"""The columns of exported programs: see :mod:`archive.normalform.programs`."""
COLUMNS = (
    Column(8, "string.length", "bytes of the string"),
    Column(9, "string.template", "the string's template", "template"),
    Column(10, "template.length", "bytes of the template"),
    Column(12, "string.end", "where the string ends in the section of strings"),
    Column(11, "number.value", "number in a hole of a template"),
    Column(16, "file.top", "class of the top module, as PyTorch prints it", "string"),
    Column(
        17, "file.callstacks", "0: rows of the call-stack map have 3 elements; 1: 4", high=2, optional=True
    ),
    Column(
        18, "file.method_version", "bytecode version in mobile_debug_handles.pkl", low=None, optional=True
    ),
    Column(19, "file.path_version", "bytecode version in mobile_debug.pkl", low=None, optional=True),
    Column(20, "file.digest", "digest of the archive, if a join restores its bytes", low=None, optional=True),
    Column(21, "file.qualified_top", "qualified name of the top module's class", "string"),
    Column(22, "file.ordered", "1 if the values of range.tag never fall", high=2, optional=True),
    Column(
        23,
        "file.prefix",
        "prefix of the unique handles that the split archive prints",
        low=LEAST_PREFIX,
        high=PREFIX_BOUND,
        optional=True,
    ),
    Column(24, "member.kind", "where a join takes a record from, and how it was stored", high=64),
    Column(
        25, "member.modified", "time and date of the record, as the zip has them", high=1 << 32, optional=True
    ),
    Column(
        26,
        "file.redacted",
        "archive id of the redacted archive, in hexadecimal digits",
        "string",
        optional=True,
    ),
    Column(
        27,
        "file.root",
        "folder of all records, if the redacted archive has another",
        "string",
        optional=True,
    ),
    Column(28, "replaced.name", "record that the redacted archive has under another name", "string"),
    Column(29, "replaced.by", "that name", "string"),
    Column(
        30,
        "file.salt",
        "key of hashes in the redacted archive, in hexadecimal digits",
        "string",
        optional=True,
    ),
    Column(31, "file.label", "label of the release: 1.4.2", "string", optional=True),
    Column(32, "record.name", "name of a source-range record", "string"),
    Column(33, "record.layout", "layout of the record's rows", high=len(RangeLayout)),
    Column(34, "record.rows", "how many rows the record has"),
    Column(36, "code.name", "name of a code record whose lines have digests", "string"),
    Column(37, "code.lines", "how many lines the code has"),
    Column(38, "digest.line", "first 3 bytes of the blake2b of a line of code", high=1 << 24),
    Column(40, "row.offset", "byte of the generated code; -1 in lowered modules", low=None),
    Column(41, "row.range", "source of the code from that byte on", "range"),
    Column(42, "row.line", "line of that byte, from 0; -1 without code", low=NO_ROW),
    Column(43, "row.column", "bytes before it in that line", low=None),
    Column(48, "range.source", "source that the range is part of", "source"),
    Column(49, "range.start", "first byte of the range in the source's text"),
    Column(50, "range.end", "byte after the last one"),
    Column(51, "range.tag", "number of the range in the archive; -1 without tags", low=None),
    Column(56, "source.text", "text; -1 if it is empty", "text", low=NO_ROW),
    Column(57, "source.filename", "file of the text; -1 if none is recorded", "string", low=NO_ROW),
    Column(58, "source.line", "line of the file that the text begins in", low=None),
    Column(59, "source.null", "1 for PyTorch's null source, which stands for no source", high=2),
    Column(64, "text.node", "first line of the text", "node"),
    Column(65, "node.parent", "line that follows this one; -1 at the text's end", "node", low=NO_ROW),
    Column(66, "node.line", "the line, with its line feed", "string"),
    Column(72, "handle.handle", "debug handle; rows are in the order of handles", low=None),
    Column(73, "handle.tag", "tag of the operation's range", low=None),
    Column(74, "handle.op", "name of the operator; -1 if none is recorded", "string", low=NO_ROW),
    Column(75, "handle.stack", "outermost call; -1 for an operation of the top method", "frame", low=NO_ROW),
    Column(76, "handle.place", "handle in the n-th row of the call-stack map", "handle"),
    Column(80, "frame.next", "call inside this one; -1 in the innermost", "frame", low=NO_ROW),
    Column(81, "frame.module", "module whose method is called; -1 for a function", "module", low=NO_ROW),
    Column(82, "frame.tag", "tag of the call's range in the caller; -1 if unknown", low=None),
    Column(83, "frame.function", "name of what is called; -1 if none is recorded", "string", low=NO_ROW),
    Column(84, "module.type", "qualified name of the module's class", "string"),
    Column(85, "module.instance", "attribute that holds the module", "string"),
    Column(86, "module.known", "1 if the module tree has that class", high=2, optional=True),
    Column(88, "method.name", "qualified name of a method in mobile_debug_handles.pkl", "string"),
    Column(89, "method.instructions", "how many instructions the method has"),
    Column(90, "instruction.handle", "debug handle of the instruction", low=None),
    Column(96, "pathed.name", "qualified name of a method in mobile_debug.pkl", "string"),
    Column(97, "pathed.steps", "how many operators the method has"),
    Column(98, "step.path", "module path of the operator", "string"),
    Column(104, "raw.name", "name of a raw record", "string"),
    Column(105, "raw.length", "bytes of the raw record"),
    Column(106, "object.length", "bytes of a shared object after its segments"),
    Column(107, "object.start", "byte that its section headers begin at"),
    Column(108, "object.sections", "how many section headers it has", high=1 << 16),
    Column(109, "object.names", "number of the section that has the names of sections", high=1 << 16),
    *PROGRAM_COLUMNS,
)
BY_NUMBER = {column.number: column for column in COLUMNS}
BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}

ALWAYS = ("file", "record", "row", "range", "source", "text", "node")
"""Tables that every companion has, even without rows."""
TOGETHER = {
    "handle": ("frame", "module"),
    "code": ("digest",),
    "method": ("instruction",),
    "pathed": ("step",),
    "program": PROGRAM_TABLES,
}
"""Tables that a table requires."""
RECORD_FACT: dict[str, str] = {
    "handle": "file.callstacks",
    "method": "file.method_version",
    "pathed": "file.path_version",
}
"""The fact about a whole record that comes with the record's table."""


def column_lines() -> Iterator[str]:
    """The columns as a list: number, name, meaning, and the table whose rows the values are."""
    for column in COLUMNS:
        refers = f" → {column.refers}" if column.refers else ""
        yield f"{column.number:>3} {column.name:<20}{column.meaning}{refers}"
