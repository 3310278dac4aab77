"""Zips wherever they stand in bytes, and what no directory lists: fields of headers, and hidden records."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from archive.base.patterns import pattern_of
from archive.container.headers import CENTRAL, DEFLATED, END, LOCAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

HEADERS = pattern_of(rb"PK(?:\x03\x04|\x01\x02)")


def embedded(data: bytes) -> Iterator[tuple[int, int]]:
    """The first byte of each zip in some bytes, and the one after its last."""
    at = data.find(LOCAL.magic)
    while at >= 0 and (end := data.find(END.magic, at)) >= 0:
        is_whole = end + END.size <= len(data)
        end += END.size + (END.read(memoryview(data), end).comment_length if is_whole else 0)
        yield at, end
        at = data.find(LOCAL.magic, end)


class Field(NamedTuple):
    """A field of a header, or what stands between two: its first byte, and the one after its last."""

    start: int
    end: int
    is_name: bool


def fields(whole: memoryview, start: int, end: int) -> list[Field]:
    """The bytes between two records, cut where a field of a header ends: a comment follows a name.

    Args:
        start: the first byte between the records.
        end: the one after the last.
    """
    gap, cuts, names = whole[start:end], {0, end - start}, set()
    for match in HEADERS.finditer(gap):
        at = match.start()
        cuts.add(at)
        lengths: tuple[int, ...] = ()
        if match[0] == LOCAL.magic and at + LOCAL.size <= len(gap):
            local = LOCAL.read(gap, at)
            at += LOCAL.size
            lengths = local.name_length, local.extra_length
        elif match[0] == CENTRAL.magic and at + CENTRAL.size <= len(gap):
            central = CENTRAL.read(gap, at)
            at += CENTRAL.size
            lengths = central.name_length, central.extra_length, central.comment_length
        if lengths and lengths[0]:
            names.add(at)
        cuts.update(accumulate(lengths, initial=at))
    inside = sorted([cut for cut in cuts if cut <= end - start])
    return [Field(start + low, start + high, low in names) for low, high in pairwise(inside)]


def unlisted(whole: memoryview, starts: Collection[int], listed: Collection[int]) -> Iterator[int]:
    """Where deflated bytes begin after local headers that no directory lists.

    Args:
        starts: where fields begin between records.
        listed: where the bytes of records begin.
    """
    first, last = LOCAL.magic[0], len(whole) - LOCAL.size
    for start in starts:
        if start <= last and whole[start] == first and whole[start : start + len(LOCAL.magic)] == LOCAL.magic:
            header = LOCAL.read(whole, start)
            at = start + LOCAL.size + header.name_length + header.extra_length
            if header.method == DEFLATED and at not in listed and at < len(whole):
                yield at
