"""Logs in UTF-16, as PowerShell's ``>`` writes them: explained as UTF-8, written as UTF-16 again."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Explain = Callable[[Iterable[bytes]], Iterator[bytes]]

HEAD = 4
"""Bytes at a log's beginning that tell its encoding: a mark, or two ASCII characters."""
LITTLE = re.compile(rb"\xff\xfe|[\t-~]\0[\t-~]\0")
BIG = re.compile(rb"\xfe\xff|\0[\t-~]\0[\t-~]")


def in_utf8(log: Iterable[bytes], explain: Explain) -> Iterator[bytes]:
    """A log explained by what reads UTF-8, in the log's own encoding.

    Args:
        log: the log, in pieces.
        explain: explains a log.
    """
    pieces, head = iter(log), b""
    while len(head) < HEAD and (piece := next(pieces, None)) is not None:
        head += piece
    encoding = "utf-16-le" if LITTLE.match(head) else "utf-16-be" if BIG.match(head) else ""
    whole = _chained(head, pieces)
    yield from _by_utf8(whole, encoding, explain) if encoding else explain(whole)


def _chained(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _by_utf8(log: Iterable[bytes], encoding: str, explain: Explain) -> Iterator[bytes]:
    """A log in UTF-16, explained. Halves of surrogate pairs, which are no characters, stay."""
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def texts() -> Iterator[bytes]:
        for piece in log:
            text = decoder.decode(piece)
            if text or not piece:
                yield text.encode("utf-8", "surrogatepass")

    again = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    for piece in explain(texts()):
        try:
            text = again.decode(piece)
        except UnicodeDecodeError:  # a model's source may be no UTF-8
            again.reset()
            text = piece.decode("utf-8", "replace")
        yield text.encode(encoding, "surrogatepass")
    yield decoder.getstate()[0]
