r"""Rows of NumPy's texts: each has as many bytes as the longest, and those of that length end without a NUL.

So two of them seem to be one. The type says where a row ends: ``<U12`` and ``|S12``, in the header of a
``.npy`` file, or as a string of the pickle that has the bytes. In a pickle, bytes are such rows if none has a
letter after a NUL. Objects in a ``.npy`` file are a pickle.

Source: numpy/lib/format.py, version 1.0 to 3.0 of the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.patterns import pattern_of
from archive.privacy.pieces.layers import Layer, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from archive.privacy.pieces.layers import Outer

MAGIC, FIRST_VERSION = b"\x93NUMPY", 1
AFTER_VERSION = 8
WIDTH_OF_LENGTH = {True: 2, False: 4}
"""Bytes of the header's length, in the first version and in later ones."""
TYPE = pattern_of(rb"'descr': '(?P<order>[<>|=]?)(?:(?P<objects>O)|(?P<kind>[US])(?P<letters>\d{1,6}))'")
OF_TEXTS = pattern_of(rb"([US])(\d{1,6})")
LETTER = {b"U": 4, b"S": 1}
"""Bytes of a letter by kind of type."""
MOST_ROWS, MOST_TYPES = 1 << 20, 8


class RowType(NamedTuple):
    """A type of NumPy's texts.

    Attributes:
        width: bytes of a letter.
        letters: of a row.
        codec: of a letter.
    """

    width: int
    letters: int
    codec: str


class NumpyFile(NamedTuple):
    """What the header of a ``.npy`` file says.

    Attributes:
        start: the first byte after it.
        type: of texts; None for objects.
    """

    start: int
    type: RowType | None

    @property
    def has_objects(self) -> bool:
        """Whether a pickle is there."""
        return self.type is None


class RowLayer(Layer):
    """Texts of rows of one length, in UTF-8; ``starts`` has where each begins that is there first."""

    def __init__(
        self, data: bytes, counts: Mapping[bytes, int], starts: Mapping[bytes, int], width: int, outer: Outer
    ) -> None:
        super().__init__(data, counts, outer)
        self._starts, self._width = starts, width

    @property
    def first(self) -> Mapping[bytes, int]:
        """Where each text begins that is there first."""
        return self._starts

    def shift(self, raw: bytes, position: int) -> int:
        """Bytes before a position in a text, ``width`` for each letter."""
        return position if self._width == 1 else self._width * len(raw[:position].decode(errors="ignore"))


def numpy_file(data: bytes) -> NumpyFile | None:
    """The header of bytes that are a ``.npy`` file of texts or objects; None for others."""
    if not data.startswith(MAGIC) or len(data) < AFTER_VERSION + max(WIDTH_OF_LENGTH.values()):
        return None
    begin = AFTER_VERSION + WIDTH_OF_LENGTH[data[len(MAGIC)] == FIRST_VERSION]
    start = begin + int.from_bytes(data[AFTER_VERSION:begin], "little")
    described = TYPE.search(data, begin, start)
    if described is None:
        return None
    if described["objects"]:
        return NumpyFile(start, None)
    return NumpyFile(start, _type(described["kind"], described["letters"], described["order"]))


def of_texts(names: Iterable[bytes]) -> list[RowType]:
    """The types of texts among the strings of a pickle."""
    found = map(OF_TEXTS.fullmatch, names)
    return [_type(one[1], one[2]) for one in found if one is not None]


def _type(kind: bytes, letters: bytes, order: bytes = b"<") -> RowType:
    codec = "ascii" if kind == b"S" else "utf-32-be" if order == b">" else "utf-32-le"
    return RowType(LETTER[kind], int(letters), codec)


def of_file(data: bytes, file: NumpyFile, outer: Outer) -> RowLayer | None:
    """The rows of a ``.npy`` file of texts; None if they don't fit its header, or are objects."""
    return _rows(data, file.start, file.type, outer) if file.type else None


def in_pickle(data: bytes, types: Sequence[RowType], outer: Outer) -> RowLayer | None:
    """The rows that bytes of a pickle are, of one of some types; None for other bytes."""
    found = (_rows(data, 0, one, outer) for one in types[:MOST_TYPES])
    return next(filter(None, found), None)


def _rows(data: bytes, start: int, of: RowType, outer: Outer) -> RowLayer | None:
    size = of.width * of.letters
    count, rest = divmod(len(data) - start, size or 1)
    if not size or rest or not 0 < count <= MOST_ROWS:
        return None
    starts: dict[bytes, int] = {}
    texts: list[bytes] = []
    with memory.lent(len(data) + memory.TEXT * count, "rows of texts"):
        for at in range(start, len(data), size):
            row = data[at : at + size]
            try:
                text = row.rstrip(b"\0") if of.width == 1 else row.decode(of.codec).rstrip("\0").encode()
            except UnicodeError:
                return None
            if b"\0" in text:
                return None
            starts.setdefault(text, at)
            texts.append(text)
    return RowLayer(data, counted(texts), starts, of.width, outer)
