"""The attacks that still succeed, and how. Whoever mends one removes its line: the test fails until then."""

from __future__ import annotations

LINES = "columns of lines, 8 bytes and more an element, counted against no budget"
TEXTS = "texts are inflated and copied whatever the file's size"

NOT_YET: dict[str, str] = {
    "shared rows": "rows that are one row in the pickle are as many in columns",
    "source of newlines": LINES,
    "code of newlines": LINES,
    "long names": TEXTS,
}
