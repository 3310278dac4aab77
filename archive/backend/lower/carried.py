"""The debug info, leading back to the model, that the code of a lowered module carries.

PyTorch keeps a range of source for each node of a graph. Copies, frozen and loaded modules keep it, too. So
statements of generated source name their debug handles, and each lowered method ends with the table of all
handles of its module, as a comment::

    r5 = torch.ops.aten.linear(r1, r2, r3)  # debug handle 17
    return r5




    # debug table {"sources":[...],"ranges":[...],"handles":[...],"effects":""}

PyTorch shows three lines around a range, so the table is never shown; at most blank lines are.

A saved archive has the model's own source in place of the generated one. A module that is loaded again
(:mod:`archive.backend.lower.reloading`) carries handle and table after the end of that source::

    # debug handle 17
    # debug table {...}

If a range covers its whole source, as in traced models, PyTorch shows all of the source, but no filename.
Then both are in the filename.

The table is one line of JSON::

    {"sources": [[text, filename, line], ...],
     "ranges": [[source, start, end], ...],
     "handles": [[handle, operator, range, [[function, type, instance, range], ...]], ...],
     "effects": record}

``source`` and ``range`` are row numbers; a range may be null, and so may type and instance of a call.
``record`` is the archive record of the module's effects, a character for each byte; "" for modules without.
Texts that are not UTF-8 keep their bytes as surrogate escapes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from archive.base.strings import Text
from archive.debuginfo.sites import GENERATED_FILE, CallStep, Site, Span
from archive.formats.record_kinds import range_records_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from archive.backend.graph.graphs import Operation
    from archive.debuginfo.model import Source, SourceRange
    from archive.debuginfo.tables import RangeTable
    from archive.reader.archive import Archive

    Place = tuple[str, Span | None, tuple[CallStep, ...]]
    """The parts of a site."""

# --- tables

KEEPING_BYTES = "surrogateescape"


def write_table(operations: Mapping[int, Operation], effects: bytes = b"") -> str:
    """The table as text."""
    spans = _Spans()
    return _written(((handle, spans.place(operation)) for handle, operation in operations.items()), effects)


class _Spans:
    """Turns the source ranges of operations into spans, each once."""

    def __init__(self) -> None:
        self._spans: dict[int, Span | None] = {}
        self._texts: dict[int, tuple[bytes, bytes]] = {}
        self._calls: dict[int, tuple[CallStep, ...]] = {}

    def place(self, operation: Operation) -> Place:
        """Operator, span and calls of an operation, as its site has them."""
        if id(operation.stack) not in self._calls:
            self._calls[id(operation.stack)] = tuple(
                CallStep(call.function, call.type_name, call.instance, self._span(call.range))
                for call in operation.stack
            )
        return operation.kind, self._span(operation.range), self._calls[id(operation.stack)]

    def _span(self, source_range: SourceRange | None) -> Span | None:
        """A range; None for one without text."""
        if id(source_range) not in self._spans:
            span = None
            if source_range is not None and len(source_range.source.text):
                source = source_range.source
                if id(source) not in self._texts:
                    self._texts[id(source)] = bytes(source.text), bytes(source.filename or b"")
                span = Span(
                    *self._texts[id(source)], source.starting_line, source_range.start, source_range.end
                )
            self._spans[id(source_range)] = span
        return self._spans[id(source_range)]


def write_sites(sites: Mapping[int, Site], effects: bytes = b"") -> str:
    """The table of sites by debug handle, as text; see :func:`write_table`."""
    places = ((handle, (site.op, site.span, site.steps)) for handle, site in sites.items())
    return _written(places, effects)


def _written(places: Iterable[tuple[int, Place]], effects: bytes) -> str:
    """The table of debug handles, each with the parts of its site, as text."""
    sources: dict[tuple[bytes, bytes, int], int] = {}
    ranges: dict[tuple[int, int, int], int] = {}
    rows: dict[int, int | None] = {id(None): None}  # by id of the span
    calls: dict[int, str] = {}  # by id of the steps, which many handles share
    ops: dict[str, str] = {}

    def row(span: Span | None) -> int | None:
        if span is not None and id(span) not in rows:
            source = sources.setdefault((span.text, span.filename, span.line), len(sources))
            rows[id(span)] = ranges.setdefault((source, span.start, span.end), len(ranges))
        return rows[id(span)]

    handles = []
    for handle, (op, span, steps) in places:
        own = row(span)
        if id(steps) not in calls:
            calls[id(steps)] = _json(
                [[step.function, step.type_name, step.instance, row(step.span)] for step in steps]
            )
        if op not in ops:
            ops[op] = _json(op)
        handles.append(f"[{handle},{ops[op]},{'null' if own is None else own},{calls[id(steps)]}]")
    texts = [
        [text.decode("utf-8", KEEPING_BYTES), filename.decode("utf-8", KEEPING_BYTES), line]
        for text, filename, line in sources
    ]
    return (
        f'{{"sources":{_json(texts)},"ranges":{_json(list(ranges))},'
        f'"handles":[{",".join(handles)}],"effects":{_json(effects.decode("latin-1"))}}}'
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def read_table(text: str) -> tuple[dict[int, Site], bytes]:
    """The sites of a table by debug handle, and the record of effects."""
    read = json.loads(text)
    sources = [
        (body.encode("utf-8", KEEPING_BYTES), name.encode("utf-8", KEEPING_BYTES), line)
        for body, name, line in read["sources"]
    ]
    spans: list[Span] = []
    for source, start, end in read["ranges"]:
        body, name, line = sources[source]
        spans.append(Span(body, name, line, start, end))

    def at(number: int | None) -> Span | None:
        return None if number is None else spans[number]

    sites = {
        handle: Site(
            op, at(span), tuple(CallStep(name, kind, own, at(call)) for name, kind, own, call in calls)
        )
        for handle, op, span, calls in read["handles"]
    }
    return sites, read["effects"].encode("latin-1")


# --- carried

HANDLE_COMMENT = "  # debug handle "
"""The comment after a statement that runs one operation; the operation's debug handle follows."""
HANDLE_MARK, TABLE_MARK = "# debug handle ", "# debug table "
"""What stands before a debug handle, and before a table, after a source."""
GAP = "\n" * 4
"""Keeps these out of the lines that PyTorch shows."""
STATEMENT = re.compile(rb"%b(\d+)$" % HANDLE_COMMENT.encode())
HANDLE_OR_TABLE = re.compile(r"# debug (?:handle (\d+)|table (.*))\n")
CARRIED = f"{GAP}# debug ".encode()


def carrying(table: str) -> str:
    """What follows generated source that carries a table."""
    return f"{GAP}{TABLE_MARK}{table}\n"


def marked(span: Span, handle: int, table: str = "") -> Span:
    """A range of the model's source that carries a debug handle, and a table if one is given.

    PyTorch shows it as it shows the range itself.
    """
    mark = f"{HANDLE_MARK}{handle}\n" + (f"{TABLE_MARK}{table}\n" if table else "")
    if (span.start, span.end) == (0, len(span.text)):
        return replace(span, filename=mark.encode())
    return replace(span, text=span.text + f"{GAP}{mark}".encode())


@dataclass(slots=True)
class Carried:
    """What the sources of an archive carry.

    Attributes:
        statements: the debug handle of each row of source ranges that is a statement.
        tables: the texts of the tables, each once.
        carriers: the sources that carry a table.
        plain: text and filename of each source that may carry something, without that.
    """

    statements: dict[int, int] = field(default_factory=dict)
    tables: dict[str, None] = field(default_factory=dict)
    carriers: set[int] = field(default_factory=set)
    plain: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: RangeTable) -> Self:
        """What the source ranges of an archive carry."""
        carried = cls()
        handles = {
            number: carried._read(table.sources[number], number) for number in range(len(table.sources))
        }
        for row, (source, start) in enumerate(zip(table.source.tolist(), table.start.tolist(), strict=True)):
            handle = handles[source]
            if handle is None and source in carried.plain:
                handle = _statement(carried.plain[source][0], start)
            if handle is not None:
                carried.statements[row] = handle
        return carried

    def _read(self, source: Source, number: int) -> int | None:
        """Note what a source carries; its debug handle, if it has one for all of its ranges."""
        filename = bytes(source.filename or b"")
        if filename.startswith(HANDLE_MARK.encode()):
            text, tail, filename = bytes(source.text), filename, b""
        elif filename == GENERATED_FILE.encode() or _has_mark(source):
            whole = bytes(source.text)
            end = whole.rfind(CARRIED)
            text, tail = (whole[:end], whole[end:]) if end >= 0 else (whole, b"")
        else:
            return None
        self.plain[number] = text, filename
        handle = None
        for digits, table in HANDLE_OR_TABLE.findall(tail.decode("ascii")):
            if digits:
                handle = int(digits)
            else:
                self.tables[table] = None
                self.carriers.add(number)
        return handle

    def has_table(self, opened: Archive, row: int) -> bool:
        """Whether the source of a row of source ranges carries a table."""
        return int(opened.range_table.source[row]) in self.carriers

    def is_known(self, opened: Archive, class_name: str) -> bool:
        """Whether the code of a lowered module, by the name of its class, carries a table."""
        place, _, name = class_name.rpartition(".")
        record = f"code/{place.replace('.', '/')}.py"
        code = bytes(opened.records[record].view()) if record in opened.records else b""
        start = code.find(b"class %b(Module):" % name.encode())
        end = code.find(b"\nclass ", start)
        table = opened.range_table
        number = table.numbers.get(range_records_of(record)[0])
        return number is not None and any(
            start <= table.offset[row] < (end if end >= 0 else len(code))
            and int(table.source[row]) in self.carriers
            for row in table.rows(number)
        )


def _has_mark(source: Source) -> bool:
    """Whether a source of the model carries something: its last line shows it."""
    text = source.text
    last = map(bytes, text.pieces[-2:]) if isinstance(text, Text) else [bytes(text)]
    return CARRIED.strip() in b"".join(last)


def _statement(text: bytes, start: int) -> int | None:
    """The debug handle of the statement of generated source at a place; None if the line names none."""
    end = text.find(b"\n", start)
    comment = STATEMENT.search(text[text.rfind(b"\n", 0, start) + 1 : end if end >= 0 else None])
    return int(comment[1]) if comment else None
