"""Companions by a hostile writer: every checksum is right, what it is of is not. And what readers then do."""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from unittest import mock

import pytest

import archive
from archive import ArchiveError
from archive.base.errors import in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.companion import packed
from archive.companion.codecs import Codec
from archive.companion.layout import (
    ALIGNMENT,
    HEADER,
    MAPPED_LINE,
    CompanionProfile,
    Section,
    read_directory,
    written,
)
from archive.companion.mapped import _pages, build_mapped
from archive.companion.modelling import modelled
from archive.companion.templates import templated
from archive.normalform.columns import PAGES, SOLID
from tests.support.corpus import RELEASES
from tests.support.halves import companion_of, facts_of, parsed, plain_facts
from tests.support.plain import plain_handles, plain_methods, plain_ranges
from tests.support.strategies import column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from archive.companion.contents import Contents
    from archive.companion.templates import Templates
    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.symbolicate import Known
    from archive.normalform.columns import ColumnName, Columns
    from archive.reader.archive import Archive
    from archive.reader.companion import Companion

    Sections = list[tuple[Section, bytes]]

T = TypeVar("T")
SMALL = RELEASES / "torch-2.13.0" / "unicode.ptl"
PATHS = RELEASES / "torch-1.8.0" / "unicode.ptl"
RAW = RELEASES / "torch-1.2.0" / "consts.pt"
FILE = "m.ptdbg"
LONG = 1 << 24
"""Bytes of texts that are not copied any more to be compared."""
HEADER_BYTES: int = HEADER.sizeof()


# --- what is asked of a companion


def _companion(opened: Archive) -> Companion:
    assert opened.companion is not None
    return opened.companion


def _looked_up(opened: Archive, look_up: Callable[[Known], T]) -> T:
    with in_file(opened.file):
        return look_up(_companion(opened).known)


def _ranges(opened: Archive) -> object:
    table = opened.range_table
    size = int(table.sources.lengths[table.source].sum())
    return size if size > LONG else [plain_ranges(table, record) for record in range(len(table.names))]


def _handles(opened: Archive) -> object:
    table = opened.handle_table
    return None if table is None else plain_handles(table)


def _methods(opened: Archive) -> object:
    return [
        None if table is None else plain_methods(table, texts=texts)
        for table, texts in ((opened.method_table, False), (opened.path_table, True))
    ]


def _places(opened: Archive) -> object:
    names = ["code/__torch__/models.py", "code/nowhere.py"]
    return [
        str(_companion(opened).locate_line(name, line, 7)) for name in names for line in (1, 5, 999_999_999)
    ]


HANDLES = (5, 31, 1 << 62)
TAGS = (1, 3, 1 << 40)


def _symbolication(handle: int) -> Callable[[Archive], object]:
    return lambda opened: bytes(opened.symbolicate(handle))


def _entry(handle: int) -> Callable[[Archive], object]:
    """What is known of a handle, looked up without reading everything."""
    return lambda opened: str(_looked_up(opened, lambda known: known.entry_of(handle)))


def _range(tag: int) -> Callable[[Archive], object]:
    return lambda opened: _shown(_looked_up(opened, lambda known: known.range_of(tag)))


def _shown(span: SourceRange | None) -> object:
    """A range without its text, which may be long."""
    if span is None:
        return None
    source = span.source
    return span.start, span.end, str(source.filename), source.starting_line, len(source.text)


QUESTIONS: dict[str, Callable[[Archive], object]] = {
    **{f"entry {handle}": _entry(handle) for handle in HANDLES},
    **{f"range {tag}": _range(tag) for tag in TAGS},
    **{f"handle {handle}": _symbolication(handle) for handle in HANDLES},
    "facts": lambda opened: plain_facts(_companion(opened).contents),
    "ranges": _ranges,
    "handles": _handles,
    "methods": _methods,
    "top": lambda opened: (opened.top, opened.qualified_top, sorted(opened.classes)),
    "places": _places,
    "records": lambda opened: {name: bytes(record.view()) for name, record in opened.records.items()},
    "generations": lambda opened: dict(opened.generations),
}
"""What can be looked up stands first, so that it is not answered from what was read for the others."""


class Answers(NamedTuple):
    """What a companion answers.

    Attributes:
        known: the answers.
        errors: the errors instead.
        broken: exceptions of any other kind, of which there should be none.
    """

    known: dict[str, object]
    errors: dict[str, ArchiveError]
    broken: dict[str, str]


def asked(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Answers:
    """All questions."""
    try:
        opened = archive.open(data, name=FILE, limits=limits)
    except ArchiveError as error:
        return Answers({}, dict.fromkeys(QUESTIONS, error), {})
    answers = Answers({}, {}, {})
    with opened:
        for name, question in QUESTIONS.items():
            if "facts" in answers.errors and name not in ("records", "top"):
                answers.errors[name] = answers.errors["facts"]  # which all others are made of
                continue
            try:
                answers.known[name] = question(opened)
            except ArchiveError as error:
                answers.errors[name] = error
            except Exception as error:  # noqa: BLE001 (of any kind)
                answers.broken[name] = repr(error)
    return answers


@cache
def honest(path: Path) -> dict[str, object]:
    """The answers of a companion as it should be, the same from either profile."""
    packed_one, mapped_one = (
        asked(companion_of(path, profile)) for profile in (CompanionProfile.PACKED, CompanionProfile.MAPPED)
    )
    assert packed_one == mapped_one
    assert len(packed_one.known) == len(QUESTIONS)
    return packed_one.known


def refused_or_the_same(data: bytes, path: Path) -> set[str]:
    """The questions that are refused; all others are answered as they should be."""
    answers = asked(data)
    assert answers.broken == {}, answers.broken
    assert {name: honest(path)[name] for name in answers.known} == answers.known
    return set(answers.errors)


def refused(data: bytes, limits: Limits = DEFAULT_LIMITS) -> ArchiveError:
    """The error of reading all facts."""
    with pytest.raises(ArchiveError) as caught:
        parsed(data, limits)
    assert str(caught.value).isprintable()
    return caught.value


# --- what a hostile writer writes


def sections(data: bytes) -> Sections:
    """The lines of a companion's directory, and the bytes of each."""
    directory = read_directory(memoryview(data), DEFAULT_LIMITS)
    return [(line, data[slice(*directory.places[number])]) for number, line in directory.sections.items()]


def rewritten(data: bytes, listed: Sections, *, honest_sizes: bool = True) -> bytes:
    """The companion with other sections; sizes and all checksums are put right."""
    directory = read_directory(memoryview(data), DEFAULT_LIMITS)
    if honest_sizes:
        listed = [(line._replace(stored=len(part)), part) for line, part in listed]
    listed = [(line._replace(checksum=zlib.crc32(part)), part) for line, part in listed]
    if directory.profile is CompanionProfile.MAPPED:
        listed = [
            one if one[0].number != PAGES else _pages(_before(listed, directory.archive_id)) for one in listed
        ]
    return written(directory.profile, directory.archive_id, listed)


def _before(listed: Sections, archive_id: bytes) -> bytes:
    """What stands before the pages' checksums."""
    number = next(at for at, (line, _) in enumerate(listed) if line.number == PAGES)
    empty = [(line._replace(stored=0), b"") for line, _ in listed[number:]]
    draft = written(CompanionProfile.MAPPED, archive_id, [*listed[:number], *empty])
    begin = HEADER_BYTES + MAPPED_LINE.size * len(listed)
    return draft[begin + -begin % ALIGNMENT[CompanionProfile.MAPPED] :]


def directory_end(data: bytes) -> int:
    """Where the directory of a companion ends."""
    directory = read_directory(memoryview(data), DEFAULT_LIMITS)
    if directory.profile is CompanionProfile.PACKED:
        return min(start for start, _ in directory.places.values())
    size: int = HEADER_BYTES + MAPPED_LINE.size * len(directory.sections)
    return size


def replaced(listed: Sections, at: int, **fields: int) -> Sections:
    """The sections, one of which says something else of itself."""
    line, part = listed[at]
    return [*listed[:at], (line._replace(**fields), part), *listed[at + 1 :]]


def solid(body: bytes, inflated: int | None = None, codec: int = 0) -> bytes:
    """A packed companion of one section."""
    size = len(body) if inflated is None else inflated
    line = Section(SOLID, 1, codec, size, 0, size, len(body), zlib.crc32(body))
    return written(CompanionProfile.PACKED, bytes(16), [(line, body)])


def kept(facts: Contents) -> tuple[Columns, Templates]:
    """Columns as packed companions have them, and the strings."""
    templates = templated(facts.strings.copies())
    return modelled(facts.columns, templates, facts.strings.length), templates


def mapped_of(facts: Contents, columns: Columns | None = None) -> bytes:
    """A mapped companion of columns that nobody has looked at."""
    return build_mapped(facts if columns is None else facts.with_columns(dict(columns)))


def packed_of(
    facts: Contents,
    columns: Columns | None = None,
    templates: Templates | None = None,
    *,
    compress: bool = False,
) -> bytes:
    """A packed companion of columns, modelled already, and strings that nobody has looked at."""
    with ExitStack() as patches:
        for name, value in (
            ("modelled", columns or kept(facts)[0]),
            ("templated", templates or kept(facts)[1]),
        ):
            result = dict(value) if isinstance(value, dict) else value
            patches.enter_context(mock.patch.object(packed, name, return_value=result))
        if not compress:  # which takes longest
            patches.enter_context(mock.patch.object(packed, "zstd", lambda data, _: data))
            patches.enter_context(
                mock.patch.object(packed, "compressed", lambda data, *_: (Codec.NONE, data))
            )
        return packed.build_packed(facts, 1)


def hostile(path: Path, profile: CompanionProfile, change: Callable[[Columns], object]) -> bytes:
    """The companion of an archive with columns changed."""
    facts = facts_of(path)
    if profile is CompanionProfile.MAPPED:
        columns = dict(facts.columns)
        change(columns)
        return mapped_of(facts, columns)
    columns, templates = kept(facts)
    change(columns)
    return packed_of(facts, columns, templates)


def set_to(columns: Columns, name: ColumnName, row: int, value: int) -> None:
    """Change one value of a column."""
    columns[name] = columns[name].copy()
    columns[name][row] = value


def all_of(columns: Columns, name: ColumnName, values: Iterable[int]) -> None:
    """Change a whole column."""
    columns[name] = column(values)
