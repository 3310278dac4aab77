"""Stack traces of nodes and kernels with other paths, and without lines of code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.formats.exported.traces import Trace, build_trace, parse_trace
from archive.privacy.redact.comments import comment_of, without_comments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.privacy.redact.rules import Removed, Rules

FILE = re.compile(r'File "([^"\n]+)"')


def encoded(text: str) -> bytes:
    """The bytes of a text of JSON."""
    return text.encode(errors="surrogatepass")


def files_in(text: str) -> Iterable[bytes]:
    """The files in a stack trace."""
    trace = parse_trace(text)
    found = FILE.findall(text) if trace is None else [frame.file for frame in trace.frames]
    return map(encoded, found)


def redacted_trace(text: str, rules: Rules, names: Mapping[bytes, bytes], removed: Removed) -> str | None:
    """A stack trace by the rules; None where it is none as Python prints them: then it goes.

    Args:
        text: the stack trace.
        rules: which lines of code stay.
        names: what becomes of files.
        removed: takes the lines.
    """
    trace = parse_trace(text)
    if trace is None:
        note_gone(text, removed)
        removed.paths.update(files_in(text))
        return None
    bare, frames = rules.source == "none", []
    for one in trace.frames:
        frame = one._replace(file=str(names[encoded(one.file)], "utf-8", "surrogatepass"))
        if rules.source == "lines" and one.code:
            code = _without_comments(one.code, removed)
            frame = frame._replace(code=code)
            if removed.telling.tells(encoded(code)):
                note_gone(code, removed)
                frame = frame._replace(code=None, mark=None)
        for line in encoded(frame.code or "").split(b"\n"):
            removed.line(line, kept=not bare)
        frames.append(frame._replace(code=None, mark=None) if bare else frame)
    return build_trace(Trace(tuple(frames), trace.indented, trace.ended))


def _without_comments(code: str, removed: Removed) -> str:
    """The lines of a frame without their comments."""
    lines = encoded(code).split(b"\n")
    kept = without_comments(lines)
    for line, bare in zip(lines, kept, strict=True):
        removed.line(comment_of(line, bare), kept=False)
    return str(b"\n".join(kept).rstrip(), "utf-8", "surrogatepass")


def note_gone(text: str, removed: Removed) -> None:
    """Note the lines of a text that goes."""
    for line in encoded(text).split(b"\n"):
        removed.line(line, kept=False)
