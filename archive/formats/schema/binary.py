"""What construct declares, read and written: errors are :class:`ArchiveError` with the byte and the field.

Only what :mod:`.words` have no words for is declared with construct: values whose length or type another
field says.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from construct import ConstructError, StreamError

from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from construct import Construct

    from archive.io.ranged import Bytes


class Reader:
    """Bytes as construct reads them: only what is asked for is fetched or copied.

    Args:
        at: where reading begins.
    """

    def __init__(self, data: Bytes | bytes, at: int = 0) -> None:
        self._data, self._at = data, at
        self.failure: Exception | None = None
        """Why bytes couldn't be fetched: construct reports any failure as the end of the data."""

    def read(self, size: int = -1) -> bytes:
        """The next bytes, by default all; empty if fewer are left."""
        size = self.left() if size < 0 else size
        if size > self.left():
            return b""
        try:
            part = bytes(self._data[self._at : self._at + size])
        except Exception as error:
            self.failure = error
            raise
        self._at += size
        return part

    def tell(self) -> int:
        """The next byte."""
        return self._at

    def seek(self, at: int, whence: int = 0) -> int:
        """Continue at a byte, counted from the beginning, from here (1) or from the end (2)."""
        self._at = max(at + (0, self._at, len(self._data))[whence], 0)
        return self._at

    def left(self) -> int:
        """Bytes from here to the end."""
        return max(len(self._data) - self._at, 0)


def parse(declared: Construct, data: Bytes | bytes, at: int = 0, **parameters: object) -> Any:  # noqa: ANN401 (as declared)
    """The value at byte ``at``, as declared.

    Args:
        parameters: for expressions of the declaration: ``this._params.order``.
    """
    reader = Reader(data, at)
    with declared_errors(reader):
        return declared.parse_stream(reader, **parameters)


def build(declared: Construct, value: object, **parameters: object) -> bytes:
    """The bytes of a value, as declared."""
    with declared_errors():
        data: bytes = declared.build(value, **parameters)
    return data


@contextmanager
def declared_errors(reader: Reader | None = None) -> Iterator[None]:
    """Turn construct's errors into ours.

    Raises:
        Exception: why the reader's bytes couldn't be fetched.
    """
    try:
        yield
    except ConstructError as error:
        if reader and reader.failure:
            raise reader.failure from None
        byte = f"byte {reader.tell():,}" if reader else ""
        place = ", ".join(filter(None, (byte, field_path(error.path))))
        message = str(error).splitlines()[-1] if str(error) else ""
        if isinstance(error, StreamError) and reader:
            raise ArchiveError(place=place, expected="more bytes", found="the end") from None
        raise ArchiveError(message, place=place) from None


def field_path(path: str | None) -> str:
    """Construct's path to a field, worded like our places.

    Construct names a field that has a doc twice.

    >>> field_path("(parsing) -> pairs -> key -> key")
    'field pairs, field key'
    """
    return ", ".join(f"field {name}" for name, _ in groupby((path or "").split(" -> ")[1:]))
