"""What commands say of an error: one line; for a fault of this program, with what to report."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import NamedTuple

from archive.base.errors import LONGEST_CAUSE, ArchiveError, ExhaustedError, shown

TRACEBACK_VARIABLE = "DEBUG_ARCHIVE_TRACEBACK"
"""The environment variable that shows the traceback of an internal error."""
NO_SPACE = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Errors of a disk or quota without space."""
PACKAGE = __name__.partition(".")[0]


class ErrorLine(NamedTuple):
    """An error in one line.

    Attributes:
        is_internal: whether it is a fault of this program.
    """

    text: str
    is_internal: bool = False


def problem_of(error: BaseException) -> ErrorLine:
    """What a command says of an error.

    The traceback of an internal error is printed if the environment asks for it.
    """
    match error:
        case ArchiveError():
            return ErrorLine(str(error))
        case MemoryError() | RecursionError():
            return ErrorLine(str(ExhaustedError.of(error)))
        case OSError():
            name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
            if name == "-" and error.errno == errno.ENOENT:
                return ErrorLine("-: no such file; archives are read from files, not from standard input")
            return ErrorLine(f"{name}: {error.strerror}" if name else str(error))
    if os.environ.get(TRACEBACK_VARIABLE):
        import traceback  # noqa: PLC0415 (only errors need it)

        traceback.print_exception(error)
    return ErrorLine(_internal(error), is_internal=True)


def _internal(error: BaseException) -> str:
    """An internal error in one line: what to report."""
    name = f"{type(error).__name__}: {shown(str(error), LONGEST_CAUSE)}"
    words = " ".join(["debug-archive", *sys.argv[1:]])
    version = importlib.import_module(PACKAGE).__version__
    python = ".".join(map(str, sys.version_info[:3]))
    return (
        f"internal error: {name}, at {_place(error)}; please report this line: "
        f"debug-archive {version}, Python {python}, {sys.platform}, command: {words} "
        f"({TRACEBACK_VARIABLE}=1 shows the traceback)"
    )


def _place(error: BaseException) -> str:
    """The innermost line of this library in an exception's traceback."""
    import traceback  # noqa: PLC0415 (only errors need it)
    from pathlib import Path  # noqa: PLC0415 (the same)

    package = Path(__file__).parents[1]
    frames = [
        (Path(frame.filename), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(package)
    ]
    if not frames:
        return "a place outside this library"
    file, line = frames[-1]
    return f"{file.relative_to(package.parent).as_posix()}:{line}"
