"""The tensors of compiled models: what their C++ code tells of them, and where their bytes lie.

The bytes are in the shared object; where a compiler is still to make that, in an object file; or in a file of
their own. Without the C++ code nothing tells which bytes are which tensor's.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, in_file
from archive.formats.elf.weights import weights_span
from archive.formats.tensors.compiled import Constant, compiled_constants
from archive.reader.compiled import CompiledModel, CompiledModels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.tensors.tensor import Tensor
    from archive.reader.records import ReadableRecord, Records

WEIGHTS = (".so", ".weights.o", "_weights.blob", "_serialized_weights.bin")
"""How the names of files end that may hold weights."""


class Slice:
    """A part of a record: the storage of one constant.

    Args:
        record: the record.
        start: the first byte in the record, which is a part of its name.
        size: bytes.
    """

    def __init__(self, record: ReadableRecord, start: int, size: int) -> None:
        self._record, self._start = record, start
        self.name, self.size = f"{record.name}:{start}", size
        self.stored_size, self.compression, self.borrowed = 0, record.compression, record.borrowed

    @property
    def crc32(self) -> int:
        """Of its bytes."""
        return zlib.crc32(self.view())

    def view(self) -> memoryview:
        """Its bytes.

        Raises:
            ArchiveError: the record is broken.
        """
        return self._record.view()[self._start : self._start + self.size]


class Held(NamedTuple):
    """A constant of a compiled model.

    Attributes:
        model: the compiled model's name.
        name: the constant's.
        tensor: with the name of its storage.
        storage: its bytes.
    """

    model: str
    name: str
    tensor: Tensor
    storage: Slice


def compiled_tensors(source: Records) -> Iterator[Held]:
    """The tensors of an archive's compiled models; none where code or weights are not in the archive.

    Raises:
        ArchiveError: the code contradicts itself, or the weights.
    """
    for name, model in CompiledModels(source).items():
        constants: list[Constant] = []
        for file in model.sources:
            with in_file(source.file, model.records[file]):
                constants += compiled_constants(model.view(file), source.allowance)
        weights = _weights(source, model) if constants else None
        if weights is None:
            continue
        record, start, end = weights
        size = sum(one.size for one in constants)
        if size > end - start:
            expected = f"{size:,} bytes of weights, as its code tells"
            found = f"{end - start:,}"
            raise ArchiveError(file=source.file, record=record.name, expected=expected, found=found)
        for one in constants:
            storage = Slice(record, start + one.start, one.size)
            yield Held(name, one.name, one.tensor.in_storage(storage.name), storage)


def _weights(source: Records, model: CompiledModel) -> tuple[ReadableRecord, int, int] | None:
    """The record that holds a model's weights, their first byte, and the one behind the last."""
    for ending in reversed(WEIGHTS):  # a file of their own first: the object then has no more than their size
        for file, name in model.records.items():
            if not file.endswith(ending):
                continue
            record = source.records[name]
            if ending.endswith(("blob", "bin")):
                return record, 0, record.size
            span = weights_span(record.view())
            if span and span[1] > span[0]:
                return record, *span
    return None
