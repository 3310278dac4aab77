r"""Failures in quoted strings with escapes, as in JSON, are explained there, with escapes again.

Servers log lines of JSON. Other lines have such strings, too: JSON behind a logger's prefix, ``key="value"``
pairs, a line of a JSON file that has many. A newline in one of them would break what reads the log.

Only the strings that hold a failure are written anew; all other bytes of the line stay. A string that had
other characters than ASCII in it gets them unescaped, one that had none gets ``\u`` escapes, as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.verbs.logs.beginnings import has_failure
from archive.verbs.logs.forms import quoted, unquoted
from archive.verbs.logs.lines import STRING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable


def explained_strings(line: bytes, explain: Callable[[bytes, bytes, bytes], bytes]) -> bytes | None:
    """A line with the failures in its quoted strings explained; None if there are none in them.

    Args:
        line: the line.
        explain: explains a text, given what stands before its string and behind.
    """
    is_in_string = False

    def explained(found: re.Match[bytes]) -> bytes:
        nonlocal is_in_string
        text = unquoted(found[0]) if has_failure(found[0]) else None
        if text is None:
            return found[0]
        is_in_string = True
        new = explain(text, line[: found.start()], line[found.end() :])
        return found[0] if new == text else quoted(new, is_ascii=found[0].isascii())

    whole = STRING.sub(explained, line)
    return whole if is_in_string else None
