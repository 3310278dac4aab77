"""A PyTorch archive as named records: views into the file, checked once, rebuilt to the byte.

:mod:`archive.container.record` reads a record, :mod:`archive.container.headers` specifies the zip's layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.closing import Closing
from archive.base.errors import ArchiveError, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.container.deflate import MOST_PER_BYTE
from archive.container.directory import Directory, read_directory
from archive.container.record import Record, SharedFile
from archive.container.streams import Streams
from archive.io.mapped import Mapped
from archive.io.ranged import RangedBytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from archive.io.mapped import Fetched, Source

DIRECTORY = "directory"
"""The name under which the directory is kept among what was found in a file's bytes."""


class Container(Closing):
    """The records of an archive, by name, in the order of the archive's directory.

    >>> with Container.open("fixtures/oracles/plain_stack.ptl") as container:
    ...     order = container.records["byteorder"]
    ...     print(container.root, order.borrowed, bytes(order.view()))
    archive True b'little'

    Made by :meth:`open`. Use it in a ``with`` statement or call :meth:`close`. Views that are still in
    use then stay valid and keep the file mapped; a mapped file must not be truncated meanwhile.

    Attributes:
        found: what readers found in the file's bytes: see :class:`~archive.io.mapped.Mapped`.
        by_place: the file's bytes by place, read only; those of a remote file are fetched.
        allowance: the memory and sizes that the file may ask for.
        streams: the deflate streams that are made again of the records.
    """

    __slots__ = ("_mapped", "allowance", "by_place", "file", "found", "records", "root", "streams")

    def __init__(self, mapped: Mapped | Fetched, *, rooted: bool = True) -> None:
        """Read the directory of a file, unless it was read from these bytes before, and none of its records.

        Args:
            mapped: the file, mapped or read by ranges.
            rooted: refuse a zip whose files are not all in one folder, as PyTorch's are.
        """
        self.file, self.by_place, self.allowance = mapped.name, mapped.data, memory.current()
        self._mapped, self.found = mapped, mapped.found
        try:
            directory = self._directory(rooted=rooted)
        except ArchiveError as problem:
            mapped.close()
            problem.within(file=self.file)
            raise
        self.root = directory.root
        shared = SharedFile(mapped.data, mapped.name, self.allowance)
        self.records = {file.entry.name: Record(shared, file) for file in directory.files}
        self.streams = Streams(self.records)

    def _directory(self, *, rooted: bool) -> Directory:
        """The directory: asked for in the allowance each time, and read once."""
        known: Directory | None = self.found.get(DIRECTORY)
        if known is not None and (known.root or not rooted):
            memory.take(known.memory, "entries")
            return known
        placed = not self.is_elsewhere
        made = self.found[DIRECTORY] = read_directory(self.by_place, rooted=rooted, placed=placed)
        return made

    @classmethod
    def open(cls, source: Source, *, limits: Limits = DEFAULT_LIMITS, name: str | None = None) -> Self:
        """Read the directory of an archive, but none of its records.

        Args:
            source: a path, a bytes-like object, or a binary file: see :class:`~archive.io.mapped.Mapped`.
            limits: bounds on hostile input.
            name: of the file, for messages; by default the source's own.
        """
        mapped = Mapped(source, name)
        with memory.charged(limits.allowance(mapped.weight)):
            return cls(mapped)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the file's bytes are fetched when they are asked for."""
        return isinstance(self.by_place, RangedBytes)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.by_place)

    @property
    def data(self) -> memoryview:
        """The whole file, read only."""
        return self.by_place[:]

    @property
    def again(self) -> Mapped:
        """The whole file, for who opens it again: what was found in its bytes is found."""
        return Mapped(self._mapped if isinstance(self._mapped, Mapped) else self.data, self.file)

    def fetch(self, names: Iterable[str]) -> None:
        """Read some records of a remote file in few requests, for use right after; else do nothing."""
        if isinstance(self.by_place, RangedBytes):
            self.by_place.prefetch(self.records[name].span for name in names)

    def check_names(self, names: Iterable[str]) -> None:
        """Compare names with those in local headers, if these were not read yet."""
        if isinstance(self.by_place, RangedBytes):
            records = [self.records[name] for name in names]
            self.by_place.prefetch(record.head for record in records)
            for record in records:
                _ = record.place

    def check_sizes(self) -> None:
        """Refuse sizes that no deflate stream can have: until it is inflated, a size is only a claim."""
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

    def check_unchanged(self) -> None:
        """Refuse a file that was written to since it was mapped."""
        self._mapped.check_unchanged()

    def close(self) -> None:
        """Close the file; views in use stay valid. Closing twice does nothing."""
        self.streams.stop()
        for record in self.records.values():
            record._forget()  # noqa: SLF001 - the records are part of the container
        self._mapped.close()
