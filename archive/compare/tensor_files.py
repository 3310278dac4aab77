"""Files of tensors that keep no objects of Python, safetensors, GGUF, ONNX and shards, compared with others.

If only one file is of such a format, only tensors are compared, by name, dtype, shape and elements: strides,
gradients and shared storages are in no such format. Two of one format are compared in all else, too:

- metadata key by key. The keys of GGUF are the model's, since sizes and tokens are among them. The sets of
  operators of ONNX are; the writer is of the format, what else a model says of itself is extra. So is
  what safetensors and indices of shards say.
- the graph of ONNX by its bytes, in which texts and names of tensors are.

What only one format can have is reported as not compared.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from archive.base.errors import in_file, one_line
from archive.compare.changes import Change, added, changed, gone
from archive.compare.equality import equal_on_cores, same_bytes
from archive.compare.sameness import Level
from archive.compare.tensors import TensorComparison
from archive.formats.record_kinds import DATA, RecordKind
from archive.formats.tensor_files.gguf import spans_of_values
from archive.formats.tensors.pickled import CLASS, STATE, tensor_of, tensor_parts
from archive.pickles.machine import plain_value
from archive.pickles.values import DICTS, Inert
from archive.reader.recognition import SAVED_KINDS, FileKind
from archive.reader.records import INSIDE
from archive.reader.tensor_files import INDEX, ShardedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.tensor_files.described import Value
    from archive.reader.archive import Archive

PLAIN_KINDS = {FileKind.SAFETENSORS, FileKind.GGUF, FileKind.ONNX, FileKind.SHARDED}
"""Files of tensors that keep no objects of Python, or those of shards, which are not compared."""
OBJECT_KINDS = SAVED_KINDS | {FileKind.LEGACY}
"""Files that ``torch.save`` writes."""
OPERATORS = "opset_import"
WRITER = {"ir_version", "producer_name", "producer_version"}
"""Keys of ONNX's metadata that are about who wrote it."""
MOST_CHARACTERS = 60
"""Characters of a value that a row shows."""


class TensorFileComparison:
    """The comparison of two files of which one at least is of ``PLAIN_KINDS``.

    ``pairs`` are the new file's names of the tensors that both have, by the old one's.
    """

    def __init__(self, old: Archive, new: Archive, pairs: Mapping[str, str]) -> None:
        self._old, self._new, self._pairs = old, new, pairs
        self.weights = ""
        self.unchecked = [
            f"what is in {', '.join(file.tensor_file.missing)}, which is not beside {file.file}"
            for file in (old, new)
            if file.tensor_file is not None and file.tensor_file.missing
        ]

    def changes(self) -> Iterator[Change]:
        """The rows of all that is compared."""
        files = self._old, self._new
        kinds = [file.recognised.kind for file in files]
        if kinds[0] is not kinds[1]:
            yield changed(Level.FORMAT, "file", "kind", *map(str, kinds))
        if not all(file.has_code for file in files):
            self.unchecked.append("the model: a companion has none of it")
            return
        tensors = TensorComparison(*files, self._pairs, plain=True)
        yield from tensors.changes()
        self.unchecked += tensors.unchecked
        self.weights = tensors.weights()
        if kinds[0] is kinds[1]:
            yield from self._of_metadata(kinds[0])
            yield from self._of_graph()
        if kinds[0] is not kinds[1] or kinds[0] is FileKind.SHARDED:
            self.unchecked += chain.from_iterable(map(_besides_tensors, files))

    def _of_metadata(self, kind: FileKind) -> Iterator[Change]:
        old, new = (_metadata(file) for file in (self._old, self._new))
        for key in dict.fromkeys((*old, *new)):
            level = _level(kind, key)
            if key not in new:
                yield gone(level, "metadata", key, _shown(old[key]))
            elif key not in old:
                yield added(level, "metadata", key, _shown(new[key]))
            elif old[key] != new[key]:
                words = [_shown(old[key]), _shown(new[key])]
                yield changed(
                    level, "metadata", key, words[0], words[1] if words[0] != words[1] else "others"
                )
        if kind is FileKind.GGUF:
            yield from self._of_arrays([key for key in old if key in new and old[key] == new[key]])

    def _of_arrays(self, keys: list[str]) -> Iterator[Change]:
        """Values of GGUF for which the metadata has only their number."""
        if self._old.tensors.is_big_endian != self._new.tensors.is_big_endian:
            self.unchecked.append("arrays of metadata: only one file is big-endian")
            return
        old, new = (_values(file) for file in (self._old, self._new))
        for key in keys:
            if old[key] != new[key]:
                old_value = _shown(_metadata(self._old)[key])
                yield changed(Level.MODEL, "metadata", key, old_value, "others")

    def _of_graph(self) -> Iterator[Change]:
        """Records that are neither tensors nor metadata."""
        for name in self._old.records:
            if RecordKind.GRAPH is _kind_of(self._old, name) is _kind_of(self._new, name):
                was, now = self._old.records[name], self._new.records[name]
                if not same_bytes(was, now):
                    words = f"{was.size:,} bytes", f"{now.size:,}"
                    yield changed(
                        Level.MODEL, "graph", name, words[0], words[1] if was.size != now.size else "others"
                    )


def are_identical(old: Archive, new: Archive) -> bool:
    """Whether two models are the same to the byte in all of their files."""
    was, now = _files(old), _files(new)
    return len(was) == len(now) and all(map(equal_on_cores, was, now))


def _files(archive: Archive) -> list[memoryview]:
    """The bytes of each of a model's files, its own first."""
    file = archive.tensor_file
    if file is None or len(file.files) == 1:
        return [archive._source.data]  # noqa: SLF001 (the whole file)
    if isinstance(file, ShardedModel):
        return [
            file.records[INDEX].view(),
            *(view for shard in file.shards.values() for view in _files(shard)),
        ]
    others = (name for name, kind in file.kinds.items() if kind is RecordKind.EXTERNAL)
    return [file.data, *(file.records[name].view() for name in others)]


def _kind_of(archive: Archive, name: str) -> RecordKind | None:
    """The kind of a record of a file of tensors."""
    return None if archive.tensor_file is None else archive.tensor_file.kinds.get(name)


def _metadata(archive: Archive) -> Mapping[str, Value]:
    """The metadata of a file of tensors, and of each shard."""
    file = archive.tensor_file
    metadata = {} if file is None else dict(file.metadata)
    shards = file.shards if isinstance(file, ShardedModel) else {}
    for name, shard in shards.items():
        metadata |= {f"{name}{INSIDE}{key}": value for key, value in _metadata(shard).items()}
    return metadata


def _values(archive: Archive) -> dict[str, bytes]:
    """The bytes of each value of GGUF."""
    with in_file(archive.file):
        data = archive._source.data  # noqa: SLF001 (the whole file)
        return {key: bytes(data[start:stop]) for key, (start, stop) in spans_of_values(data).items()}


def _level(kind: FileKind, key: str) -> Level:
    """What a key of metadata is about."""
    if kind is FileKind.GGUF or (kind is FileKind.ONNX and key == OPERATORS):
        return Level.MODEL
    return Level.FORMAT if kind is FileKind.ONNX and key in WRITER else Level.EXTRAS


def _shown(value: Value) -> str:
    text = one_line(str(value))
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _besides_tensors(archive: Archive) -> Iterator[str]:
    """What a file has besides tensors, if that is of the model."""
    kind, file = archive.recognised.kind, archive.tensor_file
    if isinstance(file, ShardedModel):
        yield from chain.from_iterable(map(_besides_tensors, file.shards.values()))
    only = f"only {archive.file} has some"
    if kind is FileKind.ONNX:
        yield f"operators: {only}"
    elif kind is FileKind.GGUF:
        yield f"keys and values: {only}"
    elif kind not in PLAIN_KINDS and not _is_dict_of_tensors(archive):
        yield f"code, attributes and other values: {only}"


def _is_dict_of_tensors(archive: Archive) -> bool:
    """Whether a saved object is a dict with names and plain tensors, and nothing else."""
    if archive.recognised.kind not in OBJECT_KINDS:
        return False
    with in_file(archive.file, DATA):
        value, _ = plain_value(archive.records[DATA].view(), 0)
    return (
        isinstance(value, Inert)
        and value.what in DICTS
        and all(isinstance(key, str) and tensor_of(item) is not None for key, item in value.pairs)
        and all({CLASS, STATE}.isdisjoint(tensor_parts(item)) for _, item in value.pairs)
    )
