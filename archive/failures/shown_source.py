"""The model's own source in a log → whether the model has it, too, at the same lines.

PyTorch prints the source of a failure where it has the debug records. Nothing is to be explained then, but
what is printed may be of another build than the model at hand, which would explain other failures of the same
log wrongly. A frame shows a file, the number of a line, and lines up to that one, all of which are compared.
Folders are not: each build may have its own. Nor are Python stacks, of which no line is shown.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.debuginfo.excerpt import CONTEXT
from archive.debuginfo.sites import last_part
from archive.failures.code_records import CodeLines
from archive.failures.printed import CODE_FOLDERS, FRAME_HEADER, NOT_CODE, RANGE_MARKING

if TYPE_CHECKING:
    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel

MOST_FRAMES = 64
"""Frames of a failure that are compared."""
MOST_BELOW = 64
"""Lines from a frame to the next one."""
FRAMES_KEPT = 1_024


class ShownFrame(NamedTuple):
    """A frame of the model's own source.

    Attributes:
        file: its file, without folders.
        line: the number of the line that is marked.
        shown: the lines up to that one.
    """

    file: bytes
    line: int
    shown: tuple[bytes, ...]


def frames_at(stream: LogStream, at: int) -> list[tuple[int, ShownFrame]]:
    """The frames of a failure from a line on, each with the line of the failure that begins it."""
    frames = list[tuple[int, ShownFrame]]()
    while len(frames) < MOST_FRAMES:
        header = FRAME_HEADER.fullmatch(stream.text(at, is_patient=False) or b"")
        if header is None or header["file"].startswith(CODE_FOLDERS):
            break
        below = (stream.text(at + 1 + more, is_patient=False) for more in range(MOST_BELOW))
        lines = [line or b"" for line in takewhile(lambda line: line is not None, below)]
        marked = next((n for n, line in enumerate(lines[: CONTEXT + 1]) if RANGE_MARKING.fullmatch(line)), 0)
        if marked:
            shown = tuple(lines[:marked])
            frames.append((at, ShownFrame(last_part(header["file"]), int(header["line"]), shown)))
        at += 1 + next((n for n, line in enumerate(lines) if NOT_CODE.match(line)), len(lines))
    return frames


class ModelSources:
    """The texts of a model's own source, by the names of their files without folders.

    Attributes:
        problem_of: why a frame is not of this model; "" where nothing says so.
    """

    def __init__(self, model: OneModel) -> None:
        self._sources = model.archive.range_table.sources
        self.problem_of = lru_cache(FRAMES_KEPT)(self._problem_of)
        self._texts = lru_cache(FRAMES_KEPT)(self._texts_of)

    def _texts_of(self, file: bytes) -> list[tuple[int, CodeLines]]:
        """Each text of a file once, with the number of the line before its first one."""
        sources, texts = self._sources, dict[tuple[int, bytes], CodeLines]()
        named = {
            number
            for number in set(sources.filename.tolist())
            if number >= 0 and last_part(bytes(sources.strings.data(number))) == file
        }
        for index in [at for at, number in enumerate(sources.filename.tolist()) if number in named]:
            source = sources[index]
            key = source.starting_line - 1, bytes(source.text)
            if key[1] and key not in texts:
                texts[key] = CodeLines(memoryview(key[1]))
        return [(before, lines) for (before, _), lines in texts.items()]

    def _problem_of(self, frame: ShownFrame) -> str:
        texts, shown = self._texts(frame.file), list(frame.shown)
        places = {
            before + end for before, lines in texts for end in lines.ends_of(shown, frame.line - before)
        }
        if not texts or frame.line in places:
            return ""
        here = f"{decoded(frame.file)}, line {frame.line}, "
        if not places:
            return f"{here}is another line in this archive: the log is another model's, or version's"
        nearest = min(places, key=lambda line: abs(line - frame.line))
        return f"{here}is line {nearest} in this archive: the log is another version's"
