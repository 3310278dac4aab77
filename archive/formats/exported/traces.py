r"""``stack_trace`` of a node: the Python frames that ran when the node was made, as traceback prints them.

    Trace    = Frame*, outermost first
    Frame    = '  File "' FILE '", line ' LINE ', in ' FUNCTION '\n' Body
    Body     = nothing | '    ' CODE '\n' [Mark]
    Mark     = '    ' ' '* '~'* '^'+ '~'* '\n'     below the part of the line that ran

PyTorch's non-strict export removes the two blanks before the first frame and the last line feed; strict
export keeps both. Python 3.13 may print several lines of code; then CODE is all of them, marks included.

Source: ``traceback.StackSummary.format`` of CPython 3.11 to 3.13; ``torch/fx/proxy.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from archive.base.source_files import is_no_models
from archive.debuginfo.frames import FILE_OF_LINE

HEAD = re.compile(f"  {FILE_OF_LINE}, line (?P<line>0|[1-9][0-9]{{0,17}}), in (?P<function>[^\\n]*)")
MARK = re.compile(r"    (?P<blank> *)(?P<before>~*)(?P<at>\^+)(?P<after>~*)")
INDENT = "    "


class FrameMark(NamedTuple):
    """The mark below a line of code, in columns of a terminal.

    Attributes:
        start: blanks before the mark.
        before: tildes before the carets.
        carets: carets, below the operator or call itself.
        after: tildes after the carets.
    """

    start: int
    before: int
    carets: int
    after: int


class TraceFrame(NamedTuple):
    """A Python frame.

    Attributes:
        line: the 1-based line that ran.
        function: the function's name.
        code: the line's text without its indentation; None where none was found.
        mark: which part of the line ran; None if all of it did, or if that is not recorded.
    """

    file: str
    line: int
    function: str
    code: str | None
    mark: FrameMark | None


class Trace(NamedTuple):
    """A stack trace.

    Attributes:
        frames: outermost first.
        indented: whether the first frame is indented like the others, as strict export does.
        ended: whether the last line has a line feed.
    """

    frames: tuple[TraceFrame, ...]
    indented: bool
    ended: bool

    @property
    def of_model(self) -> TraceFrame:
        """The innermost frame outside PyTorch, or else the innermost one."""
        own = (frame for frame in reversed(self.frames) if not is_no_models(frame.file))
        return next(own, self.frames[-1])


def parse_trace(text: str) -> Trace | None:
    """A stack trace from its text; None where :func:`build_trace` would not rebuild the same text."""
    indented, ended = text.startswith("  "), text.endswith("\n")
    body = text[:-1] if ended else text
    lines = (body if indented else "  " + body).split("\n")
    heads = [at for at, line in enumerate(lines) if HEAD.fullmatch(line)]
    if not heads or heads[0]:
        return None
    frames = [_frame(lines[start:end]) for start, end in zip(heads, [*heads[1:], len(lines)], strict=True)]
    trace = Trace(tuple(frames), indented, ended)
    return trace if build_trace(trace) == text else None


def build_trace(trace: Trace) -> str:
    """The text of a stack trace."""
    text = "\n".join(map(frame_text, trace.frames))
    return (text if trace.indented else text[2:]) + "\n" * trace.ended


def frame_text(frame: TraceFrame) -> str:
    """The lines of a frame, without the last line feed."""
    text = f'  File "{frame.file}", line {frame.line}, in {frame.function}'
    if frame.code is not None:
        text += f"\n{INDENT}{frame.code}"
    if frame.mark is not None:
        start, before, carets, after = frame.mark
        text += f"\n{INDENT}{' ' * start}{'~' * before}{'^' * carets}{'~' * after}"
    return text


def _frame(lines: list[str]) -> TraceFrame:
    """A frame from its lines; one that isn't laid out as expected would not be rebuilt to the same text."""
    head, *body = lines
    match = HEAD.fullmatch(head)
    assert match is not None  # noqa: S101 (its caller looked)
    mark = None
    if len(body) == 2 and (marked := MARK.fullmatch(body[1])):  # noqa: PLR2004 (the code and its mark)
        mark = FrameMark(*(len(part) for part in marked.groups()))
        body = body[:1]
    code = "\n".join(body)[len(INDENT) :] if body else None
    return TraceFrame(match["file"], int(match["line"]), match["function"], code, mark)
