"""Texts of all kinds with other paths, without comments, without lines of code.

A path reaches from its first slash to where no name of a file goes on, as ``leaks`` finds it, wherever it
leads. Stack traces are as Python prints them; their files need not be absolute. Lines of Python lose their
comments: those of a module, of a function, or a single one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.debuginfo import frames
from archive.formats.exported.traces import Trace, build_trace, parse_trace
from archive.privacy.leaks.paths import DRIVE, POSIX, ROOTED, TRIMMED, UNC
from archive.privacy.pieces.joined import Joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import Rules

# --- paths, and lines of code, in any text

PATH = re.compile(
    b"|".join(
        (
            rf'(?<={frames.BEGINNING})(?P<file>{frames.NAME})(?=", line \d)'.encode(),
            *(pattern.pattern for pattern in (ROOTED, DRIVE, UNC, POSIX)),
        )
    )
)
PATH_BYTES = 200
"""Bytes of memory that a path takes, with its names before and after."""
LETTER = re.compile(rb"[^ \n]")


def paths_cost(data: memoryview) -> int:
    """Bytes of memory that the paths in a text take at most: each has two slashes."""
    text = bytes(data)
    return PATH_BYTES * (text.count(b"/") + text.count(b"\\")) // 2


def paths_in(text: bytes) -> set[bytes]:
    """The absolute paths in a text, and the files in its stack traces."""
    return {_path(match) for match in PATH.finditer(text)}


def renamed_in(text: bytes, names: Mapping[bytes, bytes]) -> bytes:
    """A text with other paths; those without a name stay."""

    def renamed(match: re.Match[bytes]) -> bytes:
        path = _path(match)
        return names[path] + match[0][len(_trimmed(match)) :] if path in names else match[0]

    return PATH.sub(renamed, text)


def hidden(code: bytes) -> bytes:
    """Lines of code with ``?`` for each letter."""
    return LETTER.sub(b"?", code)


def without_code(text: bytes, note: Callable[[bytes], None]) -> bytes:
    """A text whose stack traces have hidden lines of code; ``note`` takes each of these lines."""

    def without(frame: re.Match[bytes]) -> bytes:
        for line in frame["code"].split(b"\n") if frame["code"] else ():
            note(line)
        return text[frame.start() : frame.start("code")] + hidden(frame["code"])

    return frames.FRAME_IN_TEXT.sub(without, text)


def _path(match: re.Match[bytes]) -> bytes:
    r"""A path as it is meant: ``\\`` is a backslash."""
    path = _trimmed(match)
    return path if b"/" in path else re.sub(rb"\\+", rb"\\", path)


def _trimmed(match: re.Match[bytes]) -> bytes:
    """A path without the end of the sentence that it stands in."""
    return match[0] if match["file"] else match[0].rstrip(TRIMMED)


# --- comments

TOKEN = re.compile(
    rb'"""(?:[^\\]|\\.)*?(?:"""|\Z)'
    rb"|'''(?:[^\\]|\\.)*?(?:'''|\Z)"
    rb'|"(?:[^"\\\n]|\\.)*"?'
    rb"|'(?:[^'\\\n]|\\.)*'?"
    rb"|(?P<comment>#)[^\n]*",
    re.DOTALL,
)
"""A text in quotes, in which a # begins no comment, or a comment."""


def without_comments(lines: Sequence[bytes]) -> list[bytes]:
    """Lines with blanks for comments; each keeps its length."""
    joined, bare = Joined(lines, b"\n"), list(lines)
    for token in TOKEN.finditer(joined.data):
        if token["comment"]:
            number, column = joined.place(token.start())
            bare[number] = lines[number][:column] + b" " * (len(lines[number]) - column)
    return bare


def comment_of(line: bytes, bare: bytes) -> bytes:
    """What replaces the last blanks of a line."""
    return line[len(bare.rstrip()) :].strip() if line != bare else b""


# --- stack traces of nodes and kernels

FILE = re.compile(frames.FILE)


def encoded(text: str) -> bytes:
    """The bytes of a text of JSON."""
    return text.encode(errors="surrogatepass")


def files_in(text: str) -> Iterable[bytes]:
    """The files in a stack trace."""
    trace = parse_trace(text)
    files = FILE.findall(text) if trace is None else [frame.file for frame in trace.frames]
    return map(encoded, files)


def redacted_trace(text: str, rules: Rules, names: Mapping[bytes, bytes], removed: Removed) -> str | None:
    """A stack trace by the rules; None, so that it goes, where it isn't as Python prints it.

    Args:
        rules: which lines of code stay.
        names: what files become.
        removed: takes the lines.
    """
    trace = parse_trace(text)
    if trace is None:
        note_gone(text, removed)
        removed.paths.update(files_in(text))
        return None
    keeps_code, frames = rules.source != "none", []
    for frame in trace.frames:
        code, mark = frame.code, frame.mark
        if rules.source == "lines" and code:
            lines = encoded(code).split(b"\n")
            bare = without_comments(lines)
            for line, kept in zip(lines, bare, strict=True):
                removed.line(comment_of(line, kept), kept=False)
            code = str(b"\n".join(bare).rstrip(), "utf-8", "surrogatepass")
            if removed.revealing.are_in(encoded(code)):
                note_gone(code, removed)
                code = mark = None
        for line in encoded(code or "").split(b"\n"):
            removed.line(line, kept=keeps_code)
        if not keeps_code:
            code = mark = None
        file = str(names[encoded(frame.file)], "utf-8", "surrogatepass")
        frames.append(frame._replace(file=file, code=code, mark=mark))
    return build_trace(Trace(tuple(frames), trace.indented, trace.ended))


def note_gone(text: str, removed: Removed) -> None:
    """Note the lines of a text that goes."""
    for line in encoded(text).split(b"\n"):
        removed.line(line, kept=False)
