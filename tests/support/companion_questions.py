"""Questions that a companion answers: with its facts, or with an error that says what is wrong."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

import archive
from archive import ArchiveError
from archive.base.errors import in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.companion.layout import (
    CompanionLayout,
    SectionLine,
)
from tests.support.corpus import RELEASES
from tests.support.halves import companion_of, parsed, plain_facts
from tests.support.plain import plain_handles, plain_methods, plain_ranges

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.symbolicate import HandleLookup
    from archive.reader.archive import Archive
    from archive.reader.companion import Companion

    Sections = list[tuple[SectionLine, bytes]]


T = TypeVar("T")


SMALL = RELEASES / "torch-2.13.0" / "unicode.ptl"


PATHS = RELEASES / "torch-1.8.0" / "unicode.ptl"


RAW = RELEASES / "torch-1.2.0" / "consts.pt"


FILE = "m.ptdbg"


LONG = 1 << 24
"""Bytes of texts that are not copied any more to be compared."""


def _companion(opened: Archive) -> Companion:
    assert opened.companion is not None
    return opened.companion


def _looked_up(opened: Archive, look_up: Callable[[HandleLookup], T]) -> T:
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
    """The answers of a companion as it should be, the same from either layout."""
    packed_one, mapped_one = (
        asked(companion_of(path, layout)) for layout in (CompanionLayout.PACKED, CompanionLayout.MAPPED)
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
