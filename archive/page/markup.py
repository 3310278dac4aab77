"""Texts of strangers as HTML, and the few forms that pages without a script need: facts, badges, tables."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from archive.base.errors import for_terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FIGURE, UNBROKEN = "figure", "unbroken"
"""Classes of columns: numbers, and words that are not broken."""


def text_of(value: object) -> str:
    """A text as HTML, in one line, without invisible characters."""
    return html.escape(for_terminal(str(value).replace("\n", " ").replace("\t", " ")))


def badge(kind: str, words: str) -> str:
    """A few words in a colour: ``error``, ``warning``, ``note`` or ``well``."""
    return f'<span class="badge {kind}">{words}</span>'


def facts_list(facts: Iterable[tuple[str, str]]) -> str:
    """Facts with their titles; those that are "" are left out."""
    return f'<dl class="facts">{"".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in facts if v)}</dl>'


def notice(words: str) -> str:
    """A paragraph that stands out; "" of nothing."""
    return words and f'<p class="notice">{words}</p>'


def bullets(texts: Iterable[object]) -> str:
    """Texts as a list."""
    return f"<ul>{''.join(f'<li>{text_of(text)}</li>' for text in texts)}</ul>"


def folded(summary: str, content: str, *, is_open: bool = False) -> str:
    """Content below a line that opens it."""
    return f"<details{' open' * is_open}><summary>{summary}</summary>{content}</details>"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], kinds: Sequence[str] = ()) -> str:
    """A table of HTML in cells; where a screen is narrow, each cell is a line with its title.

    Args:
        kinds: the class of each column; "" for none.
    """
    kinds = kinds or [""] * len(titles)
    marks = [f' class="{kind}"' if kind else "" for kind in kinds]
    head = "".join(f'<th scope="col"{mark}>{title}</th>' for title, mark in zip(titles, marks, strict=True))
    columns = [f'<td{mark} data-title="{title}">' for title, mark in zip(titles, marks, strict=True)]
    body = "".join(
        f"<tr>{''.join(f'{start}{cell}</td>' for start, cell in zip(columns, row, strict=True))}</tr>"
        for row in rows
    )
    return f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
