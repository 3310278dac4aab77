r"""Lines of JSON, as servers log them: failures stand escaped inside of strings, and are explained there.

Only the strings that hold a failure are written anew; all other bytes of the line stay. A string that had
other characters than ASCII in it gets them unescaped, one that had none gets ``\u`` escapes, as before.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MARKS = (b"Debug info for handle", b"Traceback of TorchScript")
"""Each failure has one of these in its first line."""
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def has_failure(text: bytes) -> bool:
    """Whether there may be a failure in a text."""
    return any(mark in text for mark in MARKS)


def may_be_json(line: bytes) -> bool:
    """Whether a line may be an object of JSON."""
    return line.lstrip()[:1] == b"{" and line.rstrip()[-1:] == b"}"


def explained_json(line: bytes, explain: Callable[[bytes], bytes]) -> bytes | None:
    """A line of JSON with the failures in its strings explained; None if the line is none.

    Args:
        line: the line.
        explain: explains a text.
    """
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return None
    return STRING.sub(lambda found: _explained(found[0], explain), line)


def _explained(literal: bytes, explain: Callable[[bytes], bytes]) -> bytes:
    """A string of JSON with its failures explained; the same bytes where there are none."""
    if not has_failure(literal):
        return literal
    text = json.loads(literal).encode("utf-8", "surrogatepass")
    explained = explain(text)
    if explained == text:
        return literal
    return json.dumps(_text(explained), ensure_ascii=literal.isascii()).encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    """Bytes as JSON can hold them; what is no UTF-8, as a model's source may be, is replaced."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
