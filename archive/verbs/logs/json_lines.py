r"""Failures in quoted strings with escapes, as in JSON, are explained there, with escapes again.

Servers log lines of JSON. Other lines have such strings, too: JSON behind a logger's prefix, ``key="value"``
pairs, a line of a JSON file that has many. A newline in one of them would break what reads the log.

Only the strings that hold a failure are written anew; all other bytes of the line stay. A string that had
other characters than ASCII in it gets them unescaped, one that had none gets ``\u`` escapes, as before.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from archive.verbs.logs.lines import has_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MARKS = (b"Debug info for handle", b"Traceback of TorchScript")
"""Each failure has one of these in its first line."""
# One that is not closed reaches to the end, so that a line is read only once.
STRING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
ESCAPED = re.compile(rb"(?:not found\.|\(most recent call last\):)\\+n")
"""A failure that PyTorch printed with newlines, which became escapes."""


def has_failure(text: bytes) -> bool:
    """Whether there may be a failure in a text."""
    return any(mark in text for mark in MARKS)


def is_escaped(line: bytes) -> bool:
    """Whether the newlines of a line's failure are escapes, so that an explanation must not have others."""
    return ESCAPED.search(line) is not None


def explained_strings(
    line: bytes, before: Sequence[bytes], explain: Callable[[bytes, Sequence[bytes]], bytes]
) -> bytes | None:
    """A line with the failures in its quoted strings explained; None if there are none in them.

    Args:
        line: the line.
        before: the lines above it, the last one last.
        explain: explains a text, of which the lines above it are known.
    """
    is_in_string = False

    def explained(found: re.Match[bytes]) -> bytes:
        nonlocal is_in_string
        text = _string(found[0]) if has_failure(found[0]) else None
        if text is None:
            return found[0]
        is_in_string = True
        above = list(_strings_above(before, line[: found.start()]))
        return _explained(found[0], text, lambda inner: explain(inner, above))

    whole = STRING.sub(explained, line)
    return whole if is_in_string else None


def _strings_above(before: Sequence[bytes], head: bytes) -> Iterator[bytes]:
    """The strings that stand in the same place of lines above: a text may be logged a line a record.

    Args:
        before: the lines above.
        head: what stands before the string.
    """
    for line in before:
        found = STRING.match(line, len(head)) if has_shape(line, head) else None
        text = _string(found[0]) if found else None
        if text is not None:
            yield text.encode("utf-8", "surrogatepass")


def _string(literal: bytes) -> str | None:
    """The text of a quoted string; None if it is none of JSON."""
    try:
        text = json.loads(literal.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return str(text)


def _explained(literal: bytes, string: str, explain: Callable[[bytes], bytes]) -> bytes:
    """A quoted string with the failures in its text explained; the same bytes where there are none."""
    text = string.encode("utf-8", "surrogatepass")
    explained = explain(text)
    if explained == text:
        return literal
    # Half of a surrogate pair has no form in UTF-8: it stays an escape.
    dumped = json.dumps(_text(explained), ensure_ascii=literal.isascii())
    return dumped.encode("utf-8", "backslashreplace")


def _text(data: bytes) -> str:
    """Bytes as JSON can hold them; in lines that are no UTF-8, as a model's source may be, it is replaced."""
    lines = []
    for line in data.split(b"\n"):
        try:
            lines.append(line.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            lines.append(line.decode("utf-8", "replace"))
    return "\n".join(lines)
