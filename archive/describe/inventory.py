"""What a folder of models holds: a row for each file, from a few ranges of it.

From a zip are read its directory, debug info, programs, and the records that name tensors; from a file of
tensors, its header. No element of a tensor is read. At most `FETCHED` bytes of a remote file are
fetched; what would take more is not known, and the row says so. A caller may ask questions of its own, which
read all of each file.

A row claims nothing else than it has read: a number is None where it was not looked for or cannot be known,
`looked_at` says what was read, and `unread` what could not be, and why.

Two names of one file, links mostly, are reported as such. Zips have *the same directory* if their records
have the same names, sizes and CRC-32s. Unless `verify` was asked for, nobody has compared these with the
bytes: one of the two may be damaged, and the row says so. Archives without CRCs, as some writers leave them,
are not compared. Files with digests are compared by these only: equal digests mean the same model, whatever
its debug info, saved otherwise if the directories differ. A file that is broken, as far as was looked, is the
same as no other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import closing, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.digests import DIGEST_WIDTH
from archive.base.errors import ArchiveError, shown
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.companion.magic import is_companion
from archive.container.container import Container
from archive.container.names import as_bytes
from archive.describe.head import releases_named, version_text
from archive.describe.imports import imports_in, imports_of_file
from archive.describe.sizes.account import Part
from archive.describe.sizes.pieces import NESTED_KINDS, record_pieces, tensor_pieces
from archive.formats.record_kinds import (
    MIGRATED,
    Group,
    RecordKind,
    place_of_companion,
    version_record,
)
from archive.io.mapped import Fetched, by_ranges, unchanged
from archive.reader.archive import Archive
from archive.reader.opening import archive_in, opened
from archive.reader.provenance import provenance
from archive.reader.recognition import (
    ARCHIVE_KINDS,
    PACKAGE_KINDS,
    PROGRAM_KINDS,
    SAVED_KINDS,
    TENSOR_KINDS,
    ZIP_KINDS,
    FileKind,
    head_kind,
    is_zip,
    kind_in,
    opened_zip,
    recognise_zip,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from archive.describe.sizes.account import Piece
    from archive.io.mapped import Mapped, Source

    Question: TypeAlias = Callable[["InventoryRow", Source, Limits], "InventoryRow"]

FETCHED = 1 << 25
"""The most bytes of a remote file that are fetched, unless its server knows no ranges."""
VERSION_KEYS = {
    FileKind.SAFETENSORS: {"format": "framework"},
    FileKind.GGUF: {"general.file_type": "file type", "general.quantization_version": "quantization"},
    FileKind.ONNX: {"ir_version": "IR", "opset_import": "operators"},
}
"""The metadata of files of tensors that have versions, and what a row calls them."""
LONGEST_TEXT = 80
"""Characters of a release or a version."""
NO_DIGEST = "digest: the model is in several files"
"""A question that does not apply to a file, however sound it is."""
NOT_FETCHED = "not fetched"
"""Ends what was not read of a remote file, and may be sound."""
NAMED = "the file's own word"
"""How a release is known that a file names."""


@dataclass(frozen=True, slots=True)
class InventoryRow:
    """What is known of one file. A number is null where it was not looked for, or cannot be known.

    Attributes:
        file: its name.
        kind: of the file.
        size: in bytes; of a model in several files, that of all; null where nothing is there to read.
        files: how many files the model is in.
        release: the PyTorch releases that may have written it, in words, or the program that the file says
            wrote it; "" where nothing says so.
        release_by: how that is known: how many signs in its records agree, or that the file names it.
        versions: of the archive, its bytecode, its schema: whatever the file names.
        tensors: how many tensors it describes; null where a backend keeps weights that nothing describes.
        elements: elements that its storages hold for them, each once: parameters, buffers, whatever else was
            saved as a tensor.
        weight_bytes: stored bytes of tensors.
        code_bytes: stored bytes of what is run, or what modules are made of, without debug info; of packages
            and of whole modules in the format before PyTorch 1.6 those of Python's sources, too.
        debug_bytes: stored bytes of debug info, as ``sizes`` counts them; the whole size of a companion.
        debug_share: the part of the size that this is, from 0 to 1.
        handles: the number of debug handles.
        contents: of a zip, a digest of the names, sizes and CRC-32s of its records, as its directory claims
            them; "" where not all have one.
        digest: of the model, as ``digest`` prints it; of other files than zips, of their bytes; "" if it was
            not asked for.
        same_as: the first file before this one that is the same; "" for none.
        same_by: ``file`` for two names of one file; ``crc`` for zips of one directory, whose bytes nobody has
            compared, ``sums`` where both have been verified; if digests are asked for, ``copy`` for one model
            with one directory, ``saved`` for one model with another, ``digest`` if that is not known, and
            ``bytes`` for files that aren't zips; "" for none.
        leaks: how many texts ``leaks`` finds of each kind that counts; null if they were not looked for.
        findings: how many findings ``verify`` has of each severity; null if it was not asked for.
        looked_at: what was read.
        unread: what could not be read, and why.
        label: of the release that its companion is of, as `split --label` gives it; "" for none.
        texts: the gravest findings of ``verify``, up to 5, each with its severity; then how many more there
            are.
        imports: what Python imports to read its pickles, and ``torch.load`` refuses with ``weights_only``;
            null where Python reads none of it, or it was not fetched.
    """

    file: str
    kind: FileKind
    size: int | None
    files: int = 1
    release: str = ""
    release_by: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    tensors: int | None = None
    elements: int | None = None
    weight_bytes: int | None = None
    code_bytes: int | None = None
    debug_bytes: int | None = None
    debug_share: float | None = None
    handles: int | None = None
    contents: str = ""
    digest: str = ""
    same_as: str = ""
    same_by: str = ""
    leaks: Mapping[str, int] | None = None
    findings: Mapping[str, int] | None = None
    looked_at: Sequence[str] = ()
    unread: Sequence[str] = ()
    label: str = ""
    texts: Sequence[str] = ()
    imports: Sequence[str] | None = None

    @property
    def problems(self) -> Sequence[str]:
        """What of ``unread`` would have been read of a sound file of this kind."""
        return [why for why in self.unread if why != NO_DIGEST]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with the file, as far as was looked; what was not fetched may be."""
        is_read = all(why.endswith(NOT_FETCHED) for why in self.problems)
        return is_read and not (self.findings or {}).get("error", 0)


@bounded
def inventoried(
    source: Source,
    *,
    more: Sequence[Question] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> InventoryRow:
    """The row of a file: if it isn't a model, its kind and size.

    >>> row = inventoried("fixtures/oracles/plain_stack.ptl")
    >>> print(row.kind, row.elements, row.release, row.versions["bytecode"], sep=" | ")
    lite archive | 50 | PyTorch 2.1 or later | 8

    Args:
        more: is asked of each model, in this order, and reads all of the file.
    """
    with unchanged(source):
        with (
            closing(by_ranges(source, most=FETCHED)) as mapped,
            memory.charged(limits.allowance(mapped.weight)),
        ):
            row = _row(mapped)
        if row.kind in ZIP_KINDS | TENSOR_KINDS | {FileKind.COMPANION}:
            for question in more:
                row = question(row, source, limits)
        if isinstance(mapped, Fetched) and (row.unread or more):
            mapped.check_unchanged()
        return row


# --- from a few ranges


class _Known:
    """Facts about a file as they are found; one that cannot be read doesn't keep others from being found."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.looked_at: list[str] = []
        self.unread: list[str] = []

    def look(self, what: str, find: Callable[[], Mapping[str, object]]) -> None:
        """Take the facts that a function finds, or the reason why it finds none."""
        try:
            self.facts.update(find())
            self.looked_at.append(what)
        except ArchiveError as error:
            self.refuse(what, error)

    def refuse(self, what: str, error: ArchiveError | str) -> None:
        """Note what could not be read."""
        if isinstance(error, ArchiveError):
            error = str(error).removeprefix(f"{error.file}: ")
        self.unread.append(f"{what}: {error}")

    def row(self, file: str, kind: FileKind, size: int) -> InventoryRow:
        """The row of all that is known."""
        debug = self.facts.get("debug_bytes")
        share = round(debug / size, 6) if isinstance(debug, int) and size else None
        return InventoryRow(
            file,
            kind,
            size,
            **self.facts,  # type: ignore[arg-type]
            debug_share=share,
            looked_at=self.looked_at,
            unread=self.unread,
        )


def _row(mapped: Mapped | Fetched) -> InventoryRow:
    if is_companion(mapped.data):
        return _of_companion(mapped)
    if is_zip(mapped.data):
        with Container(mapped, rooted=False) as container:  # whose records go with it
            return _of_zip(container)
    kind = head_kind(mapped)
    if kind in TENSOR_KINDS:
        with opened(mapped, TENSOR_KINDS) as archive:
            return _of_tensor_file(archive)
    if kind in {FileKind.CUT, FileKind.CUT_SAFETENSORS, FileKind.LFS, FileKind.ZIP}:
        opened_zip(mapped)  # which refuses it
    return InventoryRow(mapped.name, kind, len(mapped.data), looked_at=["first bytes"])


def _of_companion(mapped: Mapped | Fetched) -> InventoryRow:
    """The row of a companion, which is read whole, and so only on this machine."""
    known, size, name = _Known(), len(mapped.data), mapped.name
    known.facts["debug_bytes"] = size
    known.looked_at.append("first bytes")
    if isinstance(mapped.data, memoryview):
        known.look("debug handles", lambda: _companion_facts(opened(mapped)))
    return known.row(name, FileKind.COMPANION, size)


def _companion_facts(archive: Archive) -> Mapping[str, object]:
    label = "" if archive.companion is None else archive.companion.label
    return {"handles": len(archive.handles), "label": label}


def _of_tensor_file(archive: Archive) -> InventoryRow:
    known, tensor_file = _Known(), archive.tensor_file
    assert tensor_file is not None  # noqa: S101 (that is its kind)
    known.looked_at.append("header")
    known.facts["files"] = len(tensor_file.files)
    known.unread += [f"not there: {name}" for name in tensor_file.missing]
    kind, metadata = tensor_file.recognised.kind, tensor_file.metadata
    versions = {} if tensor_file.version is None else {"format": str(tensor_file.version)}
    for key, word in VERSION_KEYS.get(kind, {}).items():
        if isinstance(metadata.get(key), str | int):
            versions[word] = _short(str(metadata[key]))
    known.facts["versions"] = versions
    if kind is FileKind.ONNX and (producer := metadata.get("producer_name")):
        producer = "PyTorch" if producer == "pytorch" else producer
        release = f"{producer} {metadata.get('producer_version', '')}".strip()
        known.facts |= {"release": _short(release), "release_by": NAMED}
    known.look("tensors", lambda: _tensors(archive, list(tensor_pieces(archive))))
    known.facts["imports"] = imports_of_file(archive)
    return known.row(archive.file, kind, archive.size)


def _of_zip(container: Container) -> InventoryRow:
    container.check_sizes()
    kind, known = recognise_zip(container).kind, _Known()
    known.looked_at.append("directory")
    if kind not in ZIP_KINDS:
        return known.row(container.file, kind, container.size)
    container.check_names(name for name in container.records if kind_in(kind, name) is not RecordKind.TENSOR)
    known.facts["contents"] = _contents(container)
    remote, embedded = container.is_elsewhere, place_of_companion(container.records) in container.records
    try:
        # To see that a remote embedded companion belongs to the records, all of them would be fetched.
        archive = Archive(container) if embedded and remote else archive_in(container)
    except ArchiveError as error:
        known.refuse("embedded companion", error)
        archive = Archive(container)
    if kind in ARCHIVE_KINDS:
        known.look("version", lambda: _archive_versions(archive))
        if archive.companion is None and not embedded:
            known.look("debug records", lambda: {**_release(archive), "handles": len(archive.handles)})
        elif archive.companion is not None:
            known.look("companion", lambda: _companion_facts(archive))
    elif kind in SAVED_KINDS | PACKAGE_KINDS:
        known.look("version", lambda: _archive_versions(archive))
        if version_record(archive.records) is not None:  # PyTorch writes one whatever it saves
            known.look("records", lambda: _release(archive))
    if kind in PROGRAM_KINDS and archive.programs:
        known.look("programs", lambda: _exported(archive))
    if remote and kind in NESTED_KINDS:
        known.refuse("sizes and tensors", f"they are inside of records that are {NOT_FETCHED}")
    else:
        known.look("tensors", lambda: _tensors(archive, list(record_pieces(Archive(container)))))
        with suppress(ArchiveError):  # of what cannot be read, which the row has
            known.facts["imports"] = imports_in(container, kind)
    if embedded and remote:
        known.refuse("embedded companion", f"it is {NOT_FETCHED}")
    return known.row(container.file, kind, container.size)


def _contents(container: Container) -> str:
    """A digest of what the directory says of each record; "" where it says no CRC-32 of some bytes."""
    digest = hashlib.blake2b(digest_size=DIGEST_WIDTH)
    for name, record in sorted(container.records.items()):
        if record.size and not record.crc32:
            return ""
        digest.update(b"%d %08x " % (record.size, record.crc32) + as_bytes(name) + b"\0")
    return digest.hexdigest()


def _archive_versions(archive: Archive) -> Mapping[str, object]:
    versions, version = {}, version_text(archive)
    if version is not None:
        versions["archive"] = _short(version)
    if archive.bytecode is not None:
        versions["bytecode"] = str(archive.bytecode.version)
    return {"versions": versions}


def _release(archive: Archive) -> Mapping[str, object]:
    origin = provenance(archive)
    signs = len(origin.evidence)
    by = f"{signs - len(origin.against)} of {signs} signs"
    by += "; migrated" if MIGRATED in archive.records else ""
    return {"release": str(origin), "release_by": by}


def _exported(archive: Archive) -> Mapping[str, object]:
    releases = sorted(set(map(_short, releases_named(archive))))
    schemas = sorted({_short(program.schema) for program in archive.programs.values()} - {""})
    facts: dict[str, object] = {"versions": {"schema": ", ".join(schemas)} if schemas else {}}
    if releases:
        facts |= {"release": _short(", ".join(f"PyTorch {one}" for one in releases)), "release_by": NAMED}
    return facts


def _tensors(archive: Archive, pieces: Sequence[Piece]) -> Mapping[str, object]:
    """Tensors and their elements, and the bytes of tensors, code and debug info."""
    tensors = len(archive.tensors)
    broken = next((piece.record for piece in pieces if piece.part == Part.UNREADABLE), None)
    if broken is not None:
        raise ArchiveError("cannot be read", file=archive.file, record=broken)
    stored = Counter[Group]()
    for piece in pieces:
        stored[piece.group] += piece.stored
    facts: dict[str, object] = {"debug_bytes": stored[Group.DEBUG]}
    if not tensors and archive.recognised.kind is FileKind.AOTI:  # only C++ code names them, if it is there
        return facts
    facts |= {"weight_bytes": stored[Group.WEIGHTS], "code_bytes": stored[Group.CODE]}
    if any(piece.kind is RecordKind.NAMED and piece.weight is None for piece in pieces):
        return facts  # only a backend knows which tensors they are
    elements = sum(piece.weight.elements for piece in pieces if piece.weight)
    return facts | {"tensors": tensors, "elements": elements}


def _short(text: str) -> str:
    """A foreign text in few characters that can be printed."""
    return text if text.isprintable() and len(text) <= LONGEST_TEXT else shown(text, LONGEST_TEXT)


# --- from all bytes


def extended(row: InventoryRow, what: str, find: Callable[[], Mapping[str, object]]) -> InventoryRow:
    """A row with what a function finds, or the reason why it finds nothing.

    Args:
        find: more fields of the row, by name.
    """
    known = _Known()
    known.look(what, find)
    more = [*row.looked_at, *known.looked_at], [*row.unread, *known.unread]
    return replace(row, **known.facts, looked_at=more[0], unread=more[1])  # type: ignore[arg-type]
