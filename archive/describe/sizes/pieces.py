"""The labelled pieces of a file: of an archive its structure, records and cells, of a companion its columns.

The columns of a packed companion are compressed as one. Their stored bytes are apportioned to them by the
size that each compresses to by itself.

The zip's own bytes are headers, padding, descriptors, directory, and gaps between them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from archive.base.errors import forgiving
from archive.base.strings import decoded
from archive.container.directory import central_headers, read_end
from archive.container.headers import CENTRAL, LOCAL, PADDING_FIELD, extra_fields, widened
from archive.container.names import as_bytes
from archive.describe.sizes.account import Part, Piece
from archive.describe.sizes.cells import Cell, debug_contents
from archive.formats.record_kinds import (
    DATA,
    Group,
    RecordKind,
    code_of,
    holds_ranges,
    is_code,
    module_of,
)
from archive.reader.archive import Archive
from archive.reader.recognition import FileKind, kind_in, recognise_zip
from archive.reader.records import INSIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.container.container import Container
    from archive.container.record import Record
    from archive.describe.sizes.cells import RecordCells
    from archive.describe.sizes.weights import Stretch
    from archive.io.ranged import Bytes
    from archive.reader.companion import Companion

NESTED_KINDS = {FileKind.LEGACY_EXPORTED, FileKind.ETRECORD, FileKind.AOTI}
"""Files whose tensors lie inside of records, which are read as a whole to find them."""

# --- structure


def structure(container: Container) -> Iterator[tuple[str | None, Part, int]]:
    """All bytes but the stored bytes of records: of each piece the record, the part, and the size in bytes.

    End records, entries of folders and gaps belong to no record: theirs is None.
    """
    data = container.by_place
    end = read_end(data)
    records = iter(container.records.values())
    used = 0
    for _, header, path, extra in central_headers(data, end):
        if path.endswith(b"/"):
            *_, start = widened(
                (header.uncompressed_size, header.compressed_size, header.header_offset), extra
            )
            local = LOCAL.read(data, start)
            name, parts = None, {Part.HEADER: LOCAL.size + local.name_length + local.extra_length}
        else:
            record = next(records)
            name, parts = record.name, _around(data, record)
            used += record.stored_size
        parts[Part.DIRECTORY] = CENTRAL.size + len(path) + len(extra) + header.comment_length
        yield from ((name, part, size) for part, size in parts.items() if size)
        used += sum(parts.values())
    ends = len(data) - end.comment_length - end.directory_offset - end.directory_size
    yield None, Part.DIRECTORY, ends
    if gaps := len(data) - ends - used:
        yield None, Part.GAP, gaps


def _around(data: Bytes, record: Record) -> dict[Part, int]:
    """The sizes of the parts around a record's stored bytes."""
    start, place = record.entry.start, record.place
    local = LOCAL.read(data, start)
    extra = data[place.data - local.extra_length : place.data]
    fields = (
        min(end, len(extra)) - start for kind, start, end in extra_fields(extra) if kind == PADDING_FIELD
    )
    padding = next(fields, 0)
    return {
        Part.HEADER: place.data - start - padding,
        Part.PADDING: padding,
        Part.DESCRIPTOR: place.end - place.data - record.stored_size,
    }


# --- pieces


def pieces(archive: Archive, *, inside: bool, weights: bool) -> Iterator[Piece]:
    """The pieces of an archive's file.

    A pickle of debug info is one piece unless ``inside``, and no tensor has a name without ``weights``.
    """
    archive.container.check_sizes()
    contents, modules = _contents(archive, inside=inside, weights=weights)
    labels: dict[str | None, tuple[str | None, str | None]] = {}
    for name, part, size in structure(archive.container):
        if name not in labels:
            labels = {name: _labels(name, modules)}  # the parts around a record follow each other
        yield Piece(part, part, *labels[name], None, size, 0)
    yield from _of_records(archive, contents, modules)


def record_pieces(archive: Archive, *, weights: bool = True) -> Iterator[Piece]:
    """Those of the records only: no local header of a tensor is read."""
    archive.container.check_sizes()
    yield from _of_records(archive, *_contents(archive, inside=False, weights=weights))


def stored_debug_bytes(opened: Archive) -> int:
    """What :attr:`~archive.describe.sizes.account.Account.debug_bytes` is; no local header is read."""
    if not opened.has_code:
        return opened.size
    if opened.tensor_file is not None:
        some = tensor_pieces(opened)
    else:  # an embedded companion is a record like any other
        some = record_pieces(Archive(opened.container), weights=False)
    return sum(piece.stored for piece in some if piece.group is Group.DEBUG)


def _of_records(archive: Archive, contents: RecordCells, modules: Mapping[str, str]) -> Iterator[Piece]:
    file = recognise_zip(archive.container, look=False).kind
    for name, record in archive.records.items():
        cells = contents.get(name, [Cell(None, None, record.size)])
        label, module = _labels(name, modules)
        for cell, stored in zip(cells, _stored(record.stored_size, cells), strict=True):
            kind = cell.kind or kind_in(file, name)
            labels = (kind, cell.part, label, cell.module or module, cell.source)
            yield Piece(*labels, stored, cell.size, cell.weight)


def _contents(archive: Archive, *, inside: bool, weights: bool) -> tuple[RecordCells, dict[str, str]]:
    """The cells of records that are looked into, and the modules that other records name, by record."""
    contents = debug_contents(archive) if inside else {}
    tensors: dict[str, list[Stretch]] = {}
    if weights:
        from archive.describe.sizes.weights import add_weights, weights_of  # noqa: PLC0415 (by request)

        tensors = weights_of(archive)
    modules: dict[str, str] = {}
    if archive.programs.records:
        from archive.describe.sizes.exported import program_contents, tensor_modules  # noqa: PLC0415 (few archives have programs)

        contents |= program_contents(archive)
        modules = tensor_modules(archive)
    if archive.compiled:
        from archive.describe.sizes.exported import compiled_contents  # noqa: PLC0415 (few archives have compiled models)

        contents |= compiled_contents(archive, tensors)
    contents |= saved_contents(archive, tensors)
    if weights:
        add_weights(contents, archive, tensors)
    return contents, modules


def saved_contents(archive: Archive, tensors: Mapping[str, Sequence[Stretch]]) -> RecordCells:
    """The cells of records of programs that are zips of ``torch.save``: their own structure and records.

    Args:
        tensors: the stretches of records that are tensors, by record.
    """
    contents: RecordCells = {}
    for name in filter(archive.tensors.is_saved, archive.records):
        weights = {start: weight for start, _, weight in tensors.get(name, ())}
        with forgiving():  # `verify` reports it
            inner = archive.tensors.saved(name)
            inner.check_sizes()
            file, sums = recognise_zip(inner, look=False).kind, Counter[Cell]()
            for _, part, size in structure(inner):
                sums[Cell(part, None, 0, part)] += size
            for key, record in inner.records.items():
                weight = weights.get(record.place.data)
                sums[Cell(None, None, 0, kind_in(file, key), None, weight)] += record.stored_size
            contents[name] = [cell._replace(size=size) for cell, size in sums.items()]
    return contents


def tensor_pieces(archive: Archive) -> Iterator[Piece]:
    """The pieces of a file of tensors that isn't a zip, or of all shards of a model."""
    from archive.describe.sizes.weights import add_weights, weights_of  # noqa: PLC0415 (few files are some)
    from archive.reader.tensor_files import INDEX, ShardedModel  # noqa: PLC0415 (the same)

    tensor_file = archive.tensor_file
    if isinstance(tensor_file, ShardedModel):
        index = tensor_file.records[INDEX].size
        yield Piece(tensor_file.kinds[INDEX], None, INDEX, None, None, index, index)
        for name, shard in tensor_file.shards.items():
            of_zip = shard.tensor_file is None
            for piece in pieces(shard, inside=False, weights=True) if of_zip else tensor_pieces(shard):
                inner = None if piece.record is None else f"{name}{INSIDE}{piece.record}"
                yield piece._replace(record=inner)
    elif tensor_file is not None:
        contents: RecordCells = {}
        add_weights(contents, archive, weights_of(archive))
        for name, record in archive.records.items():
            label, kind = decoded(as_bytes(name)), tensor_file.kinds[name]
            cells = contents.get(name, [Cell(None, None, record.size)])
            if name == DATA and tensor_file.sources:  # classes of a whole module
                cells = _with_sources(
                    cells, sum(len(as_bytes(source.text)) for source in tensor_file.sources)
                )
            for cell, stored in zip(cells, _stored(record.stored_size, cells), strict=True):
                module = cell.weight.name.rpartition(".")[0] or None if cell.weight else None
                if not cell.size:  # of a tensor without elements
                    continue
                yield Piece(cell.kind or kind, None, label, module, None, stored, cell.size, cell.weight)
        rest = archive.size - sum(record.stored_size for record in archive.records.values())
        for part, size in ((Part.PADDING, tensor_file.padding), (Part.GAP, rest - tensor_file.padding)):
            if size:
                yield Piece(part, part, None, None, None, size, 0)


def _with_sources(cells: Sequence[Cell], size: int) -> list[Cell]:
    """The cells of a pickle of which some bytes are Python's source."""
    first, *others = cells
    size = min(size, first.size)
    return [first._replace(size=first.size - size), *others, Cell(None, None, size, RecordKind.PYTHON)]


def companion_pieces(companion: Companion) -> Iterator[Piece]:
    """The pieces of a companion file: the kind is a table, the part a column."""
    from archive.companion.parse import section_parts  # noqa: PLC0415 (most files aren't companions)

    data, directory = companion.data, companion.opened.directory
    used = 0
    for number, (start, end) in directory.places.items():
        parts = section_parts(data, directory, number)
        shares = apportioned(end - start, [weight for _, weight, _ in parts])
        for (name, _, inflated), stored in zip(parts, shares, strict=True):
            yield Piece(name.partition(".")[0], name, None, None, None, stored, inflated)
        used += end - start
    yield Piece("directory", "directory", None, None, None, len(data) - used, 0)


def _labels(name: str | None, modules: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The labels of a record in the views record and module.

    Args:
        name: of the record; None for bytes outside of records.
        modules: of records that other records name.
    """
    if name is None:
        return None, None
    label = decoded(as_bytes(name))
    if name in modules:
        return label, modules[name]
    code = code_of(label) if holds_ranges(label) else label
    if not is_code(code):
        return label, None
    return label, module_of(code)


def _stored(total: int, cells: Sequence[Cell]) -> list[int]:
    """The stored bytes of each cell: apportioned to the parts, to their cells, then to tensors."""
    if len(cells) == 1:
        return [total]
    shares = [0] * len(cells)
    for own, share in _grouped(total, cells, range(len(cells)), lambda cell: cell.part):
        for same, rest in _grouped(share, cells, own, lambda cell: cell[:2] + cell[3:5]):
            for i, stored in zip(same, apportioned(rest, [cells[i].size for i in same]), strict=True):
                shares[i] = stored
    return shares


def _grouped(
    total: int, cells: Sequence[Cell], some: Sequence[int], key: Callable[[Cell], object]
) -> Iterator[tuple[list[int], int]]:
    """Some cells in groups of equal keys, and the share of each group."""
    groups: dict[object, list[int]] = {}
    for i in some:
        groups.setdefault(key(cells[i]), []).append(i)
    weights = [sum(cells[i].size for i in own) for own in groups.values()]
    return zip(groups.values(), apportioned(total, weights), strict=True)


def apportioned(total: int, weights: Sequence[int]) -> list[int]:
    """Split a number in proportion to weights, by largest remainder; equal remainders: the first.

    >>> apportioned(10, [1, 1, 0, 1])
    [4, 3, 0, 3]
    """
    whole = sum(weights)
    if not whole:  # the first takes all
        return [total if i == 0 else 0 for i in range(len(weights))]
    shares = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: -(total * weights[i] % whole))
    for i in order[: total - sum(shares)]:
        shares[i] += 1
    return shares
