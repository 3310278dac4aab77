"""What each check of :data:`archive.reader.loading.CHECKS` looks for, record by record.

Records as such: versions, missing records, former formats. The lite interpreter's records: methods,
their instructions and handles, members of enums.

Generated code: what PyTorch's own lexer refuses. PyTorch writes a name that is not ASCII unchanged, or as
a string with broken escapes in ``getattr(self, "…")``. ``torch.jit.load`` reads neither, nor a string that
does not end: see ``lexer.h`` and ``parse_string_literal.h`` in ``torch/csrc/jit/frontend/``. The lite
interpreter reads no code, so the code of its archives is not checked.

The call-stack map: its rows, their handles and their tags.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.columns import numbered
from archive.base.errors import counted, shown
from archive.debuginfo.mending import calls_without_range, mended, rows_without_range
from archive.debuginfo.model import Generation
from archive.formats import callstack_map
from archive.formats.inert_values import is_member, objects
from archive.formats.record_kinds import (
    BYTECODE,
    CALLSTACK_MAP,
    DATA,
    LEGACY_TREE,
    METHOD_HANDLES,
    is_code,
    version_record,
)
from archive.formats.releases import LOADED_BYTECODE
from archive.formats.stale_methods import may_be_stale, stale_methods
from archive.reader.archive import shared_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from archive.base.columns import Ints
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.formats.bytecode import Bytecode
    from archive.reader.archive import Archive
    from archive.reader.records import ReadableRecord

LOADED_VERSIONS = range(1, 11)
"""The versions of the archive's format that PyTorch 2.13 reads."""
CLASS = b"c__torch__."
"""The instruction of a pickle that names one of the model's classes."""
INTEGER = re.compile(rb"\s*([+-]?\d{1,40})")


class ParsedRecords(NamedTuple):
    """The records that checks look at, parsed; None for one that is missing or cannot be read.

    Attributes:
        readable: the names of the records that can be read.
        tags: the tags of all source ranges, sorted (n).
        handles: the call-stack map.
        bytecode: the methods of the lite interpreter.
    """

    archive: Archive
    readable: Collection[str]
    tags: Ints | None
    handles: HandleTable | None
    methods: MethodTable | None
    bytecode: Bytecode | None


class Fault(NamedTuple):
    """The places in one record that fail a check, as columns; only those that are listed become diagnostics.

    Attributes:
        record: the record; "" for the archive as a whole.
        what: the name of the fault, in the plural; "" for a fault of the record as a whole.
        numbers: of what is wrong, as ``describe`` takes them (n).
        describe: number → place and problem.
    """

    record: str
    what: str
    numbers: Ints | list[int]
    describe: Callable[[int], tuple[str, str]]


def whole(record: str, problem: str) -> Fault:
    """A fault of a record as a whole."""
    return Fault(record, "", [0], lambda _: ("", problem))


# --- records


def version(facts: ParsedRecords) -> Iterator[Fault]:
    """A version of the archive's format that PyTorch 2.13 does not read."""
    if problem := version_problem(facts.archive.records, facts.readable):
        yield whole(*problem)


def version_problem(
    records: Mapping[str, ReadableRecord], readable: Collection[str]
) -> tuple[str, str] | None:
    """The first version record and its problem, if PyTorch 2.13 does not read the first number in it."""
    name = version_record(readable)
    number = None if name is None else INTEGER.match(bytes(records[name].view()[:64]))
    if name is None or number is None or int(number[1]) in LOADED_VERSIONS:
        return None
    known = f"{LOADED_VERSIONS[0]} to {LOADED_VERSIONS[-1]}"
    return name, f"expected a version from {known}, found {int(number[1])}"


def legacy(facts: ParsedRecords) -> Iterator[Fault]:
    """A module tree as PyTorch wrote it before ``data.pkl``."""
    if LEGACY_TREE in facts.archive.records:
        yield whole(LEGACY_TREE, "the module tree as PyTorch 1.0 to 1.2 wrote it")


def missing(name: str) -> Callable[[ParsedRecords], Iterator[Fault]]:
    """Make the check for a required record."""

    def find(facts: ParsedRecords) -> Iterator[Fault]:
        if name not in facts.archive.records and LEGACY_TREE not in facts.archive.records:
            yield whole("", f"expected a record {name}, found none")

    return find


def stale(facts: ParsedRecords) -> Iterator[Fault]:
    """Code of lowered modules that calls a method which backends no longer have."""
    for name in filter(may_be_stale, facts.readable):
        if stale_methods(bytes(facts.archive.records[name].view())):
            yield whole(name, "a lowered module with the method __preprocess of PyTorch 1.6 to 1.8")


# --- methods


def bytecode_version(facts: ParsedRecords) -> Iterator[Fault]:
    """A version of the bytecode that the lite interpreter does not read."""
    if facts.bytecode is not None and facts.bytecode.version not in LOADED_BYTECODE:
        known = f"{LOADED_BYTECODE[0]} to {LOADED_BYTECODE[-1]}"
        yield whole(BYTECODE, f"expected a version from {known}, found {facts.bytecode.version}")


def method_count(facts: ParsedRecords) -> Iterator[Fault]:
    """A number of methods with handles that differs from the bytecode's."""
    if facts.methods is None or facts.bytecode is None:
        return
    expected, actual = list(facts.bytecode.instructions), list(facts.methods.names)
    if len(expected) != len(actual):
        lacking = ", ".join(shown(name) for name in expected if name not in actual)
        which = f", without {lacking}" if lacking else ""
        there = counted(len(expected), "method")
        yield whole(METHOD_HANDLES, f"expected {there}, as in {BYTECODE}, found {len(actual):,}{which}")


def method_names(facts: ParsedRecords) -> Iterator[Fault]:
    """Methods with handles whose names or order differ from the bytecode's."""
    if facts.methods is None or facts.bytecode is None:
        return
    expected, actual = list(facts.bytecode.instructions), list(facts.methods.names)
    other = [row for row, pair in enumerate(zip(expected, actual, strict=False)) if pair[0] != pair[1]]
    if len(expected) == len(actual):
        yield Fault(
            METHOD_HANDLES,
            "methods of other names",
            other,
            lambda row: (
                f"row {row}, field method",
                f"expected {shown(expected[row])}, as in {BYTECODE}, found {shown(actual[row])}",
            ),
        )


def instructions(facts: ParsedRecords) -> Iterator[Fault]:
    """Methods whose numbers of handles and instructions differ."""
    if facts.methods is None or facts.bytecode is None:
        return
    table, expected = facts.methods, facts.bytecode.instructions
    counts = (table.first[1:] - table.first[:-1]).tolist()
    rows = list(zip(table.names, counts, strict=True))
    other = [row for row, (name, count) in enumerate(rows) if expected.get(name, count) != count]

    def describe(row: int) -> tuple[str, str]:
        name, count = rows[row]
        problem = f"expected as many handles as instructions, {expected[name]}, found {count}"
        return f"row {row}, method {shown(name)}", problem

    yield Fault(METHOD_HANDLES, "methods with another number of instructions", other, describe)


def members(facts: ParsedRecords) -> Iterator[Fault]:
    """Members of enums: the lite interpreter has no types for them, though PyTorch saves them."""
    if facts.bytecode is None:
        return
    for name in (BYTECODE, DATA):
        record = facts.archive.records[name] if name in facts.readable else None
        if record is not None and CLASS in bytes(record.view()):
            value = facts.archive.data if name == DATA else shared_value(facts.archive, name)
            member = next(filter(is_member, objects(value)), None)
            if member is not None:
                yield whole(name, f"a member of the enum {shown(str(member.what))}")
                return


# --- call-stack map


def elements(facts: ParsedRecords) -> Iterator[Fault]:
    """Rows of three elements; PyTorch 1.10 and later write four."""
    if facts.handles is not None and callstack_map.generation(facts.handles) is Generation.CALLSTACK_3:
        yield whole(CALLSTACK_MAP, "rows of three elements, as PyTorch 1.9 wrote them")


def row_tags(facts: ParsedRecords) -> Iterator[Fault]:
    """Rows whose tag belongs to no source range."""
    if facts.handles is None or facts.tags is None:
        return
    tag = facts.handles.tag
    if not len(facts.tags) and len(tag):
        yield whole(CALLSTACK_MAP, "no source range has a tag, so nothing says where the handles lead")
        return
    yield Fault(
        CALLSTACK_MAP,
        "tags of no source range",
        rows_without_range(facts.handles, facts.tags),
        lambda row: (f"row {row}, field tag", f"expected the tag of a source range, found {tag[row]}"),
    )


def call_tags(facts: ParsedRecords) -> Iterator[Fault]:
    """Frames of call stacks whose tag belongs to no source range; -1 is allowed."""
    if facts.handles is None or facts.tags is None or not len(facts.tags):
        return
    tag, frames = facts.handles.call_tag, _FramePlaces(facts.handles)
    yield Fault(
        CALLSTACK_MAP,
        "tags of no source range in call stacks",
        calls_without_range(facts.handles, facts.tags),
        lambda frame: (
            f"{frames.place(frame)}, field tag",
            f"expected the tag of a source range or -1, found {tag[frame]}",
        ),
    )


def can_be_mended(facts: ParsedRecords) -> bool:
    """Whether a migration can replace tags that belong to no source range."""
    return mended(facts.handles, facts.archive.range_table)[1] > 0


def unique(facts: ParsedRecords) -> Iterator[Fault]:
    """Rows with a handle that an earlier row has."""
    if facts.handles is None:
        return
    handle = facts.handles.handle
    again = np.ones(len(handle), np.bool_)
    again[numbered(handle)[1]] = False
    yield Fault(
        CALLSTACK_MAP,
        "handles that are not unique",
        np.flatnonzero(again),
        lambda row: (f"row {row}, field handle", f"expected a new handle, found {handle[row]} again"),
    )


class _FramePlaces:
    """The place of each frame; for a frame that several stacks share, its place in one of them."""

    def __init__(self, table: HandleTable) -> None:
        self.row = np.full(len(table.next), -1, np.int64)
        rows = np.flatnonzero(table.stack >= 0)[::-1]
        self.row[table.stack[rows]] = rows  # rows descend, so the first row of a shared stack wins
        self.outer = np.full(len(table.next), -1, np.int64)
        frames = np.flatnonzero(table.next >= 0)
        self.outer[table.next[frames]] = frames

    def place(self, frame: int) -> str:
        """The row, and the number of frames outside this one."""
        depth = 0
        while self.row[frame] < 0 and self.outer[frame] >= 0:
            frame, depth = int(self.outer[frame]), depth + 1
        return f"row {self.row[frame]}, frame {depth}"


# --- code

LEXED = re.compile(
    rb"#[^\n]*"
    rb'|(?P<string>"""(?:\\.|[^\\])*?"""'
    rb"|'''(?:\\.|[^\\])*?'''"
    rb'|"(?!"")(?:\\.|[^"\\\n])*+"'
    rb"|'(?!'')(?:\\.|[^'\\\n])*+')"
    rb"|(?P<open>[\"'])"
    rb"|(?P<other>[^\x00-\x7f]+)",
    re.DOTALL,
)
"""Comments, strings, the quote of a string that does not end, and bytes that are not ASCII."""
NO_TOKENS = (
    ("names that are not ASCII", "a name that is not ASCII", "other"),
    ("strings that do not end", "a string that does not end", "open"),
)
"""What PyTorch's lexer accepts as no token: its plural, its singular, and its group in ``LEXED``."""
ESCAPE = re.compile(rb"\\(?:(?P<known>[\\'\"\nabfnvtxuU]|[0-3][0-7]{2})|.)", re.DOTALL)
"""Any escape. ``x``, ``u`` and ``U`` count as known: PyTorch rejects them with another message."""


def tokens(facts: ParsedRecords) -> Iterator[Fault]:
    """Names outside ASCII, and strings that do not end."""
    for record, code in _codes(facts):
        lexed = [token for token in _lexed(code) if token["other"] or token["open"]]
        for what, problem, group in NO_TOKENS:
            starts = [token.start() for token in lexed if token[group]]
            yield Fault(record, what, starts, partial(_at, problem))


def escapes(facts: ParsedRecords) -> Iterator[Fault]:
    """Escapes that are neither known letters nor three octal digits up to 377."""
    for record, code in _codes(facts):
        if b"\\" in code:
            starts = [
                token.start() + escape.start()
                for token in _lexed(code)
                if token["string"]
                for escape in ESCAPE.finditer(token[0])
                if not escape["known"]
            ]
            what, problem = "broken escapes in strings", "a broken escape in a string"
            yield Fault(record, what, starts, partial(_at, problem))


def _lexed(code: bytes) -> Iterator[re.Match[bytes]]:
    """What ``LEXED`` finds, up to the first string that does not end: PyTorch's lexer stops there, too."""
    for token in LEXED.finditer(code):
        yield token
        if token["open"]:
            return


def _at(problem: str, byte: int) -> tuple[str, str]:
    return f"byte {byte}", problem


def _codes(facts: ParsedRecords) -> Iterator[tuple[str, bytes]]:
    """Names and contents of code records; none in an archive for the lite interpreter."""
    if BYTECODE not in facts.archive.records:
        for name in filter(is_code, facts.readable):
            yield name, bytes(facts.archive.records[name].view())
