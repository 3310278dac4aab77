"""Companions whose few bytes stand for much: strings of one template, texts that share all their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.companion.templates import Templates
from tests.support.companion_questions import SMALL
from tests.support.halves import facts_of
from tests.support.hostile_companions import kept, packed_of
from tests.support.strategies import column

if TYPE_CHECKING:
    from archive.companion.contents import Contents
    from archive.normalform.columns import Columns


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
