"""The lines that PyTorch prints for a failure: headings, frames, markings, and what stands above them.

Sources: PyTorch 2.13, ``torch/csrc/jit/frontend/source_range.cpp`` for tracebacks of TorchScript,
``torch/csrc/jit/mobile/debug_info.cpp`` for debug handles and module hierarchies.
"""

from __future__ import annotations

import re

from archive.debuginfo import frames
from archive.debuginfo.symbolicate import HIERARCHY_HEADING, TRACEBACK_HEADING
from archive.formats.record_kinds import CODE_FOLDERS as CODE_FOLDER_NAMES

# PyTorch 1.11 and later print braces around handles, 1.10 none around a single handle, and 1.9 no "(s)".
HANDLES_NOT_FOUND = re.compile(
    rb"(?P<prefix>.*?)(?:  )?(?P<text>Debug info for handle(?:\(s\): |, )"
    rb"(?:debug_handles:\{(?P<joined>[-\d]+)\}|(?P<single>-?\d+)), (?:was )?not found\.)"
)
HIERARCHY = HIERARCHY_HEADING
"""Begins the line above the traceback of a handle or of a node."""

HEADING = b"Traceback of TorchScript"
"""Begins each heading of a traceback."""
WHOLE_HEADING = TRACEBACK_HEADING.removesuffix(b"\n")
TRACEBACK_START = re.compile(
    rb"(?P<prefix>.*)Traceback of TorchScript \(most recent call last\):(?P<tail>.*)"
)
SERIALIZED_START = re.compile(
    rb"(?P<prefix>.*)Traceback of TorchScript, serialized code \(most recent call last\):"
)
"""Begins a traceback that is followed by another, of the original code."""
ORIGINAL = HEADING + b", original code (most recent call last):"
HEADED = 2
"""Lines between serialized and original code: an empty one, and a heading."""

FRAME = b"  " + frames.BEGINNING.encode()
FRAME_HEADER = re.compile(rb'  (?!File ""[^,])' + frames.HEADING.encode())
"""A frame's first line, but not of a cell of CSV, whose quotes are doubled."""
RANGE_MARKING = re.compile(rb" *~+(?P<here> <--- HERE)?")
NOT_CODE = re.compile(
    FRAME + rb'|[\w.]*(?:Error|Exception)\b|(?!(?:  |def )[^"]*").*Traceback of TorchScript'
)
"""Begins a line of the log that isn't code; code may have a heading within a string."""
CODE = re.compile(rb"  |def |class |[\w.]+ = ")
"""Begins a line of generated code; after a marking no other line is part of an excerpt."""
RETHROWN = re.compile(rb".*The following operation failed in the TorchScript interpreter\.")
"""Follows the heading of a traceback without frames: the message is TorchScript's own."""
CODE_FOLDERS = tuple(folder.encode() for folder in CODE_FOLDER_NAMES)
"""The folders of code records, as tracebacks name them."""


def is_source(line: bytes) -> bool:
    """Whether a line is the first one of a frame of source, or of another failure."""
    header = FRAME_HEADER.fullmatch(line)
    if header is not None:
        return not header["file"].startswith(CODE_FOLDERS)
    return frames.BYTES_CALL.fullmatch(line) is not None or RETHROWN.fullmatch(line) is not None
