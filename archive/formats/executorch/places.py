"""Where the data of a ``.pte`` is: segments, inline data, constants, first values, and named data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, shown
from archive.formats.executorch.layout import INLINE, SEGMENT

if TYPE_CHECKING:
    from archive.formats.executorch.model import Span
    from archive.formats.schema.flatbuffer_columns import Tables


class Places:
    """Where the data of a program is.

    Args:
        root: the program.
        base: where segments begin.
        size: of the file.
    """

    def __init__(self, root: Tables, base: int, size: int) -> None:
        _, declared = root.vectors("segments")
        starts = declared.numbers("offset").tolist()
        sizes = declared.numbers("size").tolist()
        self.segments: list[Span] = []
        end = base
        for number, (start, length) in enumerate(zip(starts, sizes, strict=True)):
            span = base + start, base + start + length
            if length and (not base or span[0] < end or span[1] > size):
                expected = f"bytes from {end:,} to {size:,}" if base else "an extended header"
                found = f"{span[0]:,} to {span[1]:,}"
                raise ArchiveError(place=f"segment {number}", expected=expected, found=found)
            self.segments.append(span)
            end = max(end, span[1])
        self._constants = self._inline(root, "constant_buffer", "storage")
        self._blobs = self._inline(root, "backend_delegate_data", "data")
        self.inline = [span for span in (*self._constants, *self._blobs) if span[0] < span[1]]
        has_constants, constants = root.tables("constant_segment")
        self._constant_offsets = self._offsets(constants) if has_constants[0] else []
        self._mutable_offsets = self._offsets(root.vectors("mutable_data_segments")[1])
        self.named = self._named(root)

    def segment(self, number: int, what: str) -> Span:
        """The segment of a number."""
        if number >= len(self.segments):
            raise ArchiveError(
                place=what, expected=f"one of {len(self.segments)} segments", found=f"{number:,}"
            )
        return self.segments[number]

    def blob(self, location: int, index: int, what: str) -> Span:
        """Where a blob is."""
        if location == SEGMENT:
            return self.segment(index, what)
        if location != INLINE or index >= len(self._blobs):
            raise ArchiveError(
                place=what, expected=f"one of {len(self._blobs)} inline blobs", found=f"{index:,}"
            )
        return self._blobs[index]

    def constant(self, number: int, size: int, what: str) -> Span:
        """Where the elements of a constant are.

        Args:
            size: their bytes.
        """
        if self._constants:
            if number < len(self._constants):
                start, stop = self._constants[number]
                return _within(start, size, stop, what)
        elif self._constant_offsets:
            return self._at(self._constant_offsets[0], number, size, what)
        raise ArchiveError(place=what, expected="a constant that the program has", found=f"{number:,}")

    def first_value(self, which: int, number: int, size: int, what: str) -> Span:
        """Where the elements are that a mutable tensor has at first."""
        if which >= len(self._mutable_offsets):
            expected = f"one of {len(self._mutable_offsets)} segments of mutable data"
            raise ArchiveError(place=what, expected=expected, found=f"{which:,}")
        return self._at(self._mutable_offsets[which], number, size, what)

    def _at(self, offsets: tuple[Span, list[int]], number: int, size: int, what: str) -> Span:
        (start, stop), places = offsets
        if number >= len(places):
            raise ArchiveError(place=what, expected=f"one of {len(places)} tensors", found=f"{number:,}")
        return _within(start + places[number], size, stop, what)

    def _inline(self, root: Tables, name: str, field: str) -> list[Span]:
        """Where the bytes in the FlatBuffer are that a vector of tables has."""
        _, tables = root.vectors(name)
        starts, counts = tables.stretches(field)
        return [*zip(starts.tolist(), (starts + counts).tolist(), strict=True)]

    def _offsets(self, tables: Tables) -> list[tuple[Span, list[int]]]:
        """The segment of each table of offsets, and these."""
        numbers = tables.numbers("segment_index").tolist()
        offsets = tables.number_vectors("offsets").lists()
        return [
            (self.segment(number, "SubsegmentOffsets.segment_index"), places)
            for number, places in zip(numbers, offsets, strict=True)
        ]

    def _named(self, root: Tables) -> dict[str, Span]:
        _, tables = root.vectors("named_data")
        numbers, texts = tables.texts("key")
        segments = tables.numbers("segment_index").tolist()
        named: dict[str, Span] = {}
        for number, index in zip(numbers.tolist(), segments, strict=True):
            key = texts[number] if number >= 0 else ""
            if key in named:
                raise ArchiveError(f"named data {shown(key)} is there twice")
            named[key] = self.segment(index, f"named data {shown(key)}")
        return named


def _within(start: int, size: int, stop: int, what: str) -> Span:
    if start + size > stop:
        found = f"{max(stop - start, 0):,}"
        raise ArchiveError(place=what, expected=f"{size:,} bytes of its data", found=found)
    return start, start + size
