"""The Python traceback whose exception a failure is the message of.

``logging.exception`` writes one record: a line with the time, the traceback's heading, a dozen lines of
frames, and the exception's message, in which the failure begins. So the lines near a failure are those above
the heading, of the first of chained exceptions.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEADING = b"Traceback (most recent call last):"
CHAINED = (b"During handling of the above exception", b"The above exception was the direct cause")
"""Stand between the tracebacks of chained exceptions."""
MOST_LINES = 100
"""Lines above a failure in which the heading is looked for."""
MOST_TEXTS = 5
"""Lines of an exception's message above the failure in it."""
FRAME = b"  "
"""Begins the lines of frames."""


def lines_of_traceback(above: Iterable[bytes]) -> int:
    """How many of the lines above a failure are of its Python traceback; 0 without one.

    >>> lines_of_traceback([b"ValueError: x", b"    f()", b'  File "a.py", line 1', HEADING, b"12:00 failed"])
    4

    Args:
        above: the lines, the one directly above the failure first.
    """
    lines, count = list(islice(above, MOST_LINES)), 0
    if HEADING not in b"\n".join(lines):  # one search is a tenth of one in each line
        return 0
    while True:
        heading = next((at for at in range(count, len(lines)) if HEADING in lines[at]), None)
        if heading is None or not _is_one_record(lines[count:heading], lines[heading]):
            return count
        between = heading + 1
        while between < len(lines) and not lines[between].strip():
            between += 1
        if between == len(lines) or not any(words in lines[between] for words in CHAINED):
            return heading + 1
        count = between + 1


def _is_one_record(lines: Sequence[bytes], heading: bytes) -> bool:
    """Whether lines below a heading, the last one first, are frames and then a message: no other record."""
    for prefix in {heading.partition(HEADING)[0], b""}:
        start, blank = prefix + FRAME, prefix.strip()
        filled = [line for line in lines if line.strip() != blank]
        is_frame = [line.startswith(start) for line in filled]
        texts = is_frame.index(True) if True in is_frame else len(filled)
        if texts <= MOST_TEXTS and all(is_frame[texts:]):
            return True
    return False
