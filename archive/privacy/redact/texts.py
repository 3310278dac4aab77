"""Paths and stack traces in texts of all kinds: comments, commands, notes.

A path is taken from its first slash to where no name of a file goes on, as ``leaks`` finds them, whatever it
leads to. Stack traces are as Python prints them; their files need not be absolute.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.privacy.leaks.paths import DRIVE, POSIX, ROOTED, TRIMMED, UNC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PATH = re.compile(
    b"|".join(
        (
            rb'(?<=File ")(?P<file>[^"\n\0]++)(?=", line \d)',
            *(one.pattern for one in (ROOTED, DRIVE, UNC, POSIX)),
        )
    )
)
FRAME = re.compile(rb'(File "[^"\n\0]++", line \d++, in [^\n\0]*+)((?:\n {4}[^\n\0]*+)+)')
"""A frame of a stack trace, and its lines of code."""
PATH_BYTES = 200
"""Bytes of memory that a path costs, with its names before and after."""
LETTER = re.compile(rb"[^ \n]")


def paths_cost(data: memoryview) -> int:
    """Bytes of memory that the paths in a text cost at most: each has two slashes."""
    text = bytes(data)
    return PATH_BYTES * (text.count(b"/") + text.count(b"\\")) // 2


def paths_in(text: bytes) -> set[bytes]:
    """The absolute paths in a text, and the files in its stack traces."""
    return {_path(one) for one in PATH.finditer(text)}


def renamed_in(text: bytes, names: Mapping[bytes, bytes]) -> bytes:
    """A text with other paths; those without a name stay."""
    return PATH.sub(lambda one: _renamed(one, names), text)


def hidden(code: bytes) -> bytes:
    """Lines of code with ``?`` in the place of each letter."""
    return LETTER.sub(b"?", code)


def without_code(text: bytes, note: Callable[[bytes], None]) -> bytes:
    """A text whose stack traces have hidden lines of code.

    Args:
        text: the text.
        note: takes each line of code.
    """

    def frame(one: re.Match[bytes]) -> bytes:
        for line in one[2].split(b"\n"):
            note(line)
        return one[1] + hidden(one[2])

    return FRAME.sub(frame, text)


def _renamed(found: re.Match[bytes], names: Mapping[bytes, bytes]) -> bytes:
    path = _path(found)
    return names[path] + found[0][len(_trimmed(found)) :] if path in names else found[0]


def _path(found: re.Match[bytes]) -> bytes:
    r"""A path as it is meant: ``\\`` is a backslash."""
    path = _trimmed(found)
    return path if b"/" in path else re.sub(rb"\\+", rb"\\", path)


def _trimmed(found: re.Match[bytes]) -> bytes:
    """A path without the end of the sentence that it stands in."""
    return found[0] if found["file"] else found[0].rstrip(TRIMMED)
