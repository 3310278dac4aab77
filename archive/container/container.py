"""A PyTorch archive as named records: views into the file, checked once, rebuilt to the byte.

A stored record's bytes are a slice of the mapped file. A deflated one is inflated when it is first used, in
pieces and never beyond the size it declares, and kept. Of a file elsewhere, the bytes of a record are fetched
when it is first used, and its local header with them. :mod:`archive.container.headers` specifies the zip's
layout.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal

from archive.base.bounded import bounded_members
from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.limits import DEFAULT_LIMITS, Allowance, Limits
from archive.base.mapped import Mapped
from archive.base.ranged import AT_ONCE, RangedBytes
from archive.container.deflate import MOST_PER_BYTE, inflate
from archive.container.directory import Listed, Place, read_directory, read_place
from archive.container.write import Member, new_member, write_archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from archive.base.mapped import Ranged, Source
    from archive.base.ranged import Bytes

__all__ = ["Container", "Member", "Record", "member_from", "new_member", "write_archive"]

EXTRA_BYTES = 160
"""Bytes that extra fields and descriptor of PyTorch's records take at most."""


@dataclass(slots=True)
class _File:
    """The file that a container and its records share, so that they need not refer to one another.

    Attributes:
        data: its bytes.
        name: its name, for messages.
        allowance: the memory and sizes that the file may ask for.
    """

    data: Bytes
    name: str
    allowance: Allowance

    @property
    def is_elsewhere(self) -> bool:
        """Whether the bytes are fetched when they are asked for."""
        return isinstance(self.data, RangedBytes)


@bounded_members
class Record:
    """One record of an archive, made by its container.

    Attributes:
        entry: what the directory says of it.
    """

    __slots__ = ("_file", "_place", "_stop", "_view", "entry")

    def __init__(self, file: _File, listed: Listed) -> None:
        self.entry, self._place, self._stop = listed
        self._file = file
        self._view: memoryview | None = None

    def __repr__(self) -> str:
        return f"<Record {self.name!r}, {self.size} bytes, {self.compression}>"

    @property
    def name(self) -> str:
        """Its name inside of the root folder."""
        return self.entry.name

    @property
    def size(self) -> int:
        """Inflated size in bytes."""
        return self.entry.size

    @property
    def stored_size(self) -> int:
        """Size in the archive in bytes."""
        return self.entry.stored_size

    @property
    def compression(self) -> Literal["stored", "deflated"]:
        """Whether it is stored as it is, or as a deflate stream."""
        return "deflated" if self.entry.deflated else "stored"

    @property
    def crc32(self) -> int:
        """The crc32 of the inflated bytes; 0 also means that PyTorch was told not to compute it."""
        return self.entry.crc32

    @property
    def borrowed(self) -> bool:
        """Whether :meth:`view` is part of the file rather than an inflated copy."""
        return not self.entry.deflated

    @property
    def place(self) -> Place:
        """Where its stored bytes are in the file.

        Raises:
            ArchiveError: its local header contradicts the directory.
        """
        if self._place is None:
            with in_file(self._file.name, one_line(self.name)):
                self._place = read_place(self._file.data, self.entry, self._stop)
        return self._place

    @property
    def span(self) -> tuple[int, int]:
        """All of the file that is the record's: the first byte, and the one behind the last."""
        return self.entry.start, min(self.entry.least_end + EXTRA_BYTES, self._stop)

    def raw(self) -> memoryview:
        """The stored bytes, unchecked: a deflate stream if the record is deflated."""
        if self._place is None and isinstance(self._file.data, RangedBytes):
            self._file.data.prefetch([self.span])
        begin = self.place.data
        return self._file.data[begin : begin + self.entry.stored_size]

    def view(self) -> memoryview:
        """The record's bytes, read only. Inflated and checked on the first call, kept from then on.

        Raises:
            ArchiveError: the bytes do not have the size or the crc that the archive declares.
            LimitError: they would inflate to more memory than the file may cost.
        """
        if self._view is None:
            try:
                with in_file(self._file.name, one_line(self.name)):
                    self._view = self._checked()
            except ArchiveError as problem:
                where = f"byte {self.entry.start if self._place is None else self._place.data}"
                problem.within(file=self._file.name, record=one_line(self.name), place=where)
                raise
        return self._view

    def pieces(self) -> Iterator[memoryview]:
        """The record's bytes, in pieces. Of a long one in a file elsewhere, none is kept.

        Raises:
            ArchiveError: as for :meth:`view`; of a crc that is not the declared one, behind the last piece.
        """
        if self._view is not None or self.entry.deflated or not self._file.is_elsewhere:
            yield self.view()
            return
        begin, crc = self.place.data, 0
        for at in range(begin, begin + self.size, AT_ONCE):
            piece = self._file.data[at : min(at + AT_ONCE, begin + self.size)]
            crc = zlib.crc32(piece, crc)
            yield piece
        with in_file(self._file.name, one_line(self.name)):
            self._check_crc(crc)

    def _checked(self) -> memoryview:
        if self._file.is_elsewhere:
            self._file.allowance.take(self.stored_size, "fetched records")
        if not self.entry.deflated:
            return self._with_crc(self.raw())
        self._file.allowance.take(self.size, "inflated records")
        try:
            return self._with_crc(memoryview(inflate(self.raw(), self.size)).toreadonly())
        except ArchiveError:
            self._file.allowance.give(self.size)
            raise

    def _with_crc(self, view: memoryview) -> memoryview:
        self._check_crc(zlib.crc32(view))
        return view

    def _check_crc(self, found: int) -> None:
        if self.crc32 not in (found, 0):
            raise ArchiveError(expected=f"crc32 {self.crc32:#010x}", found=f"{found:#010x}")

    def _forget(self) -> None:
        self._view = None


class Container:
    """The records of an archive, by name, in the order of the archive's directory.

    >>> with Container.open("fixtures/oracles/plain_stack.ptl") as container:
    ...     order = container.records["byteorder"]
    ...     print(container.root, order.borrowed, bytes(order.view()))
    archive True b'little'

    Made by :meth:`open`. Use it in a ``with`` statement or call :meth:`close`. Views that are still in
    use then stay valid and keep the file mapped; a mapped file must not be truncated meanwhile.

    Attributes:
        file: name of the file, for messages.
        root: name of the folder that all records are in; "" where there is none.
        records: by their names inside of it.
    """

    __slots__ = ("_file", "_mapped", "file", "records", "root")

    def __init__(self, mapped: Mapped | Ranged, allowance: Allowance, *, rooted: bool = True) -> None:
        """Read the directory of a file, and none of its records.

        Args:
            mapped: the file, mapped or read by ranges.
            allowance: the memory and sizes that the file may ask for.
            rooted: refuse a zip whose files are not all in one folder, as PyTorch's are.

        Raises:
            ArchiveError: the file is no archive, or contradicts itself. Then it is closed.
        """
        self.file = mapped.name
        self._mapped = mapped
        self._file = _File(mapped.data, mapped.name, allowance)
        try:
            placed = not self.is_elsewhere
            self.root, listed = read_directory(mapped.data, allowance, rooted=rooted, placed=placed)
        except ArchiveError as problem:
            mapped.close()
            problem.within(file=self.file)
            raise
        self.records = {one.entry.name: Record(self._file, one) for one in listed}

    @classmethod
    def open(cls, source: Source, *, limits: Limits = DEFAULT_LIMITS, name: str | None = None) -> Self:
        """Read the directory of an archive, and none of its records.

        Args:
            source: a path, a bytes-like object, or a binary file: see :class:`~archive.base.mapped.Mapped`.
            limits: what hostile input may cost.
            name: of the file, for messages; by default the source's own.

        Raises:
            ArchiveError: the source is no archive, or contradicts itself.
            OSError: it cannot be read.
        """
        mapped = Mapped(source, name)
        return cls(mapped, limits.allowance(mapped.weight))

    @property
    def allowance(self) -> Allowance:
        """The memory and sizes that the file may ask for."""
        return self._file.allowance

    @property
    def is_elsewhere(self) -> bool:
        """Whether the file's bytes are fetched when they are asked for."""
        return self._file.is_elsewhere

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._file.data)

    @property
    def by_place(self) -> Bytes:
        """The file's bytes by place, read only; those of a file elsewhere are fetched."""
        return self._file.data

    @property
    def data(self) -> memoryview:
        """The whole file, read only."""
        return self._file.data[:]

    def fetch(self, names: Iterable[str]) -> None:
        """Read some records of a file elsewhere in few requests, for use right after; else do nothing.

        Raises:
            ArchiveError: they cannot be read.
        """
        if isinstance(self._file.data, RangedBytes):
            self._file.data.prefetch(self.records[name].span for name in names)

    def check_sizes(self) -> None:
        """Refuse sizes that no deflate stream can have; those that are told without inflating are claims.

        Raises:
            ArchiveError: a record is said to be longer than its stored bytes can inflate to.
        """
        for record in self.records.values():
            most = record.stored_size * MOST_PER_BYTE
            if record.entry.deflated and record.size > most:
                raise ArchiveError(
                    file=self.file,
                    record=one_line(record.name),
                    place=f"byte {record.place.data}",
                    expected=f"at most {most:,} bytes inflated of {record.stored_size:,} stored",
                    found=f"a header that claims {record.size:,}",
                )

    def rebuild(self, out: BinaryIO) -> int:
        """Write the archive anew in PyTorch's own layout, and return its length in bytes.

        Deflate streams are kept; records are neither inflated nor checked. An archive of PyTorch comes out
        the same to the byte, unless ``torch.save`` was told another storage alignment than 64.
        """
        return write_archive(out, self.root, map(member_from, self.records.values()))

    def check_unchanged(self) -> None:
        """Refuse a file that was written to since it was mapped.

        Raises:
            ArchiveError: it was.
        """
        self._mapped.check_unchanged()

    def close(self) -> None:
        """Close the file; views in use stay valid. Closing twice does nothing."""
        for record in self.records.values():
            record._forget()  # noqa: SLF001 - the records are part of the container
        self._mapped.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def member_from(record: Record) -> Member:
    """A record as it is, to be written again: its stored bytes, crc and sizes.

    Ordinary zip tools deflate even empty files. PyTorch does not, so an empty record becomes a stored one.
    """
    entry = record.entry
    return Member(
        name=entry.name,
        data=record.raw() if entry.size else memoryview(b""),
        size=entry.size,
        crc32=entry.crc32,
        deflated=entry.deflated and entry.size > 0,
        modified=entry.modified,
    )
