"""Text of a log in which no failure can begin: almost all of it. It passes unread.

A failure's first line has one of a few words (``marks``), as they are or in an encoding that changes them.
"""

from __future__ import annotations

from archive.failures.log.marks import IN_PATTERNS, PATTERNS, PRINTED, WORDS


def is_quiet(lines: bytes) -> bool:
    """Whether no failure begins in whole lines, and a container runtime cut none of them."""
    return not may_be_cut(lines) and not has_failure(lines)


def may_be_cut(lines: bytes) -> bool:
    """Whether lines may have pieces that later ones continue, as a container runtime wrote them.

    Kubernetes' have ``P`` after stdout or stderr; Docker's have no line end in the text before that.
    """
    if b"std" not in lines:  # spares most logs the rest
        return False
    if b"stdout P" in lines or b"stderr P" in lines:
        return True
    ends = lines.count(b'","stream":')
    return ends > 0 and (ends != lines.count(b'\\n","stream":') or b'\\\\n","stream":' in lines)


def has_failure(text: bytes) -> bool:
    """Whether a failure may begin in a text."""
    for word in WORDS:  # any() takes twice as long on a line
        if word in text:
            return _has_mark(text)
    return False


def _has_mark(text: bytes) -> bool:
    for printed in PRINTED:
        if printed in text:
            return True
    for literal in IN_PATTERNS:
        if literal in text:
            return any(pattern.search(text) for pattern in PATTERNS)
    return False
