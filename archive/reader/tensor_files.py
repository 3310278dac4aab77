"""Files of tensors that aren't zips, read as records and tensors; models in several files, as one.

A model may be in several files: an ONNX model has elements in files beside it, and a Hugging Face model is in
*shards* that an index names. All of them are the model: their sizes count, and their records belong to it.
The names of these begin with the file's: ``model-00001-of-00002.safetensors!/data/lm_head.weight``, and
``weights.bin!/data``, which is the whole of such a file.

Files beside the model are opened by the names that it has for them, together with it. Only their headers are
read. Where a model has no folder (bytes, a file that someone else opened), and where a file does not exist,
its tensors are described all the same, without a storage.
"""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, counted, in_file, shown
from archive.formats.record_kinds import RecordKind
from archive.formats.tensor_files.described import FileRecord
from archive.reader.recognition.kinds import FileKind, Recognised, kind_in
from archive.reader.records import INSIDE, RecordSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from archive.formats.tensor_files.described import ClassSource, TensorFile
    from archive.formats.tensors.tensor import Tensor
    from archive.io.mapped import Fetched, Mapped
    from archive.io.ranged import Bytes
    from archive.reader.archive import Archive
    from archive.reader.records import ReadableRecord

INDEX = "index"
"""The record of a model in shards that names these."""


class StoredRecord:
    """A record of a file that isn't a zip.

    Args:
        placed: where it lies.
    """

    def __init__(self, name: str, placed: FileRecord, data: Bytes, file: str) -> None:
        self.name, self.size, self.stored_size = name, placed.size, placed.stored_size
        self._placed, self._data, self._file, self.allowance = placed, data, file, memory.current()
        self._made: memoryview | None = None

    @property
    def compression(self) -> str:
        """``stored``, or ``integers`` for those in protobuf's variable form."""
        return "integers" if self._placed.width else "stored"

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The first byte of each stretch in the file, and the byte after its last."""
        return self._placed.spans

    @property
    def is_encoded(self) -> bool:
        """Whether its bytes are decoded from others, so that they have no places in the file."""
        return bool(self._placed.width)

    @property
    def borrowed(self) -> bool:
        whole = not self._placed.width and len(self._placed.spans) == 1
        return whole and isinstance(self._data, memoryview)

    @property
    def crc32(self) -> int:
        return zlib.crc32(self.view())

    def view(self) -> memoryview:
        with in_file(self._file, self.name):
            pieces = [self._data[start:stop] for start, stop in self._placed.spans]
            if not self._placed.width and len(pieces) == 1:
                return pieces[0]
            if self._made is None:
                with memory.charged(self.allowance):
                    memory.take(self.stored_size, "records in pieces")
                    whole = memoryview(b"".join(pieces))
                    self._made = self._decoded(whole) if self._placed.width else whole
            return self._made

    def _decoded(self, stored: memoryview) -> memoryview:
        from archive.formats.tensor_files.varints import DECODED_BYTES, decoded_integers, packed  # noqa: PLC0415 (few files have some)

        placed = self._placed
        memory.take(self.size, "elements")
        with memory.lent(DECODED_BYTES * placed.count, "integers"):
            elements = decoded_integers(stored, placed.width)
            if len(elements) != placed.width * placed.count:
                found = f"{len(elements) // placed.width:,}"
                raise ArchiveError(expected=f"{placed.count:,} integers", found=found)
            return (packed(elements, placed.bits) if placed.bits else elements).data.cast("B")


class ModelFile:
    """A file of tensors, and the files beside it that its tensors are in.

    Args:
        mapped: the file; it is closed with this.

    Attributes:
        own: the records in the file itself, by name.
    """

    root = ""

    def __init__(self, mapped: Mapped | Fetched, kind: FileKind, described: TensorFile) -> None:
        self._mapped, self._described, self.allowance = mapped, described, memory.current()
        self.file = mapped.name
        self.recognised = Recognised(kind, described.what)
        self.metadata, self.sources, self.padding = described.metadata, described.sources, described.padding
        self.imports = described.imports
        self.is_big_endian, self.version = described.is_big_endian, described.version
        record = partial(self._record, mapped)
        self.own = {name: record(name, part) for name, part in described.records.items()}
        self.records = dict(self.own)
        self.kinds = {name: part.kind for name, part in described.records.items()}
        self.tensors = dict(described.tensors)
        self.storages: dict[str, tuple[ReadableRecord, RecordSpan]] = {}
        self.files = {mapped.name: len(mapped.data)}
        self.missing: list[str] = []
        self._beside: list[Mapped | Fetched] = []
        self._open_others()

    def _record(self, mapped: Mapped | Fetched, name: str, placed: FileRecord) -> StoredRecord:
        return StoredRecord(name, placed, mapped.data, mapped.name)

    def _open_others(self) -> None:
        """Open the files beside this one, and give the tensors in them their storages."""
        others: dict[str, Mapped | Fetched | None] = {}
        for name, place in self._described.external.items():
            if place.file not in others:
                others[place.file] = self._opened(place.file)
            other = others[place.file]
            if other is None:
                continue
            stop = place.start + place.size
            if stop > len(other.data):
                expected, found = f"{stop:,} bytes for tensor {shown(name)}", f"{len(other.data):,}"
                raise ArchiveError(file=other.name, expected=expected, found=found)
            whole = f"{place.file}{INSIDE}data"
            storage = f"{whole}:{place.start}-{stop}"
            part = FileRecord(RecordKind.TENSOR, ((place.start, stop),))
            self.storages[storage] = (
                self._record(other, storage, part),
                RecordSpan(whole, place.start, place.size),
            )
            self.tensors[name] = self.tensors[name].in_storage(storage)

    def _opened(self, path: str) -> Mapped | Fetched | None:
        """A file beside this one, whose bytes are a record; None where it does not exist."""
        name = f"{path}{INSIDE}data"
        if name in self.records:
            raise ArchiveError(f"a tensor and a file beside it would both be {shown(name)}", file=self.file)
        other = self._mapped.beside(path)
        if other is None:
            self.missing.append(path)
            return None
        self._beside.append(other)
        if other.name in self.files:
            raise ArchiveError(f"names itself as a file beside it: {shown(path)}", file=self.file)
        self.files[other.name] = len(other.data)
        placed = FileRecord(RecordKind.EXTERNAL, ((0, len(other.data)),))
        self.records[name], self.kinds[name] = self._record(other, name, placed), placed.kind
        return other

    @property
    def size(self) -> int:
        return sum(self.files.values())

    @property
    def data(self) -> memoryview:
        return self._mapped.data[:]

    def fetch(self, names: Iterable[str]) -> None:
        """Do nothing: only the header and single tensors of a remote file are read."""

    def check_unchanged(self) -> None:
        for mapped in (self._mapped, *self._beside):
            mapped.check_unchanged()

    def close(self) -> None:
        for mapped in (self._mapped, *self._beside):
            mapped.close()


def model_file(mapped: Mapped | Fetched, kind: FileKind) -> ModelFile:
    """Open a file of tensors.

    Args:
        kind: one of ``TENSOR_KINDS``, but not an index of shards.
    """
    with ExitStack() as stack:
        stack.callback(mapped.close)
        with in_file(mapped.name):
            described = _reader(kind)(mapped.data)
        opened = ModelFile(mapped, kind, described)
        stack.pop_all()
        return opened


def _reader(kind: FileKind) -> Callable[[Bytes], TensorFile]:
    """The reader of a kind of files; only that format is imported."""
    if kind is FileKind.SAFETENSORS:
        from archive.formats.tensor_files.safetensors import read_safetensors  # noqa: PLC0415 (as said)

        return read_safetensors
    if kind is FileKind.GGUF:
        from archive.formats.tensor_files.gguf import read_gguf  # noqa: PLC0415 (as said)

        return read_gguf
    if kind is FileKind.ONNX:
        from archive.formats.tensor_files.onnx import read_onnx  # noqa: PLC0415 (as said)

        return read_onnx
    if kind is FileKind.EXECUTORCH:
        from archive.formats.tensor_files.executorch import read_executorch  # noqa: PLC0415 (as said)

        return read_executorch
    return _legacy


def _legacy(data: Bytes) -> TensorFile:
    """A file of ``torch.save`` with its tensors, each within its storage."""
    from archive.formats.tensor_files.described import take_tensor  # noqa: PLC0415 (as said)
    from archive.formats.tensor_files.legacy_save import read_legacy_save  # noqa: PLC0415 (as said)
    from archive.formats.tensors.pickled import tensors_in  # noqa: PLC0415 (as said)
    from archive.reader.recognition.saved import object_words  # noqa: PLC0415 (as said)

    with memory.part():
        file, value = read_legacy_save(data)
        tensors, words = tensors_in(value), object_words(value)
    for name, tensor in tensors.items():
        take_tensor(name)
        if tensor.record and tensor.width is not None:
            tensor.span(file.records[tensor.record].size)
    return replace(file, tensors=tensors, what=f"{words}, {file.what}")


class ShardedModel:
    """The shards that an index names, as one model.

    Args:
        mapped: the index; it is closed with this.
        opened: opens a shard.
    """

    root = ""
    padding, version = 0, None
    storages: Mapping[str, tuple[ReadableRecord, RecordSpan]] = {}
    missing: Sequence[str] = ()
    sources: Sequence[ClassSource] = ()
    imports: Sequence[str] = ()

    def __init__(self, mapped: Mapped | Fetched, opened: Callable[[Mapped | Fetched], Archive]) -> None:
        from archive.formats.tensor_files.hugging_face import read_index  # noqa: PLC0415 (few files are some)

        self._mapped, self.file, self.allowance = mapped, mapped.name, memory.current()
        self.shards: dict[str, Archive] = {}
        with ExitStack() as stack:
            stack.callback(self.close)
            with in_file(self.file):
                index = read_index(mapped.data[:])
            self.metadata = index.metadata
            whole = FileRecord(RecordKind.INDEX, ((0, len(mapped.data)),))
            self.records: dict[str, ReadableRecord] = {
                INDEX: StoredRecord(INDEX, whole, mapped.data, self.file)
            }
            self.kinds = {INDEX: whole.kind}
            self.files = {self.file: len(mapped.data)}
            self.tensors: dict[str, Tensor] = {}
            for shard, names in index.shards.items():
                self._add(shard, names, opened)
            stack.pop_all()
        what = f"a model of {counted(len(self.tensors), 'tensor')} in {counted(len(self.shards), 'shard')}"
        self.recognised = Recognised(FileKind.SHARDED, what)

    def _add(self, shard: str, names: Iterable[str], opened: Callable[[Mapped | Fetched], Archive]) -> None:
        """Open a shard, and take its records and tensors."""
        with in_file(self.file, shard):
            mapped = self._mapped.beside(shard)
            if mapped is None:
                raise ArchiveError(expected="a shard that the index names", found="no such file")
            archive = self.shards[shard] = opened(mapped)
            missing = next((name for name in names if name not in archive.tensors), None)
            if missing is not None:
                raise ArchiveError(expected=f"tensor {shown(missing)}, as the index says", found="none")
            twice = next((name for name in archive.tensors if name in self.tensors), None)
            if twice is not None:
                raise ArchiveError(f"tensor {shown(twice)} is in another shard, too")
        before = f"{shard}{INSIDE}"
        self.files[archive.file] = archive.size
        own = archive.tensor_file
        for name, record in archive.records.items():
            self.records[before + name] = record
            self.kinds[before + name] = own.kinds[name] if own else kind_in(archive.recognised.kind, name)
        self.tensors |= {name: tensor.at(before + tensor.record) for name, tensor in archive.tensors.items()}

    @property
    def is_big_endian(self) -> bool:
        orders = {archive.tensors.is_big_endian for archive in self.shards.values()}
        if len(orders) > 1:
            raise ArchiveError("some shards are big-endian, others are not", file=self.file)
        return orders == {True}

    @property
    def size(self) -> int:
        """Bytes of the index and all shards."""
        return sum(self.files.values())

    @property
    def data(self) -> memoryview:
        """Always refused: there is no single file."""
        raise ArchiveError("it is in several files: name one of them", file=self.file)

    def fetch(self, names: Iterable[str]) -> None:
        """Do nothing: only the header and single tensors of a remote file are read."""

    def check_unchanged(self) -> None:
        self._mapped.check_unchanged()
        for archive in self.shards.values():
            archive._source.check_unchanged()  # noqa: SLF001 (no name of the public class)

    def close(self) -> None:
        self._mapped.close()
        for archive in self.shards.values():
            archive.close()
