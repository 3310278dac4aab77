"""A zip that isn't an archive: its files, and the tensors that ``torch.save`` wrote, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.describe.imports import imports_in
from archive.describe.program_facts import (
    CompiledFacts,
    InstructionFacts,
    ProgramSummary,
    compiled_facts,
    method_facts,
    program_facts,
)
from archive.describe.sizes.pieces import NESTED_KINDS, stored_debug_bytes
from archive.formats.record_kinds import DATA_FOLDER
from archive.io.mapped import by_ranges
from archive.reader.archive import Archive
from archive.reader.compiled import compiled_models
from archive.reader.opening import archive_in
from archive.reader.recognition import (
    PROGRAM_KINDS,
    SAVED_KINDS,
    FileKind,
    kind_in,
    opened_zip,
    recognise_zip,
    saved_tensors,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.formats.record_kinds import RecordKind
    from archive.io.mapped import Source


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A tensor that ``torch.save`` wrote.

    Attributes:
        dtype: of its elements, as PyTorch names it.
        shape: elements per dimension.
        bytes: size of its elements; None for a dtype that is not known here.
        storage: key of its storage, which is the record ``data/KEY``. Several tensors may share one.
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int | None
    storage: str


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file of a zip: sizes in bytes."""

    kind: RecordKind
    size: int
    stored_size: int
    compression: str


@dataclass(frozen=True, slots=True)
class ZipListing:
    """The contents of a zip that isn't an archive.

    Attributes:
        file: its name.
        kind: of the file.
        what: the kind in words.
        advice: what can be done with the file.
        root: the folder that all files are in; "" where there is none.
        size: of the whole file, in bytes.
        debug_bytes: stored bytes of debug info, as ``sizes`` counts them; null where something in it can't be
            read, or lies in records that are not fetched.
        records: its files by name, in the zip's order.
        tensors: by their paths from the saved object; empty where there are none.
        programs: the exported programs by name; empty where there are none.
        compiled: the models that AOTInductor compiled, by name; empty where there are none.
        methods: of an ETRecord, by name; empty where there are none.
        imports: what Python imports to read its pickles, and ``torch.load`` refuses with ``weights_only``;
            null where Python reads none of its records, or they are not fetched.
        unread: why tensors, programs, compiled models or methods could not be read; "" where they could.
    """

    file: str
    kind: FileKind
    what: str
    advice: str
    root: str
    size: int
    debug_bytes: int | None
    records: Mapping[str, FileFacts]
    tensors: Mapping[str, TensorFacts]
    programs: Mapping[str, ProgramSummary]
    compiled: Mapping[str, CompiledFacts]
    methods: Mapping[str, InstructionFacts]
    imports: Sequence[str] | None
    unread: str


@bounded
def listed(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> ZipListing:
    """List the contents of a zip of any kind. Nothing in it is executed."""
    mapped = by_ranges(source)
    with memory.charged(limits.allowance(mapped.weight)), opened_zip(mapped) as container:
        container.check_sizes()
        recognised = recognise_zip(container)
        tensors: dict[str, TensorFacts] = {}
        programs: dict[str, ProgramSummary] = {}
        compiled: dict[str, CompiledFacts] = {}
        methods: dict[str, InstructionFacts] = {}
        imports: Sequence[str] | None = None
        unread, debug_bytes = "", None
        try:
            imports = imports_in(container, recognised.kind)
            if recognised.kind in SAVED_KINDS:
                tensors = {
                    name: TensorFacts(one.dtype, one.shape, one.bytes, one.record.removeprefix(DATA_FOLDER))
                    for name, one in saved_tensors(container).items()
                }
            if recognised.kind in PROGRAM_KINDS:
                programs = program_facts(archive_in(container).programs)
                compiled = compiled_facts(compiled_models(container), read=not container.is_elsewhere)
            if recognised.kind is FileKind.ETRECORD:
                methods = method_facts(container)
            if not (container.is_elsewhere and recognised.kind in NESTED_KINDS):
                debug_bytes = stored_debug_bytes(Archive(container))
        except ArchiveError as error:
            unread = str(error).removeprefix(f"{container.file}: ")
        return ZipListing(
            container.file,
            recognised.kind,
            recognised.what,
            recognised.reason,
            container.root,
            container.size,
            debug_bytes,
            {
                name: FileFacts(kind_in(recognised.kind, name), one.size, one.stored_size, one.compression)
                for name, one in container.records.items()
            },
            tensors,
            programs,
            compiled,
            methods,
            imports,
            unread,
        )
