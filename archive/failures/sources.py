"""Tracebacks that show the model's own source already, and so need no explanation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.failures.code_records import CODE_FOLDERS
from archive.failures.redacted import HIERARCHY
from archive.failures.redacted_lines import CALL
from archive.failures.tracebacks import FRAME_HEADER

RETHROWN = re.compile(rb".*The following operation failed in the TorchScript interpreter\.")
"""Follows the heading of a traceback without frames: the message is one of TorchScript itself."""

if TYPE_CHECKING:
    from archive.failures.streams import Stream


def shows_source(stream: Stream, above: bytes) -> bool:
    """Whether a traceback shows source, and no generated code.

    Args:
        stream: its lines, the heading first.
        above: the line above it; empty where there is none.
    """
    first = stream.text(1, is_patient=False)
    return HIERARCHY in above or (first is not None and is_source(first))


def is_source(line: bytes) -> bool:
    """Whether a line is the first one of a frame of source, or of another failure."""
    header = FRAME_HEADER.fullmatch(line)
    if header is not None:
        return not header["file"].startswith(CODE_FOLDERS)
    return CALL.fullmatch(line) is not None or RETHROWN.fullmatch(line) is not None
