"""Whether a line that PyTorch printed of redacted source stands for a line of the original.

``redact`` leaves each range on its line, so PyTorch prints as many lines as before, but for markings below
blank lines, which it leaves out. What it prints of a redacted archive that is at hand is known to the byte
(:class:`Exactly`). Of any other redaction this is known (:class:`Loosely`):

- a frame's first line has the same number and function, or its hash; the last part of the path, or ``?``;
- a line of source is the same, perhaps without its comment, or as many blanks; where no range is on it, one.

Loggers may cut blanks off the ends of lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from archive.failures.hashed_words import unhashed
from archive.failures.tracebacks import RANGE_MARKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

HEADER = re.compile(rb'(?:  )?File "(?P<file>[^\n]*)", line (?P<line>\d{1,9})(?:, in (?P<function>[^\n]*))?')
"""A frame's first line; that of a trace of ``torch.export`` may have no indentation."""
CALL = re.compile(rb"(?P<file>[^\n]+)\((?P<line>[0-9]+)\): (?P<function>[^\n]*)")
"""A line of a traced operation's Python stack: ``/home/ann/net.py(12): forward``."""
SEPARATOR = re.compile(rb"[/\\]")
NO_FILE = b"?"
GENERATED = re.compile(rb"<eval_with_key>\.\d+")


class Likeness(Protocol):
    """Tells whether lines of a log stand for lines of a text."""

    def key(self, line: bytes) -> bytes:
        """The same for a line of the log and for each line that it may stand for, if that begins a text."""

    def named(self, text: bytes) -> bytes:
        """A text of the log, with the names that hashes stand for."""

    def fits(self, shown: bytes, line: bytes) -> bool:
        """Whether a line of the log stands for one of a text."""

    def may_lack(self, line: bytes) -> bool:
        """Whether a log may lack a line of a text."""


class Exactly:
    """Lines of a log are those of a text."""

    def key(self, line: bytes) -> bytes:
        """The line without blanks at its end."""
        return line.rstrip()

    def named(self, text: bytes) -> bytes:
        """The text: it has hashes where the log has some."""
        return text

    def fits(self, shown: bytes, line: bytes) -> bool:
        """Whether a line of the log is the text's, perhaps without blanks at its end."""
        return shown in (line, line.rstrip())

    def may_lack(self, line: bytes) -> bool:  # noqa: ARG002 (of the protocol)
        """False."""
        return False


class Loosely:
    """Lines of a log may stand for those of the original in some redaction.

    Args:
        files: paths of the model's source files.
        names: names by their hashes; none where they are not known.
    """

    def __init__(self, files: Collection[bytes], names: Mapping[bytes, bytes]) -> None:
        self._files, self._names = files, names

    def key(self, line: bytes) -> bytes:
        """Line and function of a file, or the line without blanks at its end."""
        found = _header(line)
        return line.rstrip() if found is None else self.named(line[found.end("file") :]).rstrip()

    def named(self, text: bytes) -> bytes:
        """The text, with the names that hashes stand for."""
        return unhashed(text, self._names)

    def fits(self, shown: bytes, line: bytes) -> bool:
        """Whether a line of the log may stand for one of the original."""
        if shown in (line, line.rstrip()):
            return True
        if old := _header(line):
            new = _header(shown)
            is_same = new is not None and self.key(shown) == self.key(line)
            return new is not None and is_same and self.fits_path(new["file"], old["file"])
        kept = shown.rstrip()
        if not kept:
            return len(shown) in (0, 1, len(line)) and not self.may_lack(line)
        return line.startswith(kept) and line[len(kept) :].lstrip().startswith(b"#")

    def may_lack(self, line: bytes) -> bool:
        """Whether a line is a marking: there is none below blanks."""
        return RANGE_MARKING.fullmatch(line) is not None

    def fits_path(self, shown: bytes, path: bytes) -> bool:
        """Whether a path may stand for another one.

        One that is the end of a path of the model stands for no other path.
        """
        if shown in (path, NO_FILE) or _is_end(shown, path) or _is_generated(shown, path):
            return True
        return last_part(shown) == last_part(path) and not any(_is_end(shown, one) for one in self._files)


class LooselyTraced(Loosely):
    """The same of a node's stack trace, which lacks lines of code rather than having blank ones."""

    def fits(self, shown: bytes, line: bytes) -> bool:
        """Whether a line of the log may stand for one of the original."""
        return shown == line or (bool(shown.strip()) and super().fits(shown, line))

    def may_lack(self, line: bytes) -> bool:
        """Whether a line is none of a file."""
        return _header(line) is None


def last_part(path: bytes) -> bytes:
    """The last part of a path."""
    return SEPARATOR.split(path)[-1]


def _header(line: bytes) -> re.Match[bytes] | None:
    """The parts of a line that names file, line and function; None for others."""
    return HEADER.fullmatch(line) or CALL.fullmatch(line)


def is_header(line: bytes) -> bool:
    """Whether a line names file, line and function of a frame."""
    return _header(line) is not None


def _is_generated(*paths: bytes) -> bool:
    """Whether all paths are of generated code, whose numbers ``--ids anew`` changes."""
    return all(map(GENERATED.fullmatch, paths))


def _is_end(shown: bytes, path: bytes) -> bool:
    return path == shown or (path.endswith(shown) and path[-len(shown) - 1 : -len(shown)] in (b"/", b"\\"))
