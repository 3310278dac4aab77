"""Documents that hold several lines of a log as one text: a cell of CSV, an element of XML or HTML.

A line in the middle of such a text does not show it; what opens the text stands above, what closes it below.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from archive.failures.forms import Form, recodings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_LINES = 100
"""Lines above and below that are looked at."""
OPENED = re.compile(rb'(?:^|[,;\t])"(?:[^"]|"")*\Z')
CLOSED = re.compile(rb'(?:[^"]|"")*"(?:[,;\t]|\Z)')
TAG = re.compile(rb"<(?P<mark>/|!\[CDATA\[)?(?P<name>[A-Za-z][\w:.-]*)?(?P<rest>[^<>]*)(?P<end>>|\Z)")
EMPTY = {b"br", b"hr", b"img"}


def form_of(above: Iterable[bytes], below: Callable[[int], bytes | None]) -> Form | None:
    """How a line of such a document is written; None where nothing shows that it is in one.

    Args:
        above: the lines above, the nearest first.
        below: gives a line below by its number, from 1; None behind the last one.
    """
    nearest = [*islice(above, MOST_LINES)]
    behind = [line for at in range(1, 4) if (line := below(at)) is not None]
    entities, doubled, _ = recodings()
    if not any(b"<" in line or b'"' in line for line in nearest):
        return None
    behind += [line for at in range(4, MOST_LINES) if (line := below(at)) is not None]
    if _is_in_cell(nearest, behind):
        return doubled
    return entities if _is_in_element(nearest, behind) else None


def _is_in_cell(above: list[bytes], below: list[bytes]) -> bool:
    opening = next((line for line in above if line.count(b'"') % 2), b"")
    closing = next((line for line in below if line.count(b'"') % 2), b"")
    return OPENED.search(opening) is not None and CLOSED.match(closing) is not None


def _is_in_element(above: list[bytes], below: list[bytes]) -> bool:
    """Whether the last tag above begins an element, or an attribute of it, which ends below."""
    tags = next((found for line in above if (found := [*TAG.finditer(line)])), None)
    last = tags[-1] if tags else None
    if last is None or last["mark"] or not last["name"] or last["name"] in EMPTY:
        return False
    if not last["end"]:
        return last["rest"].count(b'"') % 2 == 1 and any(b'"' in line and b">" in line for line in below)
    return not last["rest"].endswith(b"/") and any(b"</" + last["name"] in line for line in below)
