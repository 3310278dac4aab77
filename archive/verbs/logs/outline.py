"""A traceback as far as it can be told without any archive: equal ones get equal answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.verbs.logs.lines import without_end
from archive.verbs.logs.tracebacks import CODE_FOLDERS, FRAME_HEADER, MAX_LINES, TRACEBACK_START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.verbs.logs.lines import Window

ERROR = re.compile(rb"[\w.]*(?:Error|Exception)\b")
"""The line behind a traceback: the error's name and message."""
MAX_KEY = 1 << 16
"""Bytes of a traceback that is told apart from others by all of its lines."""


class Outline:
    """The lines from a traceback's heading to its error.

    Args:
        lines: the log behind the heading.
        heading: the heading's line.

    Attributes:
        raw: the heading.
        key: the same for tracebacks of the same lines, whatever a logger writes before them.
        names: the code records that its frames name.
        has_code: whether there are some.
    """

    def __init__(self, lines: Window, heading: bytes) -> None:
        self.raw = (heading,)
        self._prefix = heading.index(b"Traceback of")
        text = b"\n".join(self._frames(lines))
        self.key = (text,)
        headers = map(FRAME_HEADER.fullmatch, text.split(b"\n"))
        files = {found["file"] for found in headers if found}
        self.names = frozenset(decoded(file) for file in files if file.startswith(CODE_FOLDERS))
        self.has_code = bool(self.names)

    def _frames(self, lines: Window) -> Iterator[bytes]:
        """The lines behind the heading, without the logger's prefix."""
        size = count = 0
        while (line := lines.take()) is not None and size < MAX_KEY and count < MAX_LINES:
            text = without_end(line)
            if not count and not FRAME_HEADER.fullmatch(text[self._prefix :]):
                self._prefix = 0
            text = text[self._prefix :]
            if ERROR.match(text) or TRACEBACK_START.fullmatch(line):
                return
            size += len(text)
            count += 1
            yield text

    def size(self, text: bytes) -> int:
        """The bytes that an explanation would have in the log."""
        return len(text)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The heading, and an explanation."""
        yield self.raw[0]
        yield text
