"""Gzipped logs, or ones in UTF-16 or Latin-1 → UTF-8; what is explained, back in that encoding.

PowerShell's ``>`` writes logs in UTF-16. A program in a locale without UTF-8 writes Latin-1. Only the lines
show that: one that isn't UTF-8, and has only characters of Latin-1, is in Latin-1, and so are ASCII lines
after it.
"""

from __future__ import annotations

import codecs
import re
import zlib
from itertools import chain
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.failures.log.log_line import LogLine

PIECE = 1 << 16
"""Bytes that are inflated at once."""
GZIP = b"\x1f\x8b"
GZIP_WINDOW = 31
"""zlib's word for gzip."""
MOST_INFLATED = 64 << 20
INFLATED_A_BYTE = 256
"""A gzipped log may hold this many bytes, and this many more for each of its bytes."""
HEAD = 4
"""Bytes at a log's beginning that show its encoding: a mark, or two ASCII characters."""
LITTLE = re.compile(rb"\xff\xfe|[\t-~]\0[\t-~]\0")
BIG = re.compile(rb"\xfe\xff|\0[\t-~]\0[\t-~]")
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
"""Marks of what isn't read: what is no character there could not be written as it was."""


CONTROLS = re.compile(rb"[\x80-\x9f]")
"""Text in Latin-1 has none of these."""
ASCII = bytes(range(0x80))
CONTINUING = bytes(range(0x80, 0xC0))
"""The bytes of a character of UTF-8 after its first one: a log that was cut may begin with some."""


class Latin:
    """Finds which lines of a log are in Latin-1: to be asked for each, in their order."""

    def __init__(self) -> None:
        self._is_latin = False

    def pass_by(self, lines: LogLine) -> None:
        """Note lines that stay as they are."""
        text = lines.data.lstrip(CONTINUING) if lines.number == 1 else lines.data
        if text.isascii():
            return
        stop = len(text.rstrip(ASCII))  # the last line that isn't ASCII decides, however many there are
        self._is_latin = _is_latin(text[text.rfind(b"\n", 0, stop) + 1 :])

    def read(self, line: LogLine) -> LogLine:
        """A line, in UTF-8."""
        self.pass_by(line)
        if self._is_latin:
            line.latin, line.data = line.data, line.data.decode("latin-1").encode()
        return line


def _is_latin(text: bytes) -> bool:
    try:
        text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return CONTROLS.search(text) is None
    return False


def in_latin(text: bytes) -> bool:
    """Whether a text in UTF-8 has only characters of Latin-1."""
    try:
        text.decode("utf-8").encode("latin-1")
    except UnicodeError:
        return False
    return True


def unpacked(
    log: Iterable[bytes], least: int = MOST_INFLATED, a_byte: int = INFLATED_A_BYTE
) -> Iterator[bytes]:
    """The pieces of a log, inflated where it begins as gzip does.

    Args:
        least: bytes that any log may have inflated.
        a_byte: bytes that each packed byte adds.
    """
    pieces, first = iter(log), b""
    while len(first) < len(GZIP) and GZIP.startswith(first) and (piece := next(pieces, None)) is not None:
        first += piece
    whole = chain((first,), pieces)
    return _inflated(whole, least, a_byte) if first.startswith(GZIP) else whole


def _inflated(packed: Iterable[bytes], least: int, a_byte: int) -> Iterator[bytes]:
    read = made = 0
    stream = zlib.decompressobj(GZIP_WINDOW)
    for piece in packed:
        read += len(piece)
        left = piece
        while left:
            if stream.eof:  # files that were joined, or the zeros that fill a tape's block
                left = left.lstrip(b"\0")
                if not left:
                    break
                stream = zlib.decompressobj(GZIP_WINDOW)
            try:
                text = stream.decompress(left, PIECE)
            except zlib.error as error:
                raise ArchiveError(f"no gzip in its first {read:,} bytes: {error}", file="log") from None
            left = stream.unused_data if stream.eof else stream.unconsumed_tail
            made += len(text)
            if made > least + a_byte * read:
                raise LimitError("output", least + a_byte * read, made)
            yield text
    if not stream.eof:  # copied in part, or still written to
        raise ArchiveError(f"its gzip is cut short after {read:,} bytes; the rest was not read", file="log")


def utf_16(head: bytes) -> str:
    """The kind of UTF-16 that a log begins in; "" for none."""
    return "utf-16-le" if LITTLE.match(head) else "utf-16-be" if BIG.match(head) else ""


def in_utf8(log: Iterable[bytes], explain: Callable[[Iterable[bytes]], Iterator[bytes]]) -> Iterator[bytes]:
    """A log, explained by a function that reads UTF-8, in the log's own encoding.

    Halves of surrogate pairs in UTF-16, which are no characters, stay.

    Raises:
        ArchiveError: it begins with a mark of UTF-32.
    """
    pieces, head = iter(log), b""
    while len(head) < HEAD and (piece := next(pieces, None)) is not None:
        head += piece
    if head.startswith(UTF_32):
        raise ArchiveError("it is in UTF-32, which is not read: `iconv -f UTF-32 -t UTF-8` first", file="log")
    whole = chain((head,), pieces)
    encoding = utf_16(head)
    if not encoding:
        yield from explain(whole)
        return
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def texts() -> Iterator[bytes]:
        for piece in whole:
            text = decoder.decode(piece)
            if text or not piece:
                yield text.encode("utf-8", "surrogatepass")

    explained = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    for piece in explain(texts()):
        try:
            text = explained.decode(piece)
        except UnicodeDecodeError:  # a model's source may be no UTF-8
            explained.reset()
            text = piece.decode("utf-8", "replace")
        yield text.encode(encoding, "surrogatepass")
    yield decoder.getstate()[0]
