"""The attacks that still succeed, and how. Whoever mends one removes its line: the test fails until then."""

from __future__ import annotations

NESTED = "values inside one another cost a few MiB more than the budget"
LINES = "columns of lines, 8 bytes and more an element, counted against no budget"
TEXTS = "texts are inflated and copied whatever the file's size"
SPLITS = "each split of the digits rebuilds what was found for the one before"

NOT_YET: dict[str, str] = {
    "nested": NESTED,
    "nested ranges": NESTED,
    "shared rows": "rows that are one row in the pickle are as many in columns",
    "source of newlines": LINES,
    "code of newlines": LINES,
    "long names": TEXTS,
    "equal digits": SPLITS,
    "many equal digits": SPLITS,
    "different digits": SPLITS,
    "shared key": "a method's name of any kind becomes a text, each time",
    "repeated handle": "handles on the command line are explained as often as they are given",
}
