"""Summaries of many files → a line each, and their sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.describe.summary import Summary


def summary_text(summary: Summary) -> str:
    """Kind, size, share of debug info, handles, and release of a file."""
    parts = [str(summary.kind), *_sizes(summary.size, summary.debug_bytes, summary.handles)]
    return ", ".join([*parts, *([summary.origin] if summary.origin else [])])


def total_text(summaries: Sequence[Summary], files: int) -> str:
    """The sums of all files.

    Args:
        summaries: of the files that could be read.
        files: the number of all.
    """
    sums = zip(*((one.size, one.debug_bytes, one.handles) for one in summaries), strict=True)
    size, debug, handles = map(sum, sums) if summaries else (0, 0, 0)
    unread = files - len(summaries)
    lost = f"; {unread:,} could not be read" if unread else ""
    return f"{counted(files, 'file')}: {', '.join(_sizes(size, debug, handles))}{lost}"


def _sizes(size: int, debug: int, handles: int) -> list[str]:
    share = f" ({debug / size:.1%})" if debug else ""
    return [f"{size:,} bytes", f"{debug:,} of debug info{share}", counted(handles, "handle")]
