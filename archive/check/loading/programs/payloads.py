"""Weights and constants: tables of tensors, whose bytes are records of the archive.

A row says where a tensor stands in a record: ``(offset + sum((size - 1) * stride) + 1) * bytes an element``
must not exceed the record, whose elements are of the type that the first row with it says. What is pickled is
not checked: custom objects, subclasses of tensors, and all tensors in files of PyTorch before 2.9.

Source: ``_load_state_dict``, ``_load_constants`` and ``_build_file_map`` in
``torch/export/pt2_archive/_package.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import counted, shown
from archive.base.json_text import words
from archive.check.loading.programs.values import LARGEST, device_faults, element_of, layout_faults
from archive.formats.exported.mismatches import JsonFault, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.reader.records import ReadableRecord

WEIGHTS, CONSTANTS = "data/weights/", "data/constants/"
CONFIGS = {WEIGHTS: "_weights_config.json", CONSTANTS: "_constants_config.json"}
"""The folders of tensors, and how the name of a program's table there ends."""
TABLE = "PayloadConfig"
"""The class of a table."""
TENSOR = "tensor_"
OBJECTS = ("custom_obj_", "opaque_obj_")
"""How the names of records of constants begin, by what is in them."""
STRIDES = "mismatch in length of strides and shape"
PICKLED = (b"PK", b"\x80")
"""How what ``torch.save`` and ``pickle`` write begins."""
NO_FILE = "PytorchStreamReader failed locating file "


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

    def __init__(self, records: Mapping[str, ReadableRecord], folder: str) -> None:
        self._records = records
        self._folder = folder
        self._first: dict[str, dict[str, Any]] = {}

    def faults(self, rows: Mapping[str, dict[str, Any]]) -> Iterator[JsonFault]:
        """The faults of the rows."""
        for name, row in rows.items():
            yield from self._row(row, f"config.{short(name)}")

    def _row(self, row: dict[str, Any], place: str) -> Iterator[JsonFault]:
        path = row["path_name"]
        if not isinstance(path, str):
            yield JsonFault(f"{place}.path_name", f"expected a text, found {words(path)}", "")
            return
        if self._folder == CONSTANTS and not path.startswith((TENSOR, *OBJECTS)):
            problem = (
                f"expected a name that begins with {TENSOR} or {' or '.join(OBJECTS)}, found {shown(path)}"
            )
            yield JsonFault(f"{place}.path_name", problem, "Unsupported constant type")
        record = self._records.get(posixpath.join(self._folder, path))
        if record is None:
            problem = f"expected a record in {self._folder}, found {shown(path)}, which is none"
            yield JsonFault(f"{place}.path_name", problem, NO_FILE)
        elif not row["use_pickle"]:
            yield from self._tensor(row, f"{place}.tensor_meta", record)
        elif not bytes(record.view()[:2]).startswith(PICKLED):
            problem = f"expected a pickle or a zip with one, found other bytes in {shown(path)}"
            yield JsonFault(f"{place}.use_pickle", problem, "")

    def _tensor(self, row: dict[str, Any], place: str, record: ReadableRecord) -> Iterator[JsonFault]:
        meta = row["tensor_meta"]
        if meta is None:
            yield JsonFault(place, "expected sizes and strides, found nothing", "tensor_meta cannot be None")
            return
        found = [*_number_faults(meta, place), *device_faults(meta["device"], f"{place}.device")]
        found = found or list(layout_faults(meta, place, STRIDES, typed=bool(row["is_param"])))
        yield from found
        if not found:
            yield from self._stretch(row["path_name"], meta, place, record)

    def _stretch(
        self, path: str, meta: dict[str, Any], place: str, record: ReadableRecord
    ) -> Iterator[JsonFault]:
        """The faults of the part of a record that a tensor is."""
        first = self._first.setdefault(path, meta)
        element = element_of(first)
        if element is None:  # told of the first row
            return
        width = element.bytes
        held = record.size or elements(first) * width
        if held % width:
            problem = f"expected elements of {counted(width, 'byte')}, found {held} bytes in {shown(path)}"
            yield JsonFault(place, problem, "is not a multiple of element size")
        needed = stretch(meta) * width
        if needed and not record.size:
            problem = f"expected {needed:,} bytes or more in {shown(path)}, found none: all elements are 0"
            yield JsonFault(place, problem, None)
        if needed > held:
            problem = f"expected {needed:,} bytes or more in {shown(path)}, found {held:,}"
            yield JsonFault(place, problem, "are out of bounds for storage of size")


def _number_faults(meta: dict[str, Any], place: str) -> Iterator[JsonFault]:
    """The faults of sizes, strides and offset as such: none is an expression, or below zero."""
    for key in ("sizes", "strides", "storage_offset"):
        value = meta[key]
        if key != "storage_offset" and not isinstance(value, list) and value != "":
            yield JsonFault(f"{place}.{key}", f"expected a list, found {words(value)}", "")
            continue
        for one in [value] if key == "storage_offset" else value:
            number = one.get("as_int")
            if "as_int" not in one:
                problem = "expected a number, found an expression"
                yield JsonFault(f"{place}.{key}", problem, "Only as_int is supported, got as_expr")
            elif number is None and key == "storage_offset":
                continue  # PyTorch then begins at the record's first byte
            elif type(number) is not int or not 0 <= number <= LARGEST:
                yield JsonFault(f"{place}.{key}", f"expected a number from 0, found {shown(number)}", "")


def _numbers(values: Sequence[dict[str, int]]) -> list[int]:
    return [one["as_int"] for one in values]


def elements(meta: dict[str, Any]) -> int:
    """The number of elements of a tensor; the largest number that PyTorch counts to, where there are more."""
    count = 1
    for size in sorted(_numbers(meta["sizes"])):
        count *= size
        if not 0 < count < LARGEST:
            break
    return min(count, LARGEST)


def stretch(meta: dict[str, Any]) -> int:
    """The number of elements from the beginning of the storage to behind a tensor's last one."""
    sizes, strides = _numbers(meta["sizes"]), _numbers(meta["strides"])
    if 0 in sizes:
        return 0
    steps = sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    return (meta["storage_offset"]["as_int"] or 0) + steps + 1
