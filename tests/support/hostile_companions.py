"""Companions by a hostile writer: every checksum is right, what it is of is not."""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import numpy as np
from construct import VarInt, ZigZag

from archive.companion import choosing, packed
from archive.companion.codecs import Codec
from archive.companion.encodings import TRANSFORM, Transform
from archive.companion.layout import (
    ALIGNMENT,
    HEADER,
    MAPPED_LINE,
    CompanionLayout,
    read_directory,
    written,
)
from archive.companion.mapped import _pages, build_mapped
from archive.companion.modelling import modelled
from archive.companion.templates import Templates, templated
from archive.normalform.columns import BY_NAME, PAGES, SOLID, STRINGS
from tests.support.companion_questions import SMALL
from tests.support.halves import facts_of
from tests.support.strategies import column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from archive.base.columns import Ints
    from archive.companion.contents import Contents
    from archive.companion.layout import SectionLine
    from archive.normalform.columns import Columns

    Sections = list[tuple[SectionLine, bytes]]


HEADER_BYTES = HEADER.size


def sections(data: bytes) -> Sections:
    """The lines of a companion's directory, and the bytes of each."""
    directory = read_directory(memoryview(data))
    return [(line, data[slice(*directory.places[number])]) for number, line in directory.sections.items()]


def rewritten(data: bytes, listed: Sections, *, honest_sizes: bool = True) -> bytes:
    """The companion with other sections; sizes and all checksums are put right."""
    directory = read_directory(memoryview(data))
    if honest_sizes:
        listed = [(line._replace(stored=len(part)), part) for line, part in listed]
    listed = [(line._replace(checksum=zlib.crc32(part)), part) for line, part in listed]
    if directory.layout is CompanionLayout.MAPPED:
        listed = [
            one if one[0].number != PAGES else _pages(_before(listed, directory.archive_id)) for one in listed
        ]
    return written(directory.layout, directory.archive_id, listed)


def _before(listed: Sections, archive_id: bytes) -> bytes:
    """What stands before the pages' checksums."""
    number = next(at for at, (line, _) in enumerate(listed) if line.number == PAGES)
    empty = [(line._replace(stored=0), b"") for line, _ in listed[number:]]
    draft = written(CompanionLayout.MAPPED, archive_id, [*listed[:number], *empty])
    begin = HEADER_BYTES + MAPPED_LINE.size * len(listed)
    return draft[begin + -begin % ALIGNMENT[CompanionLayout.MAPPED] :]


def directory_end(data: bytes) -> int:
    """Where the directory of a companion ends."""
    directory = read_directory(memoryview(data))
    if directory.layout is CompanionLayout.PACKED:
        return min(start for start, _ in directory.places.values())
    size: int = HEADER_BYTES + MAPPED_LINE.size * len(directory.sections)
    return size


def replaced(listed: Sections, at: int, **fields: int) -> Sections:
    """The sections, one of which says something else of itself."""
    line, part = listed[at]
    return [*listed[:at], (line._replace(**fields), part), *listed[at + 1 :]]


def solid(body: bytes, inflated: int | None = None, codec: int = 0) -> bytes:
    """A packed companion of one section with columns, and no strings."""
    size = len(body) if inflated is None else inflated
    line = MAPPED_LINE.row(SOLID, 1, codec, size, 0, size, len(body), zlib.crc32(body))
    strings = MAPPED_LINE.row(STRINGS, 1, Codec.NONE, 0, 0, 0, 0, zlib.crc32(b""))
    return written(CompanionLayout.PACKED, bytes(16), [(line, body), (strings, b"")])


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
            patches.enter_context(mock.patch.object(choosing, "zstd", lambda data, _: data))
            patches.enter_context(
                mock.patch.object(packed, "compressed", lambda data, *_: (Codec.NONE, data))
            )
        return packed.build_packed(facts, 1)


def hostile(path: Path, layout: CompanionLayout, change: Callable[[Columns], object]) -> bytes:
    """The companion of an archive with columns changed."""
    facts = facts_of(path)
    if layout is CompanionLayout.MAPPED:
        columns = dict(facts.columns)
        change(columns)
        return mapped_of(facts, columns)
    columns, templates = kept(facts)
    change(columns)
    return packed_of(facts, columns, templates)


def set_to(columns: Columns, name: str, row: int, value: int, places: Ints | None = None) -> None:
    """Change one value of a column; the order of a call-stack map stands in its places, and not as a rule."""
    if name == "handle.place" and places is not None:
        columns[name] = places
    columns[name] = columns[name].copy()
    columns[name][row] = value


def all_of(columns: Columns, name: str, values: Iterable[int]) -> None:
    """Change a whole column."""
    columns[name] = column(values)


# --- Packed ones, written column by column: any name, any number of rows


class Head(NamedTuple):
    """The head of one column."""

    number: int
    coding: int
    rows: int
    start: int


def line(name: str, rows: int, start: int = 0, transform: Transform = Transform.SAME, width: int = 0) -> Head:
    """The head of a column that is not FLAT."""
    return Head(BY_NAME[name].number, transform * TRANSFORM + width, rows + 1, start)


def body(*heads: Head, rest: bytes = b"") -> bytes:
    """The heads of all columns, and what stands behind them."""
    heads = tuple(sorted(heads))
    numbers = [0, *(head.number for head in heads)]
    steps = [now - before for before, now in pairwise(numbers)]
    return b"".join(
        (
            *map(VarInt.build, [*steps, 0]),
            bytes(head.coding for head in heads),
            *(VarInt.build(head.rows) for head in heads),
            *(ZigZag.build(head.start) for head in heads),
            rest,
        )
    )


# --- Bombs: few bytes that stand for much


def repeated(count: int, size: int) -> bytes:
    """One template that many strings are made of."""
    facts = facts_of(SMALL)
    columns, templates = kept(facts)
    texts = [*templates.texts, b"x" * size]
    which = np.append(templates.which, np.full(count, len(texts) - 1))
    return packed_of(facts, columns, Templates(texts, which, templates.numbers), compress=True)


def traced(count: int) -> Contents:
    """A record of many rows, each of a source of its own, which all share one text."""
    each, nothing = np.arange(count), np.zeros(count, np.int64)
    facts = deep(count)
    lines: Columns = {"node.parent": column([-1]), "node.line": column([1]), "text.node": column([0])}
    return facts.with_columns({**facts.columns, **lines, "source.line": each, "range.start": nothing})


def long_text(lines: int) -> Contents:
    """Ten rows of one source, whose text has many lines."""
    facts = deep(lines)
    few: Columns = {
        name: values[:10] if name.startswith(("row.", "range.")) else values[:1]
        for name, values in facts.columns.items()
        if name.startswith(("row.", "range.", "source."))
    }
    ten: Columns = {
        "record.rows": np.minimum(facts.columns["record.rows"], 10),
        "range.source": np.zeros(10, np.int64),
    }
    return facts.with_columns({**facts.columns, **few, **ten})


def deep(count: int) -> Contents:
    """Texts of as many lines as there are texts, of one line each and all in one tree, and a row for each."""
    facts = facts_of(SMALL)
    columns = dict(facts.columns)
    many = np.arange(count)
    nothing = np.zeros(count, np.int64)
    columns |= {
        "record.rows": column([count, *[0] * (len(columns["record.rows"]) - 1)]),
        "row.offset": many,
        "row.range": many,
        "row.line": nothing - 1,
        "row.column": many,
        "range.source": many,
        "range.start": nothing,
        "range.end": nothing,
        "range.tag": many,
        "source.text": nothing,
        "source.filename": nothing - 1,
        "source.line": many,
        "source.null": nothing,
        "text.node": column([count - 1]),
        "node.parent": many - 1,
        "node.line": nothing + 1,
    }
    return facts.with_columns(columns)
