"""What PyTorch 2.13 asks of the records beside exported programs: tables of tensors, compiled models, facts.

*Of a* ``.pt2`` *as a whole*: formats and versions, what goes with each program, texts among extra files.
Source: ``load_pt2``, ``PT2ArchiveReader`` and ``_load_exported_programs`` in
``torch/export/pt2_archive/_package.py`` of PyTorch 2.13; ``torch/csrc/export/pt2_archive_constants.h``.

*Of weights and constants*: they are tables of tensors, whose bytes are records of the archive. A row says
where a tensor stands in a record: ``(offset + sum((size - 1) * stride) + 1) * bytes an element`` must not
exceed the record, whose elements are of the type that the first row with it says. What is pickled is not
checked: custom objects, subclasses of tensors, and all tensors in files of PyTorch before 2.9. Source:
``_load_state_dict``, ``_load_constants`` and ``_build_file_map`` in the same file.

*Of a model that AOTInductor compiled*, before PyTorch runs the model's code:

- The model has a folder, and in it the metadata of its wrapper: an object of texts, the device among them.
- It has one wrapper that is a shared object, or sources that a compiler makes one of. PyTorch asks for the
  metadata of the last C++ source, and without a shared object for the compiler's flags, too.
- A shared object is one that the loader loads, with the functions that PyTorch calls:
  :mod:`~archive.check.program_loader.objects`.

Whether this machine has the device and the instructions, and what the code does, is not checked. Source:
``torch/csrc/inductor/aoti_package/model_package_loader.cpp``; each fault was tried with PyTorch 2.13.
"""

from __future__ import annotations

import posixpath
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.diagnostics import Diagnostic, wrong
from archive.base.errors import ArchiveError, counted, shown
from archive.base.json_text import read_json, words
from archive.check.program_loader.objects import object_faults
from archive.check.program_loader.values import LARGEST, device_faults, element_of, layout_faults
from archive.formats.compiled.spare import METADATA, OBJECT, SOURCE
from archive.formats.elf.parse import is_elf
from archive.formats.record_kinds import (
    COMPILED,
    EXPORTED_FORMAT,
    EXTRA_FOLDER,
    PROGRAMS,
    inputs_of_program,
    is_program,
)
from archive.formats.schema.json import short
from archive.formats.tensors.dtypes import WIDTHS
from archive.formats.tensors.exported import CONFIGS, CONSTANTS
from archive.reader.loading.checks import version_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from archive.reader.records import ReadableRecord

    Records = Mapping[str, ReadableRecord]

EXPORTED_VERSION = "archive_version"
FACTS = {
    EXPORTED_FORMAT: ("pt2", "Invalid archive format"),
    EXPORTED_VERSION: ("0", "does not match our current archive version"),
}
"""What these records hold, and what PyTorch says where they hold something else."""
CHUNK_BYTES = 1 << 20
"""Bytes that are decoded at once."""
NO_FILE = "PytorchStreamReader failed locating file "


def file_faults(records: Records) -> Iterator[Diagnostic]:
    """The faults of the records that PyTorch reads, except programs and tables.

    Args:
        records: those that can be read.
    """
    for name, (value, message) in FACTS.items():
        if name not in records:
            yield _missing(name)
        else:
            content = bytes(records[name].view()[:20])
            if content != value.encode():
                refusal = message if content.isascii() else ""
                yield wrong("", f"expected {value!r}, found {shown(content)}", refusal, name)
    if problem := version_problem(records, records):  # the zip's version, as in all of PyTorch's archives
        yield wrong("", problem[1], "Attempted to read a PyTorch file with version", problem[0])
    for name in records:
        if name.startswith(PROGRAMS[0]):
            yield from _beside_program(records, name)
        elif name.startswith(EXTRA_FOLDER) and not _is_utf8(records[name].view()):
            yield wrong("", "expected UTF-8, found other bytes", "UnicodeDecodeError", name)


def _beside_program(records: Records, record: str) -> Iterator[Diagnostic]:
    """The faults of what goes with a program: PyTorch takes each record of the folder for one."""
    folder, ending = PROGRAMS
    name = record[len(folder) : -len(ending)]  # whatever the name ends in, as PyTorch does
    if not is_program(record):
        problem = f"expected a name that ends in {ending}, as PyTorch takes it for a program"
        yield wrong("", problem, None, record)
    inputs = inputs_of_program(name)
    if inputs not in records:
        yield _missing(inputs)
    for tensors, config in CONFIGS.items():
        table = f"{tensors}{name}{config}"
        if table not in records and f"{tensors}{name}.pt" not in records:
            yield wrong("", f"expected a record {table}, found none", f"{table} not found in PT2 archive")


def _is_utf8(data: memoryview) -> bool:
    decoder = getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), CHUNK_BYTES):
            decoder.decode(data[at : at + CHUNK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _missing(name: str) -> Diagnostic:
    return wrong("", f"expected a record {name}, found none", f"{NO_FILE}{name}")


# --- tables of tensors

TABLE = "PayloadConfig"
"""The class of a table."""
TENSOR = "tensor_"
OBJECTS = ("custom_obj_", "opaque_obj_")
"""How the names of records of constants begin, by what is in them."""
STRIDES = "mismatch in length of strides and shape"
PICKLED = (b"PK", b"\x80")
"""How what ``torch.save`` and ``pickle`` write begins."""


class Payloads(NamedTuple):
    """The rows of a program's tables; None where they are not known."""

    weights: Mapping[str, dict[str, Any]] | None
    constants: Mapping[str, dict[str, Any]] | None


class PayloadCheck:
    """The table of a program's weights, or of its constants.

    Args:
        records: of the archive.
        folder: ``data/weights/`` or ``data/constants/``.
    """

    def __init__(self, records: Records, folder: str) -> None:
        self._records = records
        self._folder = folder
        self._first: dict[str, dict[str, Any]] = {}

    def faults(self, rows: Mapping[str, dict[str, Any]]) -> Iterator[Diagnostic]:
        """The faults of the rows."""
        for name, row in rows.items():
            yield from self._row(row, f"config.{short(name)}")

    def _row(self, row: dict[str, Any], place: str) -> Iterator[Diagnostic]:
        path = row["path_name"]
        if not isinstance(path, str):
            yield wrong(f"{place}.path_name", f"expected a text, found {words(path)}", "")
            return
        if self._folder == CONSTANTS and not path.startswith((TENSOR, *OBJECTS)):
            problem = (
                f"expected a name that begins with {TENSOR} or {' or '.join(OBJECTS)}, found {shown(path)}"
            )
            yield wrong(f"{place}.path_name", problem, "Unsupported constant type")
        record = self._records.get(posixpath.join(self._folder, path))
        if record is None:
            problem = f"expected a record in {self._folder}, found {shown(path)}, which isn't one"
            yield wrong(f"{place}.path_name", problem, NO_FILE)
        elif not row["use_pickle"]:
            yield from self._tensor(row, f"{place}.tensor_meta", record)
        elif not bytes(record.view()[:2]).startswith(PICKLED):
            problem = f"expected a pickle or a zip with one, found other bytes in {shown(path)}"
            yield wrong(f"{place}.use_pickle", problem, "")

    def _tensor(self, row: dict[str, Any], place: str, record: ReadableRecord) -> Iterator[Diagnostic]:
        meta = row["tensor_meta"]
        if meta is None:
            yield wrong(place, "expected sizes and strides, found nothing", "tensor_meta cannot be None")
            return
        faults = [*_number_faults(meta, place), *device_faults(meta["device"], f"{place}.device")]
        faults = faults or list(layout_faults(meta, place, STRIDES, typed=bool(row["is_param"])))
        yield from faults
        if not faults:
            yield from self._stretch(row["path_name"], meta, place, record)

    def _stretch(
        self, path: str, meta: dict[str, Any], place: str, record: ReadableRecord
    ) -> Iterator[Diagnostic]:
        """The faults of the part of a record that a tensor is."""
        first = self._first.setdefault(path, meta)
        element = element_of(first)
        if element is None:  # reported for the first row
            return
        width = WIDTHS[element]
        held = record.size or elements(first) * width
        if held % width:
            problem = f"expected elements of {counted(width, 'byte')}, found {held} bytes in {shown(path)}"
            yield wrong(place, problem, "is not a multiple of element size")
        needed = stretch(meta) * width
        if needed and not record.size:
            problem = f"expected {needed:,} bytes or more in {shown(path)}, found none: all elements are 0"
            yield wrong(place, problem, None)
        if needed > held:
            problem = f"expected {needed:,} bytes or more in {shown(path)}, found {held:,}"
            yield wrong(place, problem, "are out of bounds for storage of size")


def _number_faults(meta: dict[str, Any], place: str) -> Iterator[Diagnostic]:
    """The faults of sizes, strides and offset as such: none is an expression, or below zero."""
    for key in ("sizes", "strides", "storage_offset"):
        value = meta[key]
        if key != "storage_offset" and not isinstance(value, list) and value != "":
            yield wrong(f"{place}.{key}", f"expected a list, found {words(value)}", "")
            continue
        for argument in [value] if key == "storage_offset" else value:
            number = argument.get("as_int")
            if "as_int" not in argument:
                problem = "expected a number, found an expression"
                yield wrong(f"{place}.{key}", problem, "Only as_int is supported, got as_expr")
            elif number is None and key == "storage_offset":
                continue  # PyTorch then begins at the record's first byte
            elif type(number) is not int or not 0 <= number <= LARGEST:
                yield wrong(f"{place}.{key}", f"expected a number from 0, found {shown(number)}", "")


def _numbers(arguments: Sequence[dict[str, int]]) -> list[int]:
    return [argument["as_int"] for argument in arguments]


def elements(meta: dict[str, Any]) -> int:
    """The number of elements of a tensor; the largest number that PyTorch counts to, where there are more."""
    count = 1
    for size in sorted(_numbers(meta["sizes"])):
        count *= size
        if not 0 < count < LARGEST:
            break
    return min(count, LARGEST)


def stretch(meta: dict[str, Any]) -> int:
    """The number of elements from the beginning of the storage to the end of a tensor's last one."""
    sizes, strides = _numbers(meta["sizes"]), _numbers(meta["strides"])
    if 0 in sizes:
        return 0
    steps = sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    return (meta["storage_offset"]["as_int"] or 0) + steps + 1


# --- compiled models

WRAPPER = "wrapper_metadata.json"
FLAGS = "_compile_flags.json"
WRAPPER_OBJECT = ".wrapper.so"
DEVICE, MACHINE = "AOTI_DEVICE_KEY", "AOTI_MACHINE"


def model_folders(names: Iterable[str]) -> dict[str, list[str]]:
    """The compiled models by name, and the records in the folder of each; as PyTorch's loader finds them."""
    folders: dict[str, list[str]] = {}
    for name in names:
        if name.startswith(COMPILED):
            folders.setdefault(name.removeprefix(COMPILED).partition("/")[0], []).append(name)
    return folders


class CompiledCheck:
    """A compiled model.

    Args:
        names: the records in its folder.
        records: those that can be read.

    Attributes:
        objects: the shared objects that ``faults`` looked into.
    """

    def __init__(self, model: str, names: list[str], records: Records) -> None:
        self._model = model
        self._names = names
        self._records = records
        self.objects = 0

    def faults(self) -> list[Diagnostic]:
        """The faults of the model's records."""
        faults = list(self._lacking())
        machines = set()
        for name in filter(self._records.__contains__, self._ending(METADATA)):
            try:
                metadata = read_json(self._records[name].view())
            except ArchiveError as error:
                raise error.within(record=name) from error.__cause__
            faults += _metadata_faults(name, metadata)
            machine = metadata.get(MACHINE) if isinstance(metadata, dict) else None
            machines |= {machine} if isinstance(machine, str) else set()
        for name in filter(self._records.__contains__, self._ending(OBJECT)):
            data = self._records[name].view()
            faults += object_faults(name, data, machines)
            self.objects += is_elf(data)
        return faults

    def _lacking(self) -> Iterator[Diagnostic]:
        """The faults of which records there are."""
        folder = f"{COMPILED}{self._model}/"
        if not self._ending(WRAPPER):
            yield _lacks(folder, f"a file *{WRAPPER}", "Failed to find wrapper metadata for model")
        objects, sources = self._ending(OBJECT), self._ending(SOURCE)
        if len(self._ending(WRAPPER_OBJECT)) > 1:
            problem = f"expected one file *{WRAPPER_OBJECT} in {folder}, found several"
            yield wrong("", problem, "Multiple wrapper shared libraries found")
        if not objects and not sources:
            yield _lacks(folder, f"a file *{OBJECT} or *{SOURCE}", "")
        for ending in ((METADATA,) if objects else (METADATA, FLAGS)) if sources else ():
            name = sources[-1].removesuffix(SOURCE) + ending
            if name not in self._names:
                yield _lacks(folder, name.removeprefix(folder), "File not found: ")

    def _ending(self, ending: str) -> list[str]:
        return [name for name in self._names if name.endswith(ending)]


def _lacks(folder: str, what: str, refusal: str) -> Diagnostic:
    return wrong("", f"expected {what} in {folder}, found none", refusal)


def _metadata_faults(name: str, metadata: object) -> Iterator[Diagnostic]:
    """The faults of what a model was compiled for."""
    if not isinstance(metadata, dict):
        yield wrong("", f"expected an object, found {words(metadata)}", "", name)
        return
    for key, value in metadata.items():
        if not isinstance(value, str):
            yield wrong(key, f"expected a text, found {words(value)}", "type must be string", name)
    if name.endswith(WRAPPER) and DEVICE not in metadata:
        yield wrong("", f"expected a field {DEVICE}, found none", f"KeyError: {DEVICE!r}", name)
