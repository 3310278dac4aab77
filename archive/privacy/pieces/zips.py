"""Where zips stand in bytes, and what no directory lists: fields of headers, records that were hidden."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ZIP_HEAD, ZIP_END = b"PK\3\4", b"PK\5\6"
END_BYTES = 22
HEADERS = re.compile(rb"PK(?:\x03\x04|\x01\x02)")
FIXED = {b"\3": (30, (26, 28)), b"\1": (46, (28, 30, 32))}
"""Bytes before the fields of a header, and where their lengths stand: name, extra fields, comment."""
METHOD, DEFLATED = 8, 8


def embedded(data: bytes) -> Iterator[tuple[int, int]]:
    """The first byte of each zip in some bytes, and the one behind its last."""
    at = data.find(ZIP_HEAD)
    while at >= 0 and (end := data.find(ZIP_END, at)) >= 0:
        end += END_BYTES + _number(data, end + END_BYTES - 2)
        yield at, end
        at = data.find(ZIP_HEAD, end)


def fields(whole: memoryview, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The bytes between two records, cut where a field of a header ends: a comment stands behind a name.

    Args:
        whole: the zip.
        start: the first byte between the records.
        end: the one behind the last.
    """
    gap, cuts = bytes(whole[start:end]), {0, end - start}
    for one in HEADERS.finditer(gap):
        at, lengths = FIXED[one[0][2:3]]
        at += one.start()
        cuts.add(one.start())
        cuts.add(at)
        for place in lengths:
            at += _number(gap, one.start() + place)
            cuts.add(at)
    found = sorted(cut for cut in cuts if cut <= end - start)
    yield from ((start + low, start + high) for low, high in pairwise(found))


def unlisted(whole: memoryview, starts: Collection[int], listed: Collection[int]) -> Iterator[int]:
    """Where deflated bytes begin behind local headers that no directory lists.

    Args:
        whole: the zip.
        starts: where fields begin between records.
        listed: where the bytes of records begin.
    """
    for start in starts:
        head = bytes(whole[start : start + FIXED[b"\3"][0]])
        if head.startswith(ZIP_HEAD) and _number(head, METHOD) == DEFLATED:
            at = start + len(head) + sum(_number(head, place) for place in FIXED[b"\3"][1])
            if at not in listed and at < len(whole):
                yield at


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")
