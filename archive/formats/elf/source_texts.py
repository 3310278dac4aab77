r"""What a shared object's read-only data reveals of its source: paths of source files, and stack traces.

    __FILE__      NUL '/tmp/torchinductor_ann/…/HASH.wrapper.cpp' NUL      in messages of checks that fail
    stack trace   'File "/home/ann/net.py", line 20, in forward' LF '    a = self.warm(left)' LF …

The first are in every model that AOTInductor compiles, the second in those with
``cpp.enable_kernel_profile``. Both are only printed, and nothing computes with them. So other bytes of the
same length may replace them: a shorter path gets ``./////`` before it, which leads to the same file.

Only segments that are neither written nor executed are searched, without the table of names that the loader
reads (DT_STRTAB). Other texts stay: some name files to load.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.debuginfo.frames import FRAME_IN_TEXT
from archive.formats.elf.model import DT_STRSZ, DT_STRTAB, PF_W, PF_X, PT_LOAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.elf.model import SharedObject

STRING = re.compile(rb"(?<=\0)(?:[./\\]|[A-Za-z]:[/\\])[^\x00-\x1f\x7f\"*<>|]{8,4096}+(?=\0)")
"""A text that may be a path, from the first byte of a string to the last."""
SOURCE = re.compile(rb".*(?:\.(?:h|hh|hpp|hxx|inc|inl|ipp|c|cc|cpp|cxx|cu|cuh|py)|[/\\]\?)", re.DOTALL)
"""A path of a source file, or of one without its name: see :mod:`archive.privacy.redact.compiled`."""


class ObjectText(NamedTuple):
    """A text about source.

    Attributes:
        start: its first byte in the file.
        is_path: whether it is a path rather than lines of code.
    """

    start: int
    end: int
    is_path: bool


def source_texts(data: memoryview, made: SharedObject) -> list[ObjectText]:
    """The paths of source files and lines of code in an object's read-only data, in order."""
    if not made.has_form_of_models:
        return []
    texts: list[ObjectText] = []
    for start, end in _read_only(data, made):
        for frame in FRAME_IN_TEXT.finditer(data, start, end):
            texts.append(ObjectText(*frame.span("file"), is_path=True))
            if frame["code"]:
                texts.append(ObjectText(*frame.span("code"), is_path=False))
        texts += [
            ObjectText(*string.span(), is_path=True)
            for string in STRING.finditer(data, start, end)
            if SOURCE.fullmatch(string[0])
        ]
    return sorted(texts)


def without_source_texts(data: memoryview, made: SharedObject) -> bytes:
    """The object with NUL in place of these texts."""
    changed = bytearray(data)
    for start, end, _ in source_texts(data, made):
        changed[start:end] = bytes(end - start)
    return bytes(changed)


def _read_only(data: memoryview, made: SharedObject) -> Iterator[tuple[int, int]]:
    """First byte and the byte after the last of what is neither written, executed nor read by the loader."""
    entries = made.dynamic(data)
    names = None
    if DT_STRTAB in entries and DT_STRSZ in entries:
        names = made.in_file(entries[DT_STRTAB], entries[DT_STRTAB] + entries[DT_STRSZ])
    first, last = names or (0, len(data))  # the place of the names is unknown: all of the file may be names
    for segment in made.segments:
        if segment.kind == PT_LOAD and not segment.flags & (PF_W | PF_X):
            start, end = segment.offset, segment.offset + segment.size
            yield start, min(end, max(start, first))
            yield max(start, min(end, last)), end
