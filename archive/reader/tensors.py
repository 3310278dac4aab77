"""The tensors of an archive by name, each read as bytes when it is asked for.

Where an archive has several parts with tensors of their own, the part stands before the name:

- the module tree of a TorchScript archive: ``encoder.weight``; constants of its code: ``CONSTANTS.c0``;
  those of a lite archive's methods: ``bytecode:1.1.2.1.8``, the place in ``bytecode.pkl``
- what ``torch.save`` wrote: ``optimizer.state.0.exp_avg``
- an exported program: ``encoder.weight``, and ``NAME:encoder.weight`` unless the program is ``model``
- an older exported program and an ETRecord, which hold files of ``torch.save``: ``RECORD:encoder.weight``
- a compiled model: as an exported program of its name; if a name has both, the compiled one has the folder
  before its name: ``data/aotinductor/NAME:encoder.weight``
- a torch.package: ``model/model.pkl:encoder.weight``, and ``.data/ts_code/0:encoder.weight`` of TorchScript
- files of tensors that aren't zips: as their formats name them, see :mod:`archive.formats.tensor_files`

Sample inputs and the states of tracing are not in this list, nor are the weights of a compiled model whose
C++ code was taken out, since nothing else has their names. A compiled model's bytes are in the shared object;
in an object file, if a compiler is still to make that; or in a file of their own.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from archive.base.bounded import bounded_members
from archive.base.errors import ArchiveError, in_file
from archive.base.patterns import pattern_of
from archive.container.container import Container
from archive.container.directory import has_end
from archive.formats.record_kinds import (
    ATTRIBUTES,
    BESIDE,
    BIG_ENDIAN,
    BYTECODE,
    BYTEORDER,
    COMPILED,
    CONSTANTS,
    LEGACY_TREE,
    ONLY_PROGRAM,
    PACKAGED,
    SHARED_OBJECTS,
    RecordKind,
    kind_of,
)
from archive.formats.tensors.elements import elements
from archive.formats.tensors.pickled import script_tensors, storages_of
from archive.formats.tensors.tensor import NamedTensors
from archive.io.mapped import Mapped
from archive.reader.compiled import compiled_models
from archive.reader.recognition import (
    PACKAGE_KINDS,
    PROGRAM_KINDS,
    SAVED_KINDS,
    FileKind,
    package_tensors,
    saved_tensors,
)
from archive.reader.records import INSIDE, RecordSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from archive.formats.tensors.tensor import Tensor
    from archive.reader.compiled import CompiledModel
    from archive.reader.records import ReadableRecord, Records, TensorRecords

    Part = tuple[str, Iterable[tuple[str, Tensor]]]

HAS_NO_STORAGE = pattern_of(rb"[^Q]*\.")
"""A pickle of TorchScript that is whole and lacks ``BINPERSID``, so that it has no storage, and no tensor."""
SAVED_INSIDE = ("serialized_state_dict.pt", "serialized_constants.pt")


def parts_of_program(name: str) -> tuple[str, ...]:
    """The parts that may have the tensors of an exported program and of no other one."""
    if name == ONLY_PROGRAM:
        return ("", *SAVED_INSIDE)
    return (name, *(name + ending for ending in BESIDE[:2]))


@bounded_members
class Tensors(Mapping[str, "Tensor"]):
    """The tensors of an archive by name, in the order in which it describes them.

    >>> import archive
    >>> with archive.open("fixtures/kinds/checkpoint.pt") as opened:
    ...     weight = opened.tensors["model.fc.weight"]
    ...     print(weight.dtype, weight.shape, weight.record)
    float32 (3, 2) data/1

    Each raises :class:`~archive.ArchiveError`, naming file and record, where a record is broken.

    Args:
        container: the zip; None for a companion alone, which has no tensors.
        value: returns the inert values of a record that TorchScript pickled, which stay as they are.
        tensor_file: the source, if it isn't a zip and names its tensors itself.
    """

    def __init__(
        self,
        source: Records,
        kind: FileKind,
        container: Container | None,
        value: Callable[[str], object],
        tensor_file: TensorRecords | None = None,
    ) -> None:
        self._source, self._kind, self._container, self._value = source, kind, container, value
        self.allowance = source.allowance
        self._tensor_file = tensor_file
        self._inner: dict[str, ReadableRecord] = {}
        self._places: dict[str, RecordSpan] = {}
        self._part_names: set[str] = set()
        self._saved: dict[str, Container] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def parts(self) -> Collection[str]:
        """The names of the parts that may have tensors of their own, even if they have none."""
        _ = self._rows
        return self._part_names

    def part_of(self, name: str) -> tuple[str, str]:
        """The part that a tensor is in, and its path there: ``RECORD`` and ``encoder.weight``."""
        part, colon, path = name.partition(":")
        return (part, path) if colon and part in self.parts else ("", name)

    @cached_property
    def storages(self) -> Mapping[str, tuple[str, ...]]:
        """The records that are storages, each with the names of the tensors in it, in order."""
        storages: dict[str, list[str]] = {}
        for name, tensor in self._rows.items():
            if tensor.record:
                storages.setdefault(tensor.record, []).append(name)
        return {record: tuple(names) for record, names in storages.items()}

    @cached_property
    def is_big_endian(self) -> bool:
        """Whether the storages' bytes are big-endian."""
        if self._tensor_file is not None:
            return self._tensor_file.is_big_endian
        order = self._source.records.get(BYTEORDER)
        return order is not None and bytes(order.view()) == BIG_ENDIAN

    def storage(self, record: str) -> memoryview:
        """The bytes of a storage as they are in the file: a view of it, unless the record is deflated.

        Args:
            record: as :attr:`Tensor.record <archive.formats.tensors.tensor.Tensor.record>` names it.
        """
        return self.record(record).view()

    def record(self, name: str) -> ReadableRecord:
        """The record that is a storage."""
        _ = self._rows
        storage = self._source.records.get(name) or self._inner.get(name)
        if storage is None:
            raise ArchiveError("no such storage", file=self._source.file, record=name)
        return storage

    def place_of(self, storage: str) -> RecordSpan | None:
        """Where the bytes of a storage lie in the archive; None if the storage is missing.

        Args:
            storage: as :attr:`Tensor.record <archive.formats.tensors.tensor.Tensor.record>` names it.
        """
        _ = self._rows
        if storage in self._source.records:
            return RecordSpan(storage, 0, self._source.records[storage].size)
        return self._places.get(storage)

    def elements(self, name: str) -> Iterator[memoryview]:
        """The elements of a tensor as bytes, little-endian and in logical order, in pieces.

        Pieces are views of the file where elements are in order, otherwise copies of at most 16 MiB. Two
        tensors with equal values give equal bytes, whatever their strides and the machine that saved them.

        Raises:
            KeyError: no tensor has that name.
        """
        tensor = self._rows[name]
        with in_file(self._source.file):
            if not tensor.record:
                missing = self._tensor_file is not None and self._tensor_file.missing
                why = "in a file that is not there" if missing else "a meta tensor, which has no elements"
                raise ArchiveError(f"{name} is {why}")
            yield from elements(tensor, self.storage(tensor.record), big=self.is_big_endian)

    @cached_property
    def _rows(self) -> dict[str, Tensor]:
        named = NamedTensors()
        with in_file(self._source.file):
            for part, rows in self._parts():
                self._part_names.add(part)
                for name, tensor in rows:
                    named.add(f"{part}:{name}" if part else name, tensor)
        return named

    def _parts(self) -> Iterator[Part]:
        """The tensors of each part, which has a name unless it is the only one."""
        container, records = self._container, self._source.records
        if self._tensor_file is not None:
            for name, (storage, place) in self._tensor_file.storages.items():
                self._inner[name], self._places[name] = storage, place
            yield "", self._tensor_file.tensors.items()
            return
        if container is None:
            return
        if self._kind in SAVED_KINDS:
            yield "", saved_tensors(container).items()
        elif self._kind in PROGRAM_KINDS:
            yield from self._of_programs(container)
        elif LEGACY_TREE in records:
            from archive.formats.tensors.legacy_tree import legacy_tensors  # noqa: PLC0415 (few archives have one)

            attributes = self._value(ATTRIBUTES) if ATTRIBUTES in records else None
            with in_file(self._source.file, LEGACY_TREE):
                tree = records[LEGACY_TREE].view()
                yield "", list(legacy_tensors(tree, attributes))
        else:
            if self._kind in PACKAGE_KINDS:
                yield from ((name, rows.items()) for name, rows in package_tensors(container).items())
            yield from self._of_scripts()

    def _of_scripts(self) -> Iterator[Part]:
        """The module trees and constants of TorchScript."""
        kinds = (RecordKind.MODULES, RecordKind.CONSTANTS, RecordKind.BYTECODE)
        scripts = [name for name in self._source.records if kind_of(name) in kinds]
        # Module trees first, then constants, then bytecode.
        scripts.sort(key=lambda name: (name == BYTECODE, name.endswith(CONSTANTS), name))
        for name in scripts:
            part = name.rpartition("/")[0]
            if name == BYTECODE:
                part = BYTECODE.removesuffix(".pkl")
            folder = storages_of(name)
            is_without = HAS_NO_STORAGE.fullmatch(self._source.records[name].view()) is not None
            rows = () if is_without else script_tensors(self._value(name))
            prefix = "CONSTANTS.c" if name.endswith(CONSTANTS) else ""
            yield (
                part,
                [
                    (prefix + path, tensor.at(self.place(name, tensor.record.removeprefix(folder))))
                    for path, tensor in rows
                ],
            )

    def place(self, pickle: str, key: str) -> str:
        """The record of a storage that a pickle of TorchScript names by a key.

        PyTorch puts the storages of a pickle into a folder of its name; those of a lite archive's methods,
        from 1.9 on, are with the constants; a package has all of them in one folder. That of one that is
        missing is where PyTorch looks for it: the first folder that has others.
        """
        records = self._source.records
        own, constants = storages_of(pickle), storages_of(CONSTANTS)
        folders = (PACKAGED,) if self._kind in PACKAGE_KINDS else (own, constants)
        places = [f"{folder}{key}" for folder in (*folders, own)]
        found = next((place for place in places if place in records), None)
        if found is None and pickle == BYTECODE and not any(name.startswith(own) for name in records):
            return places[1]
        return found or places[0]

    def _of_programs(self, container: Container) -> Iterator[Part]:
        """The weights and constants of exported programs."""
        from archive.formats.tensors.exported import TABLE, exported_tensors  # noqa: PLC0415 (many files have none)

        for name, record in container.records.items():
            table = TABLE.fullmatch(name)
            if table:
                with in_file(self._source.file, name):
                    rows = list(exported_tensors(name, record.view()))
                yield "" if table[2] == ONLY_PROGRAM else table[2], rows
            elif self.is_saved(name):
                yield name, self._of_inner(record)
        programs = {table[2] for table in map(TABLE.fullmatch, container.records) if table}
        if any(name.startswith(COMPILED) for name in self._source.records):
            for model, constants in _compiled_tensors(self._source):
                self._inner |= {storage.name: storage for _, _, storage in constants}
                self._places |= {storage.name: storage.place for _, _, storage in constants}
                part = f"{COMPILED}{model}" if model in programs else model
                yield "" if part == ONLY_PROGRAM else part, [(name, tensor) for name, tensor, _ in constants]

    def _of_inner(self, record: ReadableRecord) -> Iterator[tuple[str, Tensor]]:
        """The tensors of a record that ``torch.save`` wrote."""
        inner = self.saved(record.name)
        for name, tensor in saved_tensors(inner).items():
            place = f"{record.name}{INSIDE}{tensor.record}"
            if tensor.record in inner.records:
                storage = self._inner[place] = inner.records[tensor.record]
                self._places[place] = RecordSpan(record.name, storage.place.data, storage.stored_size)
            yield name, tensor.at(place)

    def is_saved(self, name: str) -> bool:
        """Whether a record of a program is a zip that ``torch.save`` wrote, with tensors of the program."""
        if self._kind not in PROGRAM_KINDS:
            return False
        return name in SAVED_INSIDE or (
            name.endswith(BESIDE[:2]) and has_end(self._source.records[name].view())
        )

    def saved(self, name: str) -> Container:
        """The zip that such a record is."""
        if name not in self._saved:
            file = Mapped(self._source.records[name].view(), f"{self._source.file}: {name}")
            self._saved[name] = Container(file)
        return self._saved[name]


# --- compiled models

WEIGHTS = (*SHARED_OBJECTS, ".weights.o", "_weights.blob", "_serialized_weights.bin")
"""Endings of names of files that may hold weights."""


class Slice:
    """A part of a record: the storage of one constant.

    Args:
        start: the first byte in the record; its name contains it.
    """

    def __init__(self, record: ReadableRecord, start: int, size: int) -> None:
        self._record, self._start = record, start
        self.name, self.size = f"{record.name}:{start}", size
        self.place = RecordSpan(record.name, start, size)
        self.stored_size, self.compression, self.borrowed = 0, record.compression, record.borrowed

    @property
    def crc32(self) -> int:
        return zlib.crc32(self.view())

    def view(self) -> memoryview:
        return self._record.view()[self._start : self._start + self.size]


def _compiled_tensors(source: Records) -> Iterator[tuple[str, list[tuple[str, Tensor, Slice]]]]:
    """The constants of each compiled model, with their storages; none where code or weights are missing."""
    from archive.formats.tensors.compiled import CompiledConstant, compiled_constants  # noqa: PLC0415 (few archives have some)

    for name, model in compiled_models(source).items():
        constants: list[CompiledConstant] = []
        for file in model.sources:
            with in_file(source.file, model.records[file]):
                constants += compiled_constants(model.view(file))
        weights = _weights(source, model) if constants else None
        if weights is None:
            continue
        record, start, end = weights
        size = sum(constant.size for constant in constants)
        if size > end - start:
            expected = f"{size:,} bytes of weights, as its code says"
            found = f"{end - start:,}"
            raise ArchiveError(file=source.file, record=record.name, expected=expected, found=found)
        storages = [Slice(record, start + constant.start, constant.size) for constant in constants]
        yield (
            name,
            [
                (constant.name, constant.tensor.in_storage(storage.name), storage)
                for constant, storage in zip(constants, storages, strict=True)
            ],
        )


def _weights(source: Records, model: CompiledModel) -> tuple[ReadableRecord, int, int] | None:
    """The record that holds a model's weights, their first byte, and the byte after the last."""
    from archive.formats.elf.weights import weights_span  # noqa: PLC0415 (the same)

    for ending in reversed(WEIGHTS):  # a file of their own first: the object then only has their size
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
