"""The bytes of exported programs and compiled models.

The bytes of a program's node belong to its module and source; some are metadata. A node of a graph inside of
another has no modules in non-strict export. Then it has those of the node that holds the graph.

A compiled model has bytes that the loader needs, and debug information: in a shared object, the bytes after
all that the loader maps. ``split`` takes just these, where it can cut the object. It leaves bytes that were
appended to the object: they may be weights.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.json_text import read_json
from archive.describe.sizes.account import Part
from archive.describe.sizes.cells import UNNAMED_FILE, Cell
from archive.describe.sizes.places import node_bytes
from archive.describe.sizes.weights import divided
from archive.formats.compiled.spare import spare_records
from archive.formats.elf.model import ObjectPart
from archive.formats.elf.parse import is_elf, other_object, parse_object
from archive.formats.exported.modules import parse_modules, paths_in_model
from archive.formats.exported.node_metadata import KIND_BY_KEY, MODULES, STACK_TRACE, metadata_kind
from archive.formats.exported.traces import parse_trace
from archive.formats.record_kinds import RecordKind, SpareKind, label_in
from archive.reader.recognition import kind_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.describe.sizes.cells import RecordCells
    from archive.describe.sizes.places import NodeBytes
    from archive.describe.sizes.weights import Stretch
    from archive.reader.archive import Archive

TOP_MODULE = "(top)"
CONFIG = re.compile(
    r"(?P<folder>data/(?:weights|constants)/)(?P<program>.*)_(?:weights|constants)_config\.json"
)


def program_contents(archive: Archive) -> dict[str, list[Cell]]:
    """The cells of each program's record, by name. A record that isn't a program is one cell."""
    return {record: _cells(archive, name, record) for name, record in archive.programs.records.items()}


def _cells(archive: Archive, name: str, record: str) -> list[Cell]:
    size = archive.records[record].size
    labels = _NodeLabels(name)
    sums: Counter[Cell] = Counter()
    try:
        with memory.part():
            _add(sums, node_bytes(archive.records[record].view()), labels, None)
    except LimitError:
        raise
    except ArchiveError:
        return [Cell(Part.UNREADABLE, None, size)]
    rest = Cell(None, None, size - sums.total())
    return [rest, *(cell._replace(size=count) for cell, count in sums.items() if count)]


def _add(sums: Counter[Cell], nodes: Sequence[NodeBytes], labels: _NodeLabels, outer: str | None) -> None:
    """Add the bytes of some nodes, and of those inside of them.

    Args:
        sums: bytes by cell, whose own size is 0.
        labels: gives modules and sources.
        outer: the module of the node that holds them.
    """
    for node in nodes:
        texts = {entry.key: entry.text for entry in node.metadata}
        module = labels.module(texts.get(MODULES)) or outer
        source = labels.source(texts.get(STACK_TRACE))
        sums[Cell(None, source, 0, None, module)] += node.own
        for key, _, size in node.metadata:
            kind = metadata_kind(key)
            sums[Cell(key if key in KIND_BY_KEY else kind, source, 0, kind, module)] += size
        _add(sums, node.inner, labels, module)


class _NodeLabels:
    """The modules and sources of a program's nodes."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._modules: dict[str, str | None] = {}
        self._sources: dict[str, str] = {}

    def module(self, text: str | None) -> str | None:
        """The innermost module of a module stack; None where there is none, or it isn't a stack."""
        if text is None:
            return None
        if text not in self._modules:
            instances = parse_modules(text)
            self._modules[text] = (
                module_label(self._program, paths_in_model(instances)[-1]) if instances else None
            )
        return self._modules[text]

    def source(self, text: str | None) -> str:
        """The file of the innermost frame that is not PyTorch's; of the innermost one if all are."""
        if text is None:
            return UNNAMED_FILE
        if text not in self._sources:
            trace = parse_trace(text)
            self._sources[text] = trace.of_model.file if trace else UNNAMED_FILE
        return self._sources[text]


def module_label(program: str, path: str) -> str:
    """The label of a module: the program's name unless PyTorch chose that, then the module's path."""
    return label_in(program, path or TOP_MODULE)


def tensor_modules(archive: Archive) -> dict[str, str]:
    """The label of the module that each tensor's record belongs to; of several, the first."""
    labels: dict[str, str] = {}
    for record in archive.records:
        if config := CONFIG.fullmatch(record):
            for name, tensor in _tensors(archive, record):
                label = module_label(config["program"], name.rpartition(".")[0])
                labels.setdefault(config["folder"] + tensor, label)
    return labels


def _tensors(archive: Archive, record: str) -> Iterator[tuple[str, str]]:
    """The names of tensors in a table of tensors, and those of their records; none where it is broken."""
    try:
        with memory.part():
            table: Any = read_json(archive.records[record].view())
    except LimitError:
        raise
    except ArchiveError:
        return
    config = table.get("config") if isinstance(table, dict) else None
    for name, entry in config.items() if isinstance(config, dict) else ():
        if isinstance(entry, dict) and isinstance(path := entry.get("path_name"), str):
            yield name, path


# --- compiled models


def compiled_contents(archive: Archive, tensors: Mapping[str, Sequence[Stretch]]) -> RecordCells:
    """The cells of records of compiled models that are debug information, or have some inside, by name.

    Args:
        tensors: the stretches of shared objects that are tensors, by record.
    """
    records = archive.records
    cells = {
        name: [Cell(None, None, records[name].size, kind)] for name, kind in spare_records(records).items()
    }
    for name, record in records.items():
        if kind_in(archive.recognised.kind, name) is RecordKind.SHARED_OBJECT:
            try:
                cells[name] = list(_object_cells(record.view(), tensors.get(name, ())))
            except LimitError:
                raise
            except ArchiveError:
                cells[name] = [Cell(Part.UNREADABLE, None, record.size)]
    return cells


def _object_cells(data: memoryview, tensors: Sequence[Stretch]) -> Iterator[Cell]:
    """The cells of a shared object; one of another format than ELF is one cell, called by its format."""
    if not is_elf(data):
        yield Cell(other_object(data) or None, None, len(data))
        return
    made = parse_object(data)
    sums: Counter[Cell] = Counter()
    for stretch in made.stretches():
        spare = stretch.start >= made.needed and stretch.part is not ObjectPart.APPENDED
        kind = SpareKind.OBJECT if spare else None
        while tensors and tensors[0][1] <= stretch.start:
            tensors = tensors[1:]
        for size, weight in divided(stretch.start, stretch.end, tensors):
            sums[Cell(f"ELF {stretch.part}", None, 0, kind, None, weight)] += size
    yield from (cell._replace(size=size) for cell, size in sums.items())
