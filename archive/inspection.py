"""What is in an archive: records, layouts, rows, handles, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.companions import Companion, Rejoined
from archive.formats import callstack_map, methods
from archive.formats.bytecode import NAME as BYTECODE
from archive.formats.kinds import MIGRATED, VERSIONS, RecordKind, kind_of
from archive.provenance import provenance
from archive.strings import decoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.provenance import Provenance
    from archive.reader import Archive


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """One record: sizes in bytes, and in words what it holds."""

    kind: RecordKind
    size: int
    stored_size: int
    compression: str
    holds: str


@dataclass(frozen=True, slots=True)
class LoweredFacts:
    """One lowered module: its backend, its class, and the debug handles in its blob."""

    backend: str
    type_name: str
    wrapped: bool
    handles: Sequence[int]


@dataclass(frozen=True, slots=True)
class Inspection:
    """An archive at a glance.

    Attributes:
        file: its name.
        root: the folder that all records are in.
        size: of the whole file, in bytes.
        companion: what kind of companion it is; "" for an archive.
        origin: the PyTorch releases that may have written it, told by all records together.
        migrated: whether it keeps what it was before a migration.
        version: what the record ``.data/version`` or ``version`` says; "" where there is none.
        top: class of the top module.
        bytecode_version: of the lite interpreter's code; None where there is none.
        records: by name, in the file's order.
        generations: the layout of each debug record.
        rows: source-range rows in all records.
        sources: the source texts they refer to.
        handles: the debug handles, in the file's order.
        methods: for each method, how many instructions have a handle.
        lowered: the lowered modules by attribute path.
    """

    file: str
    root: str
    size: int
    companion: str
    origin: Provenance | None
    migrated: bool
    version: str
    top: str
    bytecode_version: int | None
    records: Mapping[str, RecordFacts]
    generations: Mapping[str, str]
    rows: int
    sources: int
    handles: Sequence[int]
    methods: Mapping[str, int]
    lowered: Mapping[str, LoweredFacts]

    @property
    def debug_bytes(self) -> int:
        """Stored bytes of all debug records, without zip overhead; of a companion all."""
        if self.companion:
            return self.size
        return sum(record.stored_size for record in self.records.values() if record.kind.is_debug)


def inspect(archive: Archive) -> Inspection:
    """Look into an archive.

    Raises:
        ArchiveError: a debug record is broken.
    """
    holds = dict(_holds(archive))
    bytecode = archive.bytecode
    return Inspection(
        archive.file,
        archive.root,
        len(archive.container.data),
        _companion(archive),
        None if isinstance(archive, Companion) else provenance(archive),
        MIGRATED in archive.records,
        _version(archive),
        archive.top,
        None if bytecode is None else bytecode.version,
        {
            name: RecordFacts(
                kind_of(name), record.size, record.stored_size, record.compression, holds.get(name, "")
            )
            for name, record in archive.records.items()
        },
        archive.generations,
        len(archive.range_table),
        len(archive.range_table.sources),
        list(archive.handles),
        {name: len(handles) for name, handles in archive.methods.items()},
        {
            path: LoweredFacts(state.backend, state.type_name, state.wrapped, list(state.handles))
            for path, state in archive.lowered.items()
        },
    )


def _companion(archive: Archive) -> str:
    if not isinstance(archive, Companion) or isinstance(archive, Rejoined):
        return ""
    profile = archive.opened.directory.profile.name.lower()
    return f"{profile} companion of archive {archive.archive_id.hex()}"


def _version(archive: Archive) -> str:
    for name in VERSIONS:
        if name in archive.records:
            return decoded(archive.records[name].view()[:64]).strip()
    return ""


def _holds(archive: Archive) -> Iterator[tuple[str, str]]:
    """What debug records hold, in words."""
    table = archive.range_table
    for number, name in enumerate(table.names):
        yield name, f"{table.layouts[number]}, {len(table.rows(number)):,} rows"
    handles = archive.handle_table
    if handles is not None:
        stacks = int((handles.stack >= 0).sum())
        yield (
            callstack_map.NAME,
            f"{callstack_map.generation(handles)}, {len(handles):,} handles, {stacks:,} with a call stack",
        )
    for name, methods_table in ((methods.HANDLES, archive.method_table), (methods.PATHS, archive.path_table)):
        if methods_table is not None:
            yield name, f"{len(methods_table.value):,} instructions of {len(methods_table):,} methods"
    if archive.bytecode is not None:
        yield (
            BYTECODE,
            f"version {archive.bytecode.version}, {len(archive.bytecode.instructions):,} methods",
        )
