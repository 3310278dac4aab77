r"""Failures in quoted strings with escapes, as in JSON, are explained there, with escapes again.

Servers log lines of JSON. Other lines have such strings, too: JSON behind a logger's prefix, ``key="value"``
pairs, a line of a JSON file that has many. A newline in one of them would break what reads the log.

Only the strings that hold a failure are written anew; all other bytes of the line stay. A string that had
other characters than ASCII in it gets them unescaped, one that had none gets ``\u`` escapes, as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.failures.beginnings import has_failure
from archive.failures.encoded_lines import outer, regions
from archive.failures.encodings import BREAK
from archive.failures.forms import quoted, unquoted
from archive.failures.lines import STRING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from archive.failures.encoded_lines import Region

    Explain = Callable[[bytes, bytes, bytes], bytes]


def explained_strings(line: bytes, explain: Explain) -> bytes | None:
    """A line with the failures in its quoted strings explained; None if there are none in them.

    Args:
        line: the line.
        explain: explains a text, given what stands before its string and behind.
    """
    pieces, at, is_found = list[bytes](), 0, False
    for one in outer(line):
        pieces += [_explained_strings(line, at, one.start, explain) or line[at : one.start]]
        pieces += [_written(line, one, explain)]
        at, is_found = one.stop, True
    rest = _explained_strings(line, at, len(line), explain)
    if rest is None and not is_found:
        return _otherwise_encoded(line, explain)
    return b"".join([*pieces, line[at:] if rest is None else rest])


def _explained_strings(line: bytes, at: int, stop: int, explain: Explain) -> bytes | None:
    """A part of a line, as :func:`explained_strings` has all of it."""
    is_found = False

    def explained(found: re.Match[bytes]) -> bytes:
        nonlocal is_found
        is_one = has_failure(found[0]) and not _is_attribute(line, found)
        text = unquoted(found[0]) if is_one else None
        if text is None:
            return found[0]
        is_found = True
        new = explain(text, line[: found.start()], line[found.end() :])
        return found[0] if new == text else quoted(new, is_ascii=found[0].isascii())

    pieces = list[bytes]()
    for found in STRING.finditer(line, at, stop):
        pieces += [line[at : found.start()], explained(found)]
        at = found.end()
    return b"".join([*pieces, line[at:stop]]) if is_found else None


def _is_attribute(line: bytes, found: re.Match[bytes]) -> bool:
    """Whether a quoted string is an attribute of XML, which has entities and no escapes."""
    is_value = line.endswith(b"=", 0, found.start())
    return is_value and b'\\"' not in found[0] and BREAK.search(found[0]) is not None


def _otherwise_encoded(line: bytes, explain: Explain) -> bytes | None:
    """The same for failures in other encodings."""
    pieces, at = list[bytes](), 0
    for region in regions(line):
        pieces += [line[at : region.start], _written(line, region, explain)]
        at = region.stop
    return b"".join([*pieces, line[at:]]) if pieces else None


def _written(line: bytes, region: Region, explain: Explain) -> bytes:
    """A part of a line with the failures in it explained."""
    text, write = region.encoded
    new = explain(text, line[: region.start], line[region.stop :])
    return line[region.start : region.stop] if new == text else write(new)
