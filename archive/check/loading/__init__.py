"""The checks that PyTorch 2.13 makes when it loads an archive, in its order and with its own messages.

:mod:`archive.check.verify` reports the ``CHECKS`` that fail, and each command makes them before it says that
PyTorch loads a file it wrote. Each check was tried with PyTorch 2.13;
``fixtures/releases/oracle-2.13.0.json`` has its answer for each archive. A check finds one of two things:

- a *contradiction* between records: every release that reads these records refuses the archive;
- a format of *another release* that 2.13 does not read: the archive itself is right, and a migration mends
  what can be mended.

Not listed:

- a torch.package, which another importer loads;
- the compilation of generated code, of which only the characters are checked here;
- the making of objects, which needs the model's operators, custom classes and backends.

Checks of generated code for what PyTorch's own lexer refuses.

PyTorch writes a name that is not ASCII unchanged, or as a string with broken escapes in
``getattr(self, "…")``. ``torch.jit.load`` reads neither, nor a string that does not end: see ``lexer.h`` and
``parse_string_literal.h`` in ``torch/csrc/jit/frontend/``. The lite interpreter reads no code, so its
archives are not checked.

Checks of the call-stack map: its rows, their handles and their tags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.columns import numbered
from archive.base.errors import ArchiveError
from archive.check.loading import records
from archive.check.loading.facts import Fault, ParsedRecords, whole
from archive.debuginfo.mending import calls_without_range, mended, rows_without_range, tags_of
from archive.debuginfo.model import Generation
from archive.formats import callstack_map
from archive.formats.bytecode import BYTECODE
from archive.formats.callstack_map import CALLSTACK_MAP
from archive.formats.inert_values import DATA
from archive.formats.record_kinds import is_code
from archive.formats.releases import LOADED_BYTECODE
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.debuginfo.handle_tables import HandleTable
    from archive.reader.archive import Archive

# --- handles


def elements(facts: ParsedRecords) -> Iterator[Fault]:
    """Rows of three elements; PyTorch 1.10 and later write four."""
    if facts.handles is not None and callstack_map.generation(facts.handles) is Generation.CALLSTACK_3:
        yield whole(CALLSTACK_MAP, "rows of three elements, as PyTorch 1.9 wrote them")


def row_tags(facts: ParsedRecords) -> Iterator[Fault]:
    """Rows whose tag is no source range's."""
    if facts.handles is None or facts.tags is None:
        return
    tag = facts.handles.tag
    if not len(facts.tags) and len(tag):
        yield whole(CALLSTACK_MAP, "no source range has a tag, so nothing tells where the handles lead")
        return
    rows = rows_without_range(facts.handles, facts.tags)
    yield Fault(
        CALLSTACK_MAP,
        "tags of no source range",
        rows,
        lambda row: (f"row {row}, field tag", f"expected the tag of a source range, found {tag[row]}"),
    )


def call_tags(facts: ParsedRecords) -> Iterator[Fault]:
    """Frames of call stacks whose tag is no source range's; -1 is allowed."""
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
    """Whether a migration can replace the tags of no source range."""
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
    """The place of each frame; of a frame that several stacks share, the place in one of them."""

    def __init__(self, table: HandleTable) -> None:
        self.row = np.full(len(table.next), -1, np.int64)
        rows = np.flatnonzero(table.stack >= 0)[::-1]
        self.row[table.stack[rows]] = rows  # rows descend, so the first row of a shared stack wins
        self.outer = np.full(len(table.next), -1, np.int64)
        frames = np.flatnonzero(table.next >= 0)
        self.outer[table.next[frames]] = frames

    def place(self, frame: int) -> str:
        """The row, and the number of frames outside of this one."""
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
REFUSED = (
    ("names that are not ASCII", "a name that is not ASCII", "other"),
    ("strings that do not end", "a string that does not end", "open"),
)
"""What PyTorch's lexer takes for no token: its plural, one of them, and its group in ``LEXED``."""
ESCAPE = re.compile(rb"\\(?:(?P<known>[\\'\"\nabfnvtxuU]|[0-3][0-7]{2})|.)", re.DOTALL)
"""Any escape. ``x``, ``u`` and ``U`` count as known: PyTorch refuses them with another message."""


def tokens(facts: ParsedRecords) -> Iterator[Fault]:
    """Names outside of ASCII, and strings that do not end."""
    for record, code in _codes(facts):
        lexed = [one for one in _lexed(code) if one["other"] or one["open"]]
        for what, problem, kind in REFUSED:
            found = [one.start() for one in lexed if one[kind]]
            yield Fault(record, what, found, partial(_at, problem))


def escapes(facts: ParsedRecords) -> Iterator[Fault]:
    """Escapes that are neither known letters nor three octal digits up to 377."""
    for record, code in _codes(facts):
        if b"\\" in code:
            strings = (one for one in _lexed(code) if one["string"])
            found = [
                string.start() + escape.start()
                for string in strings
                for escape in ESCAPE.finditer(string[0])
                if not escape["known"]
            ]
            what, problem = "broken escapes in strings", "a broken escape in a string"
            yield Fault(record, what, found, partial(_at, problem))


def _lexed(code: bytes) -> Iterator[re.Match[bytes]]:
    """What ``LEXED`` finds, up to the first string that does not end: there PyTorch's lexer stops, too."""
    for one in LEXED.finditer(code):
        yield one
        if one["open"]:
            return


def _at(problem: str, byte: int) -> tuple[str, str]:
    return f"byte {byte}", problem


def _codes(facts: ParsedRecords) -> Iterator[tuple[str, bytes]]:
    """Names and contents of code records; none in an archive for the lite interpreter."""
    if BYTECODE not in facts.archive.records:
        for name in filter(is_code, facts.readable):
            yield name, bytes(facts.archive.records[name].view())


# --- loading

__all__ = ["CHECKS", "Check", "Loader", "ParsedRecords", "Refusal", "loaded_like", "refusals"]

CONSTANTS_RECORD = "constants.pkl"
MISSING_FILE = "PytorchStreamReader failed locating file {}: file not found"
TAG_MESSAGE = "Source range tag must exist in deserialized source range map."


class Loader(StrEnum):
    """A part of PyTorch that loads archives."""

    TORCHSCRIPT = "PyTorch 2.13's torch.jit.load"
    LITE = "PyTorch 2.13's lite interpreter"
    BOTH = "PyTorch 2.13"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that PyTorch checks.

    Attributes:
        loader: the part of PyTorch that checks it.
        message: PyTorch's message, without the values in it.
        find: finds the places where an archive fails the check.
        of_release: whether archives fail it because another release wrote them.
        mended: whether a migration to the latest release mends an archive that fails it.
    """

    loader: Loader
    message: str
    find: Callable[[ParsedRecords], Iterator[Fault]]
    of_release: bool = False
    mended: Callable[[ParsedRecords], bool] = lambda _: False

    def told(self, facts: ParsedRecords) -> str:
        """PyTorch's refusal of an archive that fails the check, and the way out where there is one."""
        way_out = "; `debug-archive migrate --to latest` mends it" if self.mended(facts) else ""
        return f'{self.loader} refuses it: "{self.message}"{way_out}'


class Refusal(NamedTuple):
    """A check that an archive fails, and the first place where it does.

    Attributes:
        check: the check.
        told: PyTorch's refusal, and the way out where there is one.
        record: the record; "" for the archive as a whole.
        place: the place in the record.
        problem: the problem at this place.
    """

    check: Check
    told: str
    record: str
    place: str
    problem: str


def refusals(archive: Archive, like: Archive | None = None) -> list[Refusal]:
    """The checks that an archive fails; none for a torch.package.

    Args:
        archive: the archive.
        like: another archive with the same bytecode, whose parsed bytecode is used.

    Raises:
        ArchiveError: a record is broken.
    """
    if archive.recognised.kind is FileKind.PACKAGE:
        return []
    bytecode = (archive if like is None else like).bytecode
    tags = tags_of(archive.range_table)
    facts = ParsedRecords(
        archive, archive.records, tags, archive.handle_table, archive.method_table, bytecode
    )
    found = []
    for check in CHECKS:
        fault = next((one for one in check.find(facts) if len(one.found)), None)
        if fault is not None:
            place, problem = fault.describe(int(fault.found[0]))
            found.append(Refusal(check, check.told(facts), fault.record, place, problem))
    return found


def loaded_like(after: Archive, before: Archive, *, same_bytecode: bool = True) -> list[Refusal]:
    """The checks that an archive fails, and none of them because of what was made of its records.

    Args:
        after: the archive.
        before: what it was made from.
        same_bytecode: whether both have the same bytecode, which is then parsed once.

    Raises:
        ArchiveError: a record is broken, or contradicts others and did not before.
    """
    found = refusals(after, before if same_bytecode else None)
    new = [refusal for refusal in found if not refusal.check.of_release]
    known = {_about(refusal.check) for refusal in refusals(before)} if new else set()
    for one in new:
        if _about(one.check) not in known:
            what = f"{one.problem}: {one.told}; nothing is written"
            raise ArchiveError(what, record=one.record or None, place=one.place or None)
    return found


def _about(check: Check) -> str:
    """The subject of a check: tags of rows and of calls are one, for without tags both fail."""
    return TAG_MESSAGE if check.message.startswith(TAG_MESSAGE) else check.message


CHECKS = (
    Check(
        Loader.BOTH,
        "Attempted to read a PyTorch file with version",
        records.version,
        of_release=True,
    ),
    Check(Loader.BOTH, "Legacy model format is not supported on mobile.", records.legacy, of_release=True),
    Check(Loader.BOTH, MISSING_FILE.format(DATA), records.missing(DATA)),
    Check(Loader.TORCHSCRIPT, MISSING_FILE.format(CONSTANTS_RECORD), records.missing(CONSTANTS_RECORD)),
    Check(Loader.TORCHSCRIPT, "expected a valid token but found", tokens),
    Check(Loader.TORCHSCRIPT, "ill formed octal specifier", escapes),
    Check(
        Loader.TORCHSCRIPT,
        "object has no attribute or method 'preprocess'",
        records.stale,
        of_release=True,
        mended=lambda _: True,
    ),
    Check(
        Loader.LITE,
        f"Lite Interpreter version number does not match. The model version must be between "
        f"{LOADED_BYTECODE[0]} and {LOADED_BYTECODE[-1]}",
        records.bytecode_version,
        of_release=True,
    ),
    Check(
        Loader.LITE,
        "The numbers of bytecode values and debug info values do not match.",
        records.method_count,
    ),
    Check(
        Loader.LITE,
        "The function names in the bytecode table and the debug info table do not match.",
        records.method_names,
    ),
    Check(
        Loader.LITE,
        "The numbers of instructions and debug handles strings do not match.",
        records.instructions,
    ),
    Check(Loader.LITE, "Expected GenericDict but got", records.members),
    Check(
        Loader.LITE,
        "Pickled map must have four elements: debug_handle, source_range_tag, op name, "
        "IValue(inlined_call_stack)",
        elements,
        of_release=True,
        mended=lambda _: True,
    ),
    Check(Loader.LITE, TAG_MESSAGE, row_tags, mended=can_be_mended),
    Check(
        Loader.LITE,
        f"{TAG_MESSAGE} Not found source range tag",
        call_tags,
        mended=can_be_mended,
    ),
    Check(Loader.LITE, "Debug handles should be unique.", unique),
)
"""All checks, in the order in which PyTorch makes them."""
