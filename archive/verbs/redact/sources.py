"""The texts of source ranges, line by line; those of traced operations are Python stacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.debuginfo.tables import RangeTable, SourceTable

CALL = re.compile(rb"(?P<path>[^\n]+)(?P<line>\([0-9]+\): )(?P<function>[^\n]*)")
"""A line of a traced operation's text, which is its Python stack: ``/home/ann/net.py(12): forward``."""
COPIES = 6
"""Times that a text is in memory at most: its pieces, itself, its lines, and the same of the new one."""
LINE_BYTES = 250
"""Bytes of memory that a line costs besides, before and after."""


def called(table: RangeTable, allowance: Allowance) -> set[tuple[bytes, bytes]]:
    """The Python functions in stacks of traced operations, each with its file."""
    _, texts = texts_of(table.sources, allowance)
    lines = {line for text in texts if are_calls(text) for line in text}
    return {(found["path"], found["function"]) for line in lines if (found := CALL.fullmatch(line))}


def texts_of(sources: SourceTable, allowance: Allowance) -> tuple[Ints, list[list[bytes]]]:
    """The number of each source's text (s), and the lines of each text."""
    known: dict[tuple[int, ...], int] = {}
    by_content: dict[bytes, int] = {}
    number: list[int] = []
    texts: list[list[bytes]] = []
    lengths = sources.lengths
    for at, (low, high) in enumerate(
        zip(sources.first[:-1].tolist(), sources.first[1:].tolist(), strict=True)
    ):
        pieces = tuple(sources.piece[low:high].tolist())
        if pieces not in known:
            allowance.take(COPIES * int(lengths[at]) + LINE_BYTES, "texts of sources")
            text = b"".join([bytes(sources.strings.data(one)) for one in pieces])
            if text not in by_content:
                by_content[text] = len(texts)
                allowance.take(LINE_BYTES * (text.count(b"\n") + 1), "lines of sources")
                texts.append(text.split(b"\n"))
            known[pieces] = by_content[text]
        number.append(known[pieces])
    return np.array(number, np.int64), texts


def are_calls(lines: Sequence[bytes]) -> bool:
    """Whether a text is the Python stack of a traced operation."""
    own = [line for line in lines if line]
    return bool(own) and all(map(CALL.fullmatch, own))
