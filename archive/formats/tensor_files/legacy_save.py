"""What ``torch.save`` wrote before PyTorch 1.6.

It still does with ``_use_new_zipfile_serialization=False``. A file is five pickles, then the storages, all
concatenated:

=======================  ==================================================================================
pickle                   its value
=======================  ==================================================================================
magic number             ``0x1950a86a20f9469cfc6c``
protocol version         1001
facts about the system   ``{"protocol_version": 1001, "little_endian": True, "type_sizes": {…}}``
the object               what was saved; storages and classes in it are persistent values
keys                     the list of all storages' keys, sorted as texts
=======================  ==================================================================================

The storages follow in the order of the keys, each preceded by its number of elements (s64), without gaps.
Persistent values are tuples::

    ("storage", CLASS, KEY, LOCATION, ELEMENTS, None)
    ("storage", CLASS, KEY, LOCATION, ELEMENTS, (VIEW_KEY, OFFSET, ELEMENTS))    a part of one, before 0.4
    ("module", CLASS, FILE, SOURCE)    a module's class, at its first use; FILE and SOURCE may be None

A storage that several tensors share is stored once. The first value with its key determines the size of an
element, but ``UntypedStorage`` and storages of less than a byte an element count bytes. All elements are
little-endian, whatever machine wrote them; the numbers before them are in that machine's order.

Before 0.4 the same was in a tar, which is recognised but not read.

Source: ``_legacy_save`` and ``_legacy_load`` in ``torch/serialization.py`` of PyTorch 2.13, and
``writeFileRaw`` in ``torch/csrc/generic/serialization.cpp`` (1.0) and ``torch/csrc/serialization.cpp``
(1.13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, counted, shown
from archive.formats.imported import imports_among
from archive.formats.record_kinds import DATA, DATA_FOLDER, RecordKind
from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import Int64sb, Int64sl, Struct
from archive.formats.tensor_files import LEGACY_MAGIC
from archive.formats.tensor_files.described import (
    HEADER,
    ClassSource,
    CutShortError,
    FileRecord,
    TensorFile,
    header_around,
    twice,
    with_head,
)
from archive.formats.tensors.dtypes import WIDTHS, dtype_of_storage
from archive.formats.tensors.tensor import MOST_ELEMENTS
from archive.pickles.machine import plain_value
from archive.pickles.values import Global, Inert

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.io.ranged import Bytes

PROTOCOL = 1001
STORAGE, BIG_ENDIAN_STORAGE = (
    Layout("storage" / Struct("numel" / number * "elements of the storage, whose bytes follow"))
    for number in (Int64sl, Int64sb)
)
"""What precedes a storage."""
OF_BYTES = {"UntypedStorage", "QUInt4x2Storage", "QUInt2x4Storage"}
"""Classes of storages that are counted in bytes."""
PICKLES = 5


class _Pickles(NamedTuple):
    """What the pickles hold; where the object's begins and ends, and where the storages begin."""

    object: object
    named: Sequence[Inert]
    place: tuple[int, int]
    keys: Sequence[str]
    is_little: bool
    end: int
    imports: Sequence[str]


class LegacyFile(NamedTuple):
    """A file, and the object in it: :mod:`archive.pickles.values`.

    ``file`` has no tensors yet: :mod:`archive.reader.recognition.saved` finds them in the object, in the
    records ``data/KEY``.
    """

    file: TensorFile
    object: object


def read_legacy_save(data: Bytes) -> LegacyFile:
    """Read the pickles of a file, and find its storages.

    Returns:
        Records: ``data.pkl`` is the object's pickle, ``data/KEY`` a storage, ``header`` everything else.
        ``sources`` are those of classes.
    """
    pickles = with_head(data, lambda head: _pickles(head, len(data)))
    spans = _spans(data, pickles, _storages(pickles.named))
    records = {DATA: FileRecord(RecordKind.OBJECT, (pickles.place,))}
    records |= {DATA_FOLDER + key: FileRecord(RecordKind.TENSOR, (span,)) for key, span in spans.items()}
    around = header_around(len(data), [pickles.place, *spans.values()])
    file = TensorFile(
        "saved by torch.save in its format before PyTorch 1.6",
        {HEADER: FileRecord(RecordKind.HEADER, around), **records},
        {},
        sources=tuple(_sources(pickles.named)),
        imports=pickles.imports,
    )
    return LegacyFile(file, pickles.object)


def _pickles(head: memoryview, size: int) -> _Pickles:
    """The values of the pickles, from the first bytes of a file."""
    named: list[Inert] = []
    imported = set[str]()
    values: list[object] = []
    ends = [0]
    for _ in range(PICKLES):
        try:
            value, end = plain_value(head, ends[-1], named, imported)
        except LimitError:
            raise
        except ArchiveError as error:
            if len(head) < size:
                raise CutShortError(place=error.place) from None
            raise
        values.append(value)
        ends.append(end)
    magic, protocol, system, saved, keys = values
    for what, found, expected in (("magic number", magic, LEGACY_MAGIC), ("version", protocol, PROTOCOL)):
        if found != expected:
            raise ArchiveError(place=f"the {what}", expected=f"{expected}", found=shown(found))
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ArchiveError(place="the keys of storages", expected="a list of texts", found=shown(keys))
    facts = system.pairs if isinstance(system, Inert) else ()
    is_little = all(value is not False for key, value in facts if key == "little_endian")
    place, texts, imports = (ends[3], ends[4]), [str(key) for key in keys], imports_among(imported)
    return _Pickles(saved, named, place, texts, is_little, ends[-1], imports)


class _Storage(NamedTuple):
    """How many elements a storage has, and the bytes of each."""

    elements: int
    width: int


def _storages(named: Sequence[Inert]) -> dict[str, _Storage]:
    """The storages that persistent values describe, by key."""
    storages: dict[str, _Storage] = {}
    for value in named:
        items = _items(value)
        if not items or items[0] != "storage":
            continue
        match items:
            case [_, Global(name=name), str(key), _, int(count), *_] if 0 <= count <= MOST_ELEMENTS:
                width = 1 if name in OF_BYTES else WIDTHS.get(dtype_of_storage(name), 0)
                if not width:
                    raise ArchiveError(
                        place=f"storage {shown(key)}",
                        expected="a class whose elements are known",
                        found=shown(name),
                    )
                if key not in storages:
                    memory.take(2 * memory.ROW + 8 * len(key), "storages")
                    storages[key] = _Storage(count, width)
            case _:
                raise ArchiveError(
                    record=DATA, expected="a storage's class, key and size", found=shown(items[1:5])
                )
    return storages


def _spans(data: Bytes, pickles: _Pickles, storages: Mapping[str, _Storage]) -> dict[str, tuple[int, int]]:
    """Where the bytes of each storage are, in the file's order."""
    spans: dict[str, tuple[int, int]] = {}
    at = pickles.end
    for key in pickles.keys:
        place = f"storage {shown(key)}"
        if key in spans:
            raise twice("storage", key)
        if key not in storages:
            raise ArchiveError(place=place, expected="a tensor that uses it", found="none")
        count, width = storages[key]
        start = at + STORAGE.size
        stop = start + count * width
        if stop > len(data):
            raise ArchiveError(place=place, expected=f"{stop:,} bytes of file", found=f"{len(data):,}")
        if isinstance(data, memoryview):
            _check_number(data[at:start], count, place, is_little=pickles.is_little)
        spans[key] = start, stop
        at = stop
    missing = next((key for key in storages if key not in spans), None)
    if missing is not None:
        raise ArchiveError(place=f"storage {shown(missing)}", expected="its elements", found="none")
    if at != len(data):
        raise ArchiveError(expected=f"{at:,} bytes of pickles and storages", found=f"{len(data):,}")
    return spans


def _check_number(number: memoryview, count: int, place: str, *, is_little: bool) -> None:
    """Refuse a storage whose number of elements differs from what its pickle says.

    Big-endian machines at first wrote the number in their own order, later as others do.
    """
    layouts = (STORAGE,) if is_little else (STORAGE, BIG_ENDIAN_STORAGE)
    numbers = [layout.read(number).numel for layout in layouts]
    if count not in numbers:
        raise ArchiveError(place=place, expected=f"{counted(count, 'element')}", found=f"{numbers[-1]:,}")


def _sources(named: Sequence[Inert]) -> Iterator[ClassSource]:
    """The sources of classes in persistent values."""
    for value in named:
        match _items(value):
            case ["module", Global() as name, str(file), str(text)]:
                yield ClassSource(str(name), file, text)


def _items(value: Inert) -> list[object]:
    """The items of a persistent value that is a tuple."""
    inner = value.arguments[0]
    return list(inner) if isinstance(inner, tuple) else []
