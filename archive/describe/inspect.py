"""``inspect`` lists the contents of an archive: records, layouts, rows, handles, sizes."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, counted
from archive.base.quick_dataclass import dataclass
from archive.container.serialization_id import RECORD_NAME, writers
from archive.describe.head import version_text
from archive.describe.imports import imports_in
from archive.describe.program_facts import compiled_facts, program_facts
from archive.describe.sizes.pieces import stored_debug_bytes
from archive.formats import callstack_map
from archive.formats.effects import EFFECTS
from archive.formats.record_kinds import (
    BYTECODE,
    CALLSTACK_MAP,
    MIGRATED,
    RecordKind,
)
from archive.formats.release_label import labels_in_words
from archive.reader.provenance import provenance
from archive.reader.recognition import FileKind, kind_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.describe.program_facts import CompiledFacts, ProgramSummary
    from archive.reader.archive import Archive
    from archive.reader.provenance import Provenance

FETCHED_FOR_ID = 1 << 24
"""The largest remote file, in bytes, that is fetched whole for its archive id."""


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """One record: sizes in bytes, and its contents in words."""

    kind: RecordKind
    size: int
    stored_size: int
    compression: str
    holds: str


@dataclass(frozen=True, slots=True)
class LoweredFacts:
    """One lowered module: its backend, its class, and the debug handles in its blob.

    Attributes:
        unread: what in the blob may have more handles and cannot be read; "" if nothing is.
    """

    backend: str
    type_name: str
    wrapped: bool
    handles: Sequence[int]
    unread: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The contents of an archive or companion.

    Attributes:
        file: its name.
        root: the folder that all records are in.
        size: of the whole file, in bytes.
        debug_bytes: stored bytes of debug info, as ``sizes`` counts them; the whole size of a companion.
        kind: of the file.
        what: the kind in words.
        advice: what can be done with this file, mostly about debug info that it lacks; "" where there is
            nothing to say.
        companion: layout, archive id and label of a companion, in words; "" for an archive.
        label: what the release of a companion is called; "" for none.
        archive_id: in hex, the same for an archive and its companion; "" where a record cannot be read; None
            where a large remote file would have to be fetched whole.
        redacted_id: the archive id of the redacted archive that a companion fits, too; "" for none.
        platforms: the platforms whose rules give ``.data/serialization_id`` for the records: one, or none if
            no known platform's do; None without that record.
        origin: the PyTorch releases that may have written it; None where a companion has the debug info.
        migrated: whether it keeps its original from before a migration.
        version: contents of the record ``.data/version`` or ``version``; "" where there is none.
        top: class of the top module.
        bytecode_version: of the lite interpreter's code; None where there is none.
        records: by name, in the file's order.
        generations: the layout of each debug record.
        rows: source-range rows in all records.
        sources: how many source texts they refer to.
        handles: the debug handles, in the file's order.
        prefix: of the unique handles that the archive prints; 0 where there are none.
        methods: for each method, how many instructions have a handle.
        lowered: the lowered modules by attribute path.
        effects: for each method with side effects, how many; None where the archive keeps none.
        programs: the exported programs by name.
        compiled: the compiled models by name, of a companion; those of a package are listed.
        imports: what Python imports to read the pickles of a package, and ``torch.load`` refuses with
            ``weights_only``; None where Python reads none.
    """

    file: str
    root: str
    size: int
    debug_bytes: int
    kind: FileKind
    what: str
    advice: str
    companion: str
    label: str
    archive_id: str | None
    redacted_id: str
    platforms: Sequence[str] | None
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
    prefix: int
    methods: Mapping[str, int]
    lowered: Mapping[str, LoweredFacts]
    effects: Mapping[str, int] | None
    programs: Mapping[str, ProgramSummary]
    compiled: Mapping[str, CompiledFacts]
    imports: Sequence[str] | None


@bounded
def inspect(archive: Archive) -> Inspection:
    """List the contents of an archive."""
    if archive.has_code:
        archive.container.check_sizes()
    holds = dict(_holds(archive))
    kind = partial(kind_in, archive.recognised.kind)
    redacted = b"" if archive.companion is None else archive.companion.redacted_id or b""
    companion = ""
    if archive.companion is not None and not archive.has_code:
        companion = f"{archive.companion.layout} companion of archive {archive.archive_id.hex()}"
        companion += f", redacted {redacted.hex()}" if redacted else ""
    label = "" if archive.companion is None else archive.companion.label
    effects = None
    if archive.effects is not None:
        effects = Counter[str]()
        for method in archive.effects.methods:
            effects[method.method] += len(method.effects)
    return Inspection(
        file=archive.file,
        root=archive.root,
        size=archive.size,
        debug_bytes=stored_debug_bytes(archive),
        kind=archive.recognised.kind,
        what=archive.recognised.what,
        advice=archive.recognised.own_advice and archive.recognised.reason,
        companion=labels_in_words(companion, (label,)) if companion and label else companion,
        label=label,
        archive_id=_archive_id(archive),
        redacted_id=redacted.hex(),
        platforms=platforms_of(archive),
        origin=None if archive.companion else provenance(archive),
        migrated=MIGRATED in archive.records,
        version=version_text(archive) or "",
        top=archive.top,
        bytecode_version=None if archive.bytecode is None else archive.bytecode.version,
        records={
            name: RecordFacts(
                kind(name), record.size, record.stored_size, record.compression, holds.get(name, "")
            )
            for name, record in archive.records.items()
        },
        generations=archive.generations,
        rows=int(archive.range_summary.rows.sum()),
        sources=archive.range_summary.sources,
        handles=list(archive.handles),
        prefix=archive.handle_form.prefix,
        methods={name: len(handles) for name, handles in archive.methods.items()},
        lowered={
            path: LoweredFacts(
                state.backend, state.type_name, state.wrapped, list(state.handles), state.unread
            )
            for path, state in archive.lowered.items()
        },
        effects=effects,
        programs=program_facts(archive.programs),
        compiled=compiled_facts(archive.compiled, read=True),
        imports=imports_in(archive.container, archive.recognised.kind) if archive.has_code else None,
    )


def _archive_id(archive: Archive) -> str | None:
    if archive.has_code and archive.container.is_elsewhere and archive.size > FETCHED_FOR_ID:
        return None
    try:
        return archive.archive_id.hex()
    except ArchiveError:  # `verify` reports it
        return ""


def platforms_of(archive: Archive) -> list[str] | None:
    """The platforms whose rules give the archive's serialization id; None where it has no id."""
    if not archive.has_code or RECORD_NAME not in archive.container.records:
        return None
    records = archive.container.records
    try:
        serialization_id = records[RECORD_NAME].view()
    except ArchiveError:  # `verify` reports it
        return []
    return [platform.name for platform in writers(records.values(), serialization_id)]


def _holds(archive: Archive) -> Iterator[tuple[str, str]]:
    """The contents of debug records, in words, by name."""
    held = archive.range_summary
    for name, layout, rows in zip(held.names, held.layouts, held.rows.tolist(), strict=True):
        yield name, f"{layout}, {counted(rows, 'row')}"
    handles = archive.handle_table
    if handles is not None:
        stacks = int((handles.stack >= 0).sum())
        generation = callstack_map.generation(handles)
        yield CALLSTACK_MAP, f"{generation}, {counted(len(handles), 'handle')}, {stacks:,} with a call stack"
    for name, table in archive.method_records.items():
        yield name, f"{counted(len(table.value), 'instruction')} of {counted(len(table), 'method')}"
    if archive.effects is not None:
        count = sum(len(method.effects) for method in archive.effects.methods)
        yield EFFECTS, f"effects: {count:,}, places of state: {len(archive.effects.state):,}"
    if archive.bytecode is not None:
        yield (
            BYTECODE,
            f"version {archive.bytecode.version}, {counted(len(archive.bytecode.instructions), 'method')}",
        )
