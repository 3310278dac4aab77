"""Targets for companions: read whole, looked up row by row, and as the records that they stand for."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import archive
from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.companion.parse import OpenedCompanion, parse_companion
from archive.debuginfo.symbolicate import TableLookup
from tests.fuzz.mutations import changed_companion
from tests.fuzz.targets import Target
from tests.support.corpus import ARCHIVES
from tests.support.halves import companion_of, plain_facts
from tests.support.plain import plain_handle, plain_handles, plain_methods, plain_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from archive.debuginfo.symbolicate import HandleLookup
    from archive.reader.archive import Archive
    from tests.support.slow_reader import RangeRow

LIMITS = DEFAULT_LIMITS
HANDLES, TAGS = (0, 5, 31, 1 << 62), (0, 1, 3, 1 << 40)


def read_companion(data: bytes) -> None:
    """A companion: all of it, then written in the other layout and read again."""
    with memory.charged(LIMITS.allowance(len(data))):
        contents = parse_companion(memoryview(data))
    with memory.charged(LIMITS.allowance(len(data))):
        again = parse_companion(memoryview(build_companion(contents, CompanionLayout.MAPPED)))
    assert plain_facts(again) == plain_facts(contents)


def look_up(data: bytes) -> None:
    """A companion of which single rows are looked up: what is answered is answered as by all of it."""
    with memory.charged(LIMITS.allowance(len(data))):
        lookup = OpenedCompanion(memoryview(data)).lookup
    answers = answers_of(lookup, HANDLES, TAGS)
    try:
        with memory.charged(LIMITS.allowance(len(data))):
            form = OpenedCompanion(memoryview(data)).contents.form
        whole = TableLookup(form.handle_table, form.range_table)
    except ArchiveError:
        if not answers:
            raise
        return
    last = form.columns["handle.handle"][-1:].tolist() if "handle.handle" in form.columns else []
    for handles, tags in ((HANDLES, TAGS), (last, ())):
        whole_answers = answers_of(whole, handles, tags)
        for question, answer in answers_of(lookup, handles, tags).items():
            assert whole_answers.get(question, answer) == answer, f"{question}: not as it is read whole"


def answers_of(known: HandleLookup, handles: Iterable[int], tags: Iterable[int]) -> dict[str, object]:
    """What is known of some handles and tags; what is refused is left out."""
    questions: dict[str, Callable[[], object]] = {
        **{f"handle {handle}": partial(_entry, known, handle) for handle in handles},
        **{f"tag {tag}": partial(_range, known, tag) for tag in tags},
    }
    answers = {}
    for name, question in questions.items():
        with suppress(ArchiveError):
            answers[name] = question()
    return answers


def _entry(known: HandleLookup, handle: int) -> object:
    entry = known.entry_of(handle)
    return entry and plain_handle(entry, ())


def _range(known: HandleLookup, tag: int) -> object:
    found = known.range_of(tag)
    if found is None:
        return None
    source = found.source
    name = None if source.filename is None else bytes(source.filename)
    return found.start, found.end, bytes(source.text), name, source.starting_line, source.is_null


def read_records(data: bytes) -> None:
    """A companion whose records are made, and read as those of an archive: the facts are the same."""
    with archive.open(data, name="m.ptdbg") as opened:
        again = opened.reread()
        assert facts_of(again) == facts_of(opened), "not as in its records"


def _row(row: RangeRow) -> RangeRow:
    """A row without whether its source is null, where a record has no place for that."""
    return row._replace(is_null=False) if (row.text, row.filename, row.line) == (b"", b"", 0) else row


def facts_of(opened: Archive) -> list[object]:
    """All ranges, handles and methods, as plain values."""
    ranges, handles = opened.range_table, opened.handle_table
    methods = ((opened.method_table, False), (opened.path_table, True))
    return [
        {
            name: [_row(row) for row in plain_ranges(ranges, number)]
            for name, number in ranges.numbers.items()
        },
        handles and plain_handles(handles),
        *(table and plain_methods(table, texts=texts) for table, texts in methods),
    ]


def _companions() -> list[bytes]:
    small = sorted(ARCHIVES, key=lambda path: path.stat().st_size)[:60:6]
    return [companion_of(path, layout) for path in small for layout in CompanionLayout]


TARGETS = {
    "companion": Target(read_companion, _companions, changed_companion),
    "lookup": Target(look_up, _companions, changed_companion),
    "records": Target(read_records, _companions, changed_companion),
}
