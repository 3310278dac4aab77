"""A file → its pieces: records as stored and inflated, what is between them, and what is packed in records.

Zips are found wherever they stand in bytes, and so is what no directory lists (``zip_parts``). What is
packed is read within bounds: of depth, streams, and bytes in all. The walker notes what cannot be read, and
what is beyond a bound.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, in_file, one_line
from archive.companion.magic import is_companion
from archive.container.container import Container
from archive.container.headers import LOCAL
from archive.formats.elf.weights import weights_span
from archive.formats.record_kinds import WEIGHT_KINDS, RecordKind
from archive.io.mapped import Mapped
from archive.privacy.pieces.encoded import TENSORS
from archive.privacy.pieces.joined import Joined
from archive.privacy.pieces.packed import (
    PackedStream,
    how_packed,
    is_deflate,
    packed_sections,
    streams,
    unpacked,
    unread,
)
from archive.privacy.pieces.piece import FilePiece, RecordEntry, ShiftedPlaces, everywhere, nowhere
from archive.privacy.pieces.tensor_texts import joined_texts, texts_of
from archive.privacy.pieces.wide_files import COPIES, MARKS, WIDTH, wide_text
from archive.privacy.pieces.zip_parts import Field, embedded, fields, unlisted
from archive.reader.recognition import TENSOR_KINDS, FileKind, head_kind, is_zip, kind_in, recognise_zip
from archive.reader.tensor_files import INDEX, ModelFile, ShardedModel, model_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.container.record import Record
    from archive.privacy.pieces.strings import EncodedPart
    from archive.privacy.pieces.tensors_read import TensorsRead
    from archive.reader.archive import Archive

TENSORS_HEAD = 64
"""First bytes by which a file of tensors may be recognised."""

# --- bounds

DEEPEST = 4
"""How deep nested zips, streams and base64 are read."""
MOST_STREAMS = 2_000
"""Streams of a file that are unpacked, or tried."""
SHARE = 4
"""The part of the allowed memory that all streams of a file may hold, in turn."""


class UnpackBounds:
    """Bounds on what is unpacked of a file.

    Attributes:
        problems: what could not be read as it should.
    """

    def __init__(self) -> None:
        self._bytes = memory.current().memory // SHARE
        self._streams = MOST_STREAMS
        self._has_noted_limit = False
        self.problems: list[str] = []

    @property
    def limit(self) -> int:
        """Bytes that another stream may hold."""
        return min(self._bytes, memory.current().left)

    def spend(self, work: int) -> None:
        """Note bytes that were read and made of a stream."""
        self._bytes -= work

    def may_unpack(self, name: str, depth: int) -> bool:
        """Whether another stream may be unpacked; if not, a problem says so once.

        Args:
            name: what the stream is called.
            depth: how many others it is in.
        """
        if depth >= DEEPEST:
            self.note(name, "packed too deep, not read")
            return False
        if self._streams <= 0 or self._bytes <= 0:
            if not self._has_noted_limit:
                self.note(name, "packed, not read, nor is any after it: too much in one file")
            self._has_noted_limit = True
            return False
        self._streams -= 1
        return True

    def note(self, name: str, problem: str | ArchiveError, then: str = "") -> None:
        """Note what could not be read: of an error, where in what is named, and what was done then."""
        if isinstance(problem, ArchiveError):
            name = ", ".join(part for part in (name, problem.place) if part)
            problem = f"{problem.what}{then}"
        self.problems.append(one_line(f"{name}: {problem}" if name else problem))


# --- walker

BETWEEN = "between records"
"""Stands for a record where a place has to be named and there is none."""
INSIDE = "!"
"""Stands between a record and what is in it."""
OBJECTS = ("custom_obj", "opaque_obj")
"""Parts of the names of records that lie among tensors and are pickles: ``data/constants/custom_obj_0``."""


class Walker:
    """Goes through a file.

    Args:
        deep: whether the bytes of tensors are read, too.
        tensors: has what was found in tensors of another file, and takes what is found in these.

    Attributes:
        entries: the records that were met.
        roots: the folders that all records of a zip are in.
        read: bytes that were read.
        stored: bytes of what is packed, which were given besides.
        passed_over: bytes of tensors that were not read.
        problems: what could not be read as it should, and was read as plain bytes.
    """

    def __init__(self, *, deep: bool = False, tensors: TensorsRead | None = None) -> None:
        self._deep = deep
        self._tensors = tensors
        self._bounds = UnpackBounds()
        self.entries: list[RecordEntry] = []
        self.roots: set[str] = set()
        self.read = 0
        self.stored = 0
        self.passed_over = 0
        self.problems = self._bounds.problems

    @memory.apart
    def file(self, mapped: Mapped) -> Iterator[FilePiece]:
        """The pieces of a file."""
        if is_companion(mapped.data):
            yield from self._companion(mapped.data, "", RecordKind.COMPANION)
        elif is_zip(mapped.data):
            with Container(mapped, rooted=False) as container:
                yield from self.zip(container)
        else:
            yield from self._plain(mapped.data, "", RecordKind.OTHER, 0)

    @memory.apart
    def tensor_file(self, archive: Archive, inside: str = "") -> Iterator[FilePiece]:
        """The pieces of a file of tensors that isn't a zip, and of the shards that an index names.

        Places are bytes of the file.
        """
        file = archive.tensor_file
        if isinstance(file, ShardedModel):
            for name, shard in file.shards.items():
                within = f"{inside}{name}{INSIDE}"
                if shard.tensor_file is None:
                    yield from self.zip(shard.container, within)
                else:
                    yield from self.tensor_file(shard, within)
            self.entries.append(RecordEntry(inside + INDEX, RecordKind.INDEX, file.records[INDEX].size, 0))
            yield from self._plain(file.records[INDEX].view(), inside + INDEX, RecordKind.INDEX, 0)
        elif isinstance(file, ModelFile):
            yield from self._model_file(file, inside)

    def _model_file(self, file: ModelFile, inside: str) -> Iterator[FilePiece]:
        for name, record in file.records.items():
            kind = file.kinds[name]
            self.entries.append(RecordEntry(inside + name, kind, record.size, 0))
            if kind not in WEIGHT_KINDS:
                continue
            if not self._deep:
                self.passed_over += record.size
            elif record.size:
                starts = [start for start, _ in record.spans]
                sizes = (stop - start for start, stop in record.spans)
                at = [0] if record.is_encoded else list(accumulate(sizes, initial=0))[:-1]
                yield from self._numbers(record.view(), inside + name, kind, ShiftedPlaces(at, starts))
        with in_file(file.file):
            texts = list(texts_of(file))
        for name, kind, places, are_ids in texts:
            if not places:
                continue
            with memory.part():
                memory.take(2 * sum(text.stop - text.start for text in places), "texts")
                joined = joined_texts(file.data, places)
                in_id = everywhere if are_ids else nowhere
                yield from self._plain(joined.data, inside + name, kind, 0, joined.place, in_id=in_id)

    @memory.apart
    def zip(self, container: Container, inside: str = "", depth: int = 0) -> Iterator[FilePiece]:
        """The pieces of a zip."""
        kind = recognise_zip(container, look=False).kind
        self.roots.add(container.root)
        yield from self._between(container, inside, depth)
        for record in container.records.values():
            yield from self._record(record, kind, inside, depth)

    def _between(self, container: Container, inside: str, depth: int) -> Iterator[FilePiece]:
        """The bytes of a zip that belong to no record: headers with names, padding, directory, comment.

        Names lead from the zip's own folder, so none is an absolute path, whatever letter that ends with.
        """
        whole = container.data
        end = 0
        found: list[Field] = []
        places = sorted((record.place.data, record.stored_size) for record in container.records.values())
        for start, size in [*places, (len(whole), 0)]:
            found += fields(whole, end, start)
            end = max(end, start + size)
        name = inside.removesuffix(INSIDE)
        with memory.part():
            memory.take(sum(field.end - field.start + 1 for field in found), "what is between records")
            data = memoryview(b"\0".join([*(whole[field.start : field.end] for field in found), b""]))
            at = [0, *accumulate(field.end - field.start + 1 for field in found)]
            shifted = ShiftedPlaces(at, [*(field.start for field in found), len(whole)])

            def in_name(position: int) -> bool:
                return found[bisect_right(at, position) - 1].is_name

            piece = FilePiece(name, RecordKind.OTHER, data, place=shifted, in_id=in_name)
            yield from self._texts(piece, depth)
        for place in unlisted(whole, [field.start for field in found], {start for start, _ in places}):
            stream = PackedStream("deflate", place)
            yield from self._stream(stream, whole, name or BETWEEN, RecordKind.OTHER, depth)

    def _record(self, record: Record, file: FileKind, inside: str, depth: int) -> Iterator[FilePiece]:
        kind = kind_in(file, record.name)
        name = inside + record.name
        self.entries.append(RecordEntry(name, kind, record.size, record.entry.modified))
        if not (record.size or record.stored_size):
            return
        is_tensor = kind is RecordKind.TENSOR and not _is_object(record)
        if is_tensor and not self._deep:
            self.passed_over += record.size
            return
        if record.entry.deflated:
            yield self._packed(record.raw(), name, kind)
        try:
            data = record.view()
        except LimitError:
            raise
        except ArchiveError as problem:  # damaged: what is stored is read all the same
            self._bounds.note(name, problem, "; its stored bytes were read")
            data = record.raw()
        if is_tensor:
            # A tensor's bytes begin like anything by chance: only what packs all of them counts.
            yield from self._numbers(data, name, kind)
            if how := how_packed(data):
                yield from self._stream(PackedStream(how, 0), data, name, kind, depth)
        else:
            yield from self._content(data, name, kind, depth)

    def _content(self, data: memoryview, name: str, kind: RecordKind, depth: int) -> Iterator[FilePiece]:
        """The pieces of a record: of the file that it is, or its bytes and what is in them."""
        try:
            if is_companion(data):
                yield self._packed(data, name, kind)
                yield from self._companion(data, name, kind)
                return
            if is_zip(data) and depth < DEEPEST:
                yield self._packed(data, name, kind)
                yield from self._zip_in(data, name, depth)
                return
            if TENSORS.match(data[:TENSORS_HEAD]) and (file := self._tensors_in(data, name)):
                yield self._packed(data, name, kind)
                yield from self._model_file(file, name + INSIDE)
                return
        except LimitError:
            raise
        except ArchiveError as problem:
            self._bounds.note(name, problem, "; it was read as plain bytes")
        if bytes(data[:WIDTH]) in MARKS:
            with memory.lent(COPIES * len(data), "a text in UTF-16"):
                if text := wide_text(data):
                    yield self._packed(data, name, kind)
                    yield from self._plain(memoryview(text.data), name, kind, depth, text.place)
                    return
        yield from self._plain(data, name, kind, depth)

    def _tensors_in(self, data: memoryview, name: str) -> ModelFile | None:
        """The file of tensors that a record is, if it is one."""
        mapped = Mapped(data, name)
        kind = head_kind(mapped)
        is_one = kind in TENSOR_KINDS and kind is not FileKind.SHARDED
        return model_file(mapped, kind) if is_one else None

    def _packed(self, data: memoryview, name: str, kind: RecordKind) -> FilePiece:
        """Bytes as stored."""
        self.stored += len(data)
        return FilePiece(name, kind, data, is_packed=True)

    def _zip_in(self, data: memoryview, name: str, depth: int) -> Iterator[FilePiece]:
        with Container(Mapped(data, name), rooted=False) as container:
            yield from self.zip(container, name + INSIDE, depth + 1)

    def _companion(self, data: memoryview, name: str, kind: RecordKind) -> Iterator[FilePiece]:
        """The strings of a companion, its raw records, and what followed shared objects."""
        from archive.companion.parse import parse_companion  # noqa: PLC0415 (most archives have none)

        contents = parse_companion(data)
        strings = b"\0".join(contents.strings.copies())
        with memory.part():
            memory.take(len(strings), "strings of a companion")
            yield from self._texts(FilePiece(name, kind, memoryview(strings)), 0)
        for record, raw in contents.raw_records.items():
            yield from self._plain(memoryview(raw), f"{name}{INSIDE}{record}", kind, 0)
        if tails := contents.object_tails:
            yield from self._plain(memoryview(tails), f"{name}{INSIDE}after segments", kind, 0)

    def _plain(
        self,
        data: memoryview,
        name: str,
        kind: RecordKind,
        depth: int,
        place: Callable[[int], int] = int,
        *,
        in_id: Callable[[int], bool] = nowhere,
    ) -> Iterator[FilePiece]:
        """Bytes that are neither zip nor companion, and what is in them.

        Args:
            place: as :class:`FilePiece` has it.
            in_id: as there.
        """
        weights = weights_span(data)
        if weights is not None:
            yield from self._numbers(data[slice(*weights)], name, kind, ShiftedPlaces([0], [weights[0]]))
        with memory.part():
            if weights is not None:
                memory.take(len(data), "a shared object without its weights")
                data = _without(data, *weights)
            piece = FilePiece(name, kind, data, place=place, in_id=in_id)
            yield from self._texts(piece, depth)
            how = how_packed(data) or ("deflate" if is_deflate(data) else "")
            if how:
                yield from self._stream(PackedStream(how, 0), data, name, kind, depth)
            for stream in streams(piece.bytes):
                yield from self._stream(stream, data, name, kind, depth)
            for how in unread(piece.bytes):
                self._bounds.note(name, f"{how}, which is not read")
            for at, end in embedded(piece.bytes):
                inside = f"{piece.record}{INSIDE}zip at byte {at:,}"
                if self._bounds.may_unpack(inside, depth):
                    try:
                        yield from self._zip_in(piece.data[at:end], inside, depth)
                    except LimitError:
                        raise
                    except ArchiveError as problem:
                        self._bounds.note(inside, problem)
        yield from self._sections(data, name, kind, depth)

    def _numbers(
        self, data: memoryview, name: str, kind: RecordKind, place: Callable[[int], int] = int
    ) -> Iterator[FilePiece]:
        """A tensor, or the weights that a compiled model has in its shared object."""
        if not self._deep:
            self.passed_over += len(data)
        if not self._deep or not data:
            return
        with memory.part():
            piece = FilePiece(name, kind, data, place=place, in_numbers=True)
            is_known = self._tensors is not None and self._tensors.give(piece)
            yield piece
            if self._tensors is not None and not is_known:
                self._tensors.keep(piece)
        self.read += len(data)

    def _texts(self, piece: FilePiece, depth: int) -> Iterator[FilePiece]:
        """A piece, and what base64 and the like in it stand for, which may hold such letters again."""
        self.read += len(piece.data)
        yield piece
        # What letters stand for: all texts of one way in one piece, and each file.
        encoded = piece.strings.encoded
        if depth > DEEPEST:
            if encoded:
                self._bounds.may_unpack(piece.record, depth)
            return
        for how in dict.fromkeys(part.how for part in encoded):
            texts = [part for part in encoded if part.how == how and not part.is_file]
            if texts:
                joined = Joined([part.data for part in texts], b"\0")
                name, data = f"{piece.record}{INSIDE}{how}", memoryview(joined.data)
                with memory.part():
                    place = partial(_place_in, piece, texts, joined)
                    inner = FilePiece(name, piece.kind, data, place=place)
                    yield from self._texts(inner, depth + 1)
        for part in encoded:
            inside = f"{piece.record}{INSIDE}{part.how}"
            if part.is_file and self._bounds.may_unpack(inside, depth):
                yield from self._content(memoryview(part.data), inside, piece.kind, depth + 1)

    def _stream(
        self, stream: PackedStream, data: memoryview, name: str, kind: RecordKind, depth: int
    ) -> Iterator[FilePiece]:
        """What a stream holds, if it is one."""
        inside = f"{name}{INSIDE}{stream.how}" + (f" at byte {stream.start:,}" if stream.start else "")
        if not self._bounds.may_unpack(inside, depth):
            return
        content = unpacked(stream.how, data[stream.start :], self._bounds.limit)
        self._bounds.spend(content.work)
        if (
            content.problem and not stream.start and stream.how not in ("zlib", "deflate")
        ):  # others begin so by chance
            self._bounds.note(inside, content.problem)
        if content.data:
            with memory.lent(len(content.data), "what a stream holds"):
                yield from self._content(memoryview(content.data), inside, kind, depth + 1)

    def _sections(self, data: memoryview, name: str, kind: RecordKind, depth: int) -> Iterator[FilePiece]:
        """The compressed sections of a shared object, unpacked."""
        try:
            for section in packed_sections(data):
                inside = f"{name}{INSIDE}{section.name}"
                if section.how:
                    yield from self._stream(PackedStream(section.how, 0), section.data, inside, kind, depth)
                else:
                    self._bounds.note(inside, "compressed in a way that is not known")
        except LimitError:
            raise
        except ArchiveError as problem:
            self._bounds.note(name, problem)


def _without(data: memoryview, start: int, stop: int) -> memoryview:
    """Bytes with NULs from one place to another, so that all others stay where they are."""
    return memoryview(b"".join([data[:start], bytes(stop - start), data[stop:]]))


def _place_in(piece: FilePiece, parts: Sequence[EncodedPart], joined: Joined, position: int) -> int:
    """The place of the part of a piece that a position is in."""
    return piece.place(parts[joined.number(position)].place)


def _is_object(record: Record) -> bool:
    """Whether a record among tensors is a zip or a pickle, by its first bytes and its name."""
    if any(word in record.name for word in OBJECTS):
        return True
    head = record.raw()[:64]
    if record.entry.deflated:
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(head, len(LOCAL.magic)) == LOCAL.magic
        except zlib.error:
            return True
    return head[: len(LOCAL.magic)] == LOCAL.magic
