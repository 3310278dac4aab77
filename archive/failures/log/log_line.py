"""A line of a log, and its end."""

from __future__ import annotations

from archive.base.quick_dataclass import dataclass


@dataclass(slots=True)
class LogLine:
    """A line of a log, or a piece of a long one, or several lines that are quiet.

    Attributes:
        data: the line, with its line end; empty for a pause.
        number: its number, from 1; the first line's, of several.
        is_whole: whether it isn't a piece.
        output: what is written in its place, where a failure above it has decided that.
        count: how many lines it is.
        cut_in: the pieces that a container runtime cut it into: the first one's bytes, and the others; None
            for a line as the log has it.
        is_torn: whether it is the first piece of a line whose others were not found, and only the whole line
            had a failure.
        latin: the line as the log has it, where the log is in Latin-1: ``data`` is UTF-8 then; else None.
    """

    data: bytes
    number: int
    is_whole: bool = True
    output: bytes | None = None
    count: int = 1
    cut_in: tuple[bytes, list[LogLine]] | None = None
    is_torn: bool = False
    latin: bytes | None = None

    def parted(self) -> tuple[LogLine, LogLine | None]:
        """The first of several lines, then the others together; None if it is one."""
        if self.count == 1:
            return self, None
        end = self.data.index(b"\n") + 1
        others = LogLine(self.data[end:], self.number + 1, count=self.count - 1)
        return LogLine(self.data[:end], self.number), others

    def written(self, text: bytes) -> bytes:
        """A text in its place: pieces stay where they were if the text is theirs, and else are dropped."""
        if text == self.data:
            whole = self.data if self.latin is None else self.latin
            return whole if self.cut_in is None else self.cut_in[0]
        for piece in self.cut_in[1] if self.cut_in else ():
            piece.output = b""
        return text if self.latin is None else text.decode("utf-8", "replace").encode("latin-1", "replace")


def ending(line: bytes) -> bytes:
    """The line end that is used in a line's log."""
    return b"\r\n" if line.endswith(b"\r\n") else b"\n"


def without_end(line: bytes) -> bytes:
    """A line without its line end."""
    return line.removesuffix(b"\n").removesuffix(b"\r")
