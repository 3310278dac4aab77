"""A file is recognised by its content, never by its name. Every command begins with this.

A few bytes at its beginning and the zip's directory are read, and the pickle of files by ``torch.save``;
nothing is executed. Files that often turn up in place of a model are recognised too: a web page that says
"404", a Git LFS pointer, a compressed file.

Zips are recognised by the names of their files; those by ``torch.save`` by their pickle, too:

- ``archive_format`` is only in ``.pt2`` files, with ``data/aotinductor/`` if they are compiled; PyTorch
  2.1 to 2.7 wrote ``serialized_exported_program.json`` instead, outside any folder.
- ``.data/extern_modules``, ``.data/N.storage`` or ``.data/ts_code/``: ``torch.package``.
- ``bytecode.pkl``: an archive for the lite interpreter. ``constants.pkl``, ``model.json`` (PyTorch 1.0 to
  1.2), code or debug records: TorchScript.
- ``data.pkl`` without these: ``torch.save``, from PyTorch 1.6 on.
- ``ETRECORD_V0`` outside any folder: an ETRecord of ExecuTorch.

What isn't a zip is recognised by its first bytes (``heads``). Whether a file is one, its end says, unless it
begins as a file of tensors or a program: its last data may be a zip, such as a backend's state in a ``.pte``.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, LimitError, in_file, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.companion.magic import is_companion
from archive.container.container import Container
from archive.container.directory import bytes_after, has_end, names_only, read_end
from archive.container.headers import FLAG_UTF8, LOCAL
from archive.formats.imported import imports_among
from archive.formats.method_handles import METHOD_RECORDS
from archive.formats.record_kinds import (
    BYTECODE,
    CALLSTACK_MAP,
    COMPILED,
    CONSTANTS,
    DATA,
    EMBEDDED,
    EMBEDDED_IN_EXPORTED,
    ETRECORD,
    EXPORTED_FORMAT,
    HANDLE_RECORDS,
    KINDS_TO_SOURCE,
    LEGACY_PROGRAM,
    LEGACY_TREE,
    METHOD_HANDLES,
    MIGRATED,
    PACKAGE_CODE,
    PACKAGED,
    RANGES_SUFFIX,
    STORAGE,
    VERSION_RECORDS,
    RecordKind,
    holds_ranges,
    is_code,
    kind_of,
)
from archive.io.mapped import by_ranges, in_memory
from archive.io.urls import is_url
from archive.reader.recognition.kinds import (
    ARCHIVE_KINDS,
    DAMAGED_KINDS,
    HASHED_KINDS,
    JOINED_KINDS,
    LOADED_KINDS,
    OPENED_KINDS,
    PACKAGE_KINDS,
    PROGRAM_KINDS,
    READ_KINDS,
    REDACTED_KINDS,
    REPORTED_KINDS,
    SAVE_WITH_DEBUG_INFO,
    SAVED_KINDS,
    SHRUNK_KINDS,
    SPLIT_KINDS,
    TENSOR_KINDS,
    ZIP_KINDS,
    FileKind,
    Recognised,
    commands_on,
    commands_without_debug_info,
    kind_in,
    split_advice,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from archive.formats.tensors.tensor import Tensor
    from archive.io.mapped import Fetched, Mapped, Source
    from archive.io.ranged import Bytes
    from archive.reader.records import ReadableRecord

__all__ = [
    "ARCHIVE_KINDS",
    "COMPANION",
    "DAMAGED_KINDS",
    "HASHED_KINDS",
    "JOINED_KINDS",
    "LOADED_KINDS",
    "OPENED_KINDS",
    "PACKAGE_KINDS",
    "PROGRAM_KINDS",
    "READ_KINDS",
    "REDACTED_KINDS",
    "REPORTED_KINDS",
    "SAVED_KINDS",
    "SAVE_WITH_DEBUG_INFO",
    "SHRUNK_KINDS",
    "SPLIT_KINDS",
    "TENSOR_KINDS",
    "ZIP_KINDS",
    "FileKind",
    "Recognised",
    "check_companion",
    "head_kind",
    "imports_of",
    "is_packaged_pickle",
    "is_saved_dict",
    "is_slim",
    "kind_in",
    "listed_kind",
    "opened_archive",
    "opened_zip",
    "package_tensors",
    "recognise",
    "recognise_for",
    "recognise_zip",
    "saved_tensors",
    "unpickled",
]

PACKAGE = re.compile(r"\.data/(?:extern_modules\Z|ts_code/|\d+\.storage\Z)")
ALONE = {
    CONSTANTS,
    LEGACY_TREE,
    BYTECODE,
    CALLSTACK_MAP,
    *METHOD_RECORDS.values(),
}
"""Records that only TorchScript archives have."""
SPLIT_OFF, TAKEN_OUT, NOT_THERE = "was split off", "was taken out", "was taken out, or never saved"
FOLDER = "PyTorch wants them in one folder, so zip that folder"
FOLDERS = "this tool wants all files in one folder, so zip that folder alone"
SAVED_OBJECT = "an object saved by torch.save"
BY_NAMES, SAVED, IS_DICT = "kind", "kind of what was saved", "a dict was saved"
TENSORS_OF, IMPORTS_OF = "tensors of ", "imports of "
MANY_SAVED = "an object of many records was saved"
"""The names of what is found in a file's bytes; after the last two comes the record of a pickle."""
REFUSED_PICKLE = 1 << 16
"""Bytes of a pickle by ``torch.save`` that is read to name its object, though the file is refused."""
REFUSED_ENTRIES = 1_000
"""Entries of a zip by ``torch.save`` that are read and checked though the file is refused; of more, names."""
NAMES_PER_BYTE = 8
"""Bytes of memory that names take, for each byte of the directory."""
NO_ZIP = re.compile(rb"GGUF|.{4}(?:PTMF|ET[0-9]{2})|.{6}\0\0\{", re.DOTALL)
"""The first bytes of GGUF, of FlatBuffers, and of safetensors."""
COMPANION = Recognised(FileKind.COMPANION, "a companion, the debug info of an archive")


@bounded
def recognise(source: Source, *, limits: Limits = DEFAULT_LIMITS, look: bool = True) -> Recognised:
    """Recognise a file by its content.

    >>> str(recognise(b"version https://git-lfs.github.com/spec/v1"))
    'a Git LFS pointer: `git lfs pull` puts the file itself in its place'

    Args:
        source: a path or URL, a bytes-like object, or a binary file.
        limits: bounds on hostile input.
        look: read the pickle of a file by ``torch.save``, to name the kind of object in it.

    Returns:
        The kind of file, and a sentence about it.

    Raises:
        ArchiveError: the file is a zip that contradicts itself.
        OSError: the file cannot be read.
    """
    return _recognise(source, limits, SAVED_KINDS, look=look)


def recognise_for(source: Source, kinds: Collection[FileKind], *, limits: Limits) -> Recognised:
    """:func:`recognise` for a caller that works on some kinds only.

    A file of another kind is named by its first bytes, or by the names in a zip. Of an object by
    ``torch.save``, no long pickle is read, and of many entries no more than their names: it is an object.
    """
    return _recognise(source, limits, kinds, look=True)


def _recognise(source: Source, limits: Limits, kinds: Collection[FileKind], *, look: bool) -> Recognised:
    mapped = by_ranges(source)
    with memory.charged(limits.allowance(mapped.weight)):
        if is_companion(mapped.data):
            mapped.close()
            return COMPANION
        wanted: Collection[FileKind] = kinds if look else ()
        if not is_zip(mapped.data):
            try:
                return _no_zip(mapped.data, most=_longest_pickle(kinds) if look else 0)
            finally:
                mapped.close()
        if (refused := _many_saved(mapped, wanted)) is not None:
            mapped.close()
            return refused
        with Container(mapped, rooted=False) as container:
            return recognise_zip(container, look=look and _is_worth_a_look(container, kinds))


def is_zip(data: Bytes) -> bool:
    """Whether a file is a zip: it ends as one, and does not begin as a file whose last data may be one."""
    return NO_ZIP.match(bytes(data[:9])) is None and has_end(data)


def _longest_pickle(kinds: Collection[FileKind]) -> int:
    """Bytes of a pickle that are read to name the object in a file that isn't a zip."""
    return sys.maxsize if FileKind.LEGACY in kinds else REFUSED_PICKLE


def _many_saved(mapped: Mapped | Fetched, kinds: Collection[FileKind]) -> Recognised | None:
    """An object by ``torch.save`` in many records, where only ``kinds`` are worked on; else None.

    The names in the directory are enough to know the kind. The entries aren't checked: the file is refused.
    """
    if not SAVED_KINDS.isdisjoint(kinds):
        return None
    if MANY_SAVED not in mapped.found:
        mapped.found[MANY_SAVED] = _is_many_saved(mapped.data)
    return Recognised(FileKind.SAVED, SAVED_OBJECT) if mapped.found[MANY_SAVED] else None


def _is_many_saved(data: Bytes) -> bool:
    with suppress(ArchiveError):  # whoever opens it gets the error
        end = read_end(data)
        if end.entries <= REFUSED_ENTRIES:
            return False
        with memory.lent(NAMES_PER_BYTE * end.directory_size, "names of entries"):
            paths = names_only(data, end)
            root = f"{paths[0].partition('/')[0]}/"
            if not all(path.startswith(root) for path in paths):
                return False
            named = _by_names_only(root, {path[len(root) :] for path in paths})
        return named is not None and named.kind is FileKind.SAVED
    return False


def _is_worth_a_look(container: Container, kinds: Collection[FileKind]) -> bool:
    """Whether a pickle of ``torch.save`` is read where only ``kinds`` are worked on: others are refused."""
    saved = container.records.get(DATA)
    return saved is None or saved.size <= REFUSED_PICKLE or not SAVED_KINDS.isdisjoint(kinds)


def listed_kind(
    file: str | Path, *, limits: Limits = DEFAULT_LIMITS, mapped: bool = True, look: bool = False
) -> FileKind | None:
    """The kind of a file that a folder lists.

    Args:
        look: read the pickle of a file by ``torch.save``, to name the kind of object in it.

    Returns:
        None for a file of unknown kind: it is cut short, broken or unreadable, as opening it will show.
    """
    try:
        mode = stat.S_IFREG if is_url(file) else os.stat(file).st_mode  # noqa: PTH116 (pathlib costs start-up)
        if not stat.S_ISREG(mode):
            if not stat.S_ISDIR(mode):
                return FileKind.UNKNOWN
            # Where a search does not follow links, it lists a folder among files.
            return FileKind.LINK if os.path.islink(file) else FileKind.EMPTY_FOLDER  # noqa: PTH114 (the same)
        kind = recognise(file if mapped else in_memory(file), limits=limits, look=look).kind
    except (ArchiveError, OSError):
        return None
    return None if kind is FileKind.CUT else kind


def opened_archive(mapped: Mapped | Fetched, kinds: Collection[FileKind] = ARCHIVE_KINDS) -> Container:
    """Open a mapped archive."""
    if is_zip(mapped.data) and (refused := _many_saved(mapped, kinds)) is not None:
        mapped.close()
        raise refused.refusal(mapped.name)
    container = opened_zip(mapped, kinds)
    recognised = recognise_zip(container, look=_is_worth_a_look(container, kinds))
    if recognised.kind not in kinds:
        container.close()
        raise recognised.refusal(mapped.name)
    # A damaged name makes a record seem to be missing. Tensors are left out: they are numerous and far apart.
    container.check_names(name for name in container.records if kind_of(name) is not RecordKind.TENSOR)
    return container


def check_companion(mapped: Mapped | Fetched, limits: Limits) -> None:
    """Refuse a mapped file that isn't a companion."""
    if is_companion(mapped.data):
        return
    try:
        what = recognise(mapped.whole().data, limits=limits).what
    except LimitError:
        raise
    except ArchiveError:  # a zip that contradicts itself
        what = "a broken zip"
    finally:
        mapped.close()
    raise ArchiveError(expected="a companion", found=what, file=mapped.name)


def opened_zip(mapped: Mapped | Fetched, kinds: Collection[FileKind] = OPENED_KINDS) -> Container:
    """Open a mapped zip of any kind; if it isn't a zip, say what it is, for who works on ``kinds``."""
    if is_zip(mapped.data):
        return Container(mapped, rooted=False)
    try:
        raise _no_zip(mapped.data, most=_longest_pickle(kinds)).refusal(mapped.name)
    finally:
        mapped.close()


def head_kind(mapped: Mapped | Fetched) -> FileKind:
    """The kind of a file that isn't a zip, by its first bytes."""
    return _no_zip(mapped.data, most=0).kind


def _no_zip(data: Bytes, *, most: int) -> Recognised:
    if len(data) and LOCAL.magic.startswith(data[: len(LOCAL.magic)]):
        others = bytes_after(data)
        if others:
            what = f"a zip with {others:,} other byte{'s' * (others != 1)} after its end"
            whole = f"this tool wants it without them: `head -c {len(data) - others}`"
            return Recognised(FileKind.ZIP, what, whole)
        return Recognised(FileKind.CUT, "a zip without its end, cut short or with many other bytes after it")
    from archive.reader.recognition.heads import recognise_head  # noqa: PLC0415 (decompressors, for others)

    return recognise_head(data, most=most)


# --- zips


def recognise_zip(container: Container, *, look: bool = True) -> Recognised:
    """Recognise a zip, once for all that open its bytes.

    Args:
        look: read ``data.pkl`` of a file by ``torch.save``, to name the kind of object in it.
    """
    found = container.found
    if BY_NAMES not in found:
        found[BY_NAMES] = _by_names(container)
    recognised: Recognised = found[BY_NAMES]
    if not look or recognised.kind is not FileKind.SAVED:
        return recognised
    if SAVED not in found:
        try:
            found[SAVED] = _saved_object(container)
        except LimitError:
            raise
        except ArchiveError:
            found[SAVED] = Recognised(FileKind.SAVED, f"{SAVED_OBJECT}, whose {DATA} cannot be read")
    saved: Recognised = found[SAVED]
    return saved


def _by_names(container: Container) -> Recognised:
    """Recognise a zip by the names in it, and code by what is known of it."""
    named = _by_names_only(container.root, container.records)
    if named is not None:
        return named
    return _package(container) if _is_package(container.records) else _torchscript(container)


def _is_package(records: Collection[str]) -> bool:
    return any(PACKAGE.match(name) for name in records if name.startswith(PACKAGED))


def _by_names_only(root: str, records: Collection[str]) -> Recognised | None:
    """Recognise a zip by its root folder and the names in it; None if it may have TorchScript code."""
    if EXPORTED_FORMAT in records:
        if any(name.startswith(COMPILED) for name in records):
            return Recognised(FileKind.AOTI, "an AOTInductor package (.pt2)")
        embedded = " with its debug info in an embedded companion" if EMBEDDED_IN_EXPORTED in records else ""
        return Recognised(FileKind.EXPORTED, f"an exported program (.pt2){embedded}")
    if not root:
        return _without_folder(records)
    if _is_package(records):
        return None
    script = not ALONE.isdisjoint(records) or any(name.endswith(RANGES_SUFFIX) for name in records)
    # A folder ``code/`` proves nothing by itself: many zips have one.
    if script or (any(name in records for name in VERSION_RECORDS) and any(map(is_code, records))):
        return None
    if DATA in records:
        return Recognised(FileKind.SAVED, SAVED_OBJECT)
    return Recognised(FileKind.ZIP, _zip_of(records))


def _without_folder(records: Collection[str]) -> Recognised:
    """Recognise a zip whose files are not all in one folder."""
    if LEGACY_PROGRAM in records:
        what = "an exported program (.pt2) as PyTorch 2.1 to 2.7 saved them"
        return Recognised(FileKind.LEGACY_EXPORTED, what)
    if ETRECORD in records:
        return Recognised(FileKind.ETRECORD, "an ETRecord of ExecuTorch")
    if not ALONE.isdisjoint(records):
        what = "a zip of what is in a TorchScript archive, without the folder around it"
        return Recognised(FileKind.ZIP, what, FOLDER)
    if not ALONE.isdisjoint(name.partition("/")[2] for name in records):
        what = "a zip of several folders, a TorchScript archive among them"
        return Recognised(FileKind.ZIP, what, FOLDERS)
    return Recognised(FileKind.ZIP, _zip_of(records))


def _zip_of(records: Collection[str]) -> str:
    return f"a zip of {len(records):,} file{'' if len(records) == 1 else 's'}"


def saved_tensors(container: Container) -> dict[str, Tensor]:
    """The tensors in a zip by ``torch.save``, by their paths from the saved object."""
    return _tensors_of(container, DATA)


def _tensors_of(container: Container, name: str) -> dict[str, Tensor]:
    """The tensors in a pickle of Python's, read once for all that open the zip's bytes."""
    from archive.formats.tensors.pickled import tensors_in  # noqa: PLC0415 (for torch.save and torch.package)

    key = TENSORS_OF + name
    if key not in container.found:
        with memory.part():
            container.found[key] = tensors_in(unpickled(container, name))
    found: dict[str, Tensor] = container.found[key]
    return found


def _saved_object(container: Container) -> Recognised:
    """The kind of object in a zip by ``torch.save``; its tensors are found with it, while its values last."""
    from archive.formats.tensors.pickled import tensors_in  # noqa: PLC0415 (for torch.save only)
    from archive.pickles.values import Inert  # noqa: PLC0415 (for torch.save only)
    from archive.reader.recognition.saved import recognised  # noqa: PLC0415 (the same)

    with memory.part():
        value = unpickled(container)
        what = recognised(value)
        container.found[IS_DICT] = isinstance(value, Inert) and value.what == "dict"
        with suppress(ArchiveError):  # whoever asks for them gets the error
            container.found[TENSORS_OF + DATA] = tensors_in(value)
    return what


def is_saved_dict(container: Container) -> bool:
    """Whether an object by ``torch.save`` was recognised as a plain dict, which has no class of its own."""
    return bool(container.found.get(IS_DICT))


def is_packaged_pickle(record: ReadableRecord) -> bool:
    """Whether a file of a ``torch.package`` is a pickle of Python's: PyTorch writes protocol 3."""
    return not record.name.startswith(PACKAGED) and bytes(record.view()[:2]) == b"\x80\3"


def package_tensors(container: Container) -> dict[str, dict[str, Tensor]]:
    """The tensors in a ``torch.package``, by the records that Python pickled and their paths in each."""
    packaged = {}
    for name, record in container.records.items():
        if is_packaged_pickle(record):
            packaged[name] = {
                path: tensor.at(f"{PACKAGED}{tensor.record.rpartition('/')[2]}{STORAGE}")
                for path, tensor in _tensors_of(container, name).items()
            }
    return packaged


def unpickled(container: Container, name: str = DATA) -> object:
    """The value of a pickle that Python wrote, described rather than created."""
    from archive.pickles.machine import plain_value  # noqa: PLC0415 (the same)

    record, imported = container.records[name], set[str]()
    try:
        with in_file(container.file, name):
            value, _ = plain_value(record.view(), 0, imported=imported)
            return value
    finally:
        container.found[IMPORTS_OF + name] = imports_among(imported)


def imports_of(container: Container, name: str = DATA) -> Sequence[str]:
    """What Python imports for a pickle and ``weights_only`` refuses; of a broken one, up to the fault."""
    if IMPORTS_OF + name not in container.found:
        with memory.part(), suppress(ArchiveError):
            unpickled(container, name)
    found: Sequence[str] = container.found[IMPORTS_OF + name]
    return found


def _package(container: Container) -> Recognised:
    records, what = container.records, "a torch.package"
    # A file of the package's own that is named like a debug record.
    debug = (name for name in records if kind_of(name).is_debug and name not in (EMBEDDED, MIGRATED))
    strange = next((name for name in debug if not PACKAGE.match(name)), None)
    if strange is not None:
        what = f"{what} whose file {one_line(strange)} has the name of a debug record"
        return Recognised(
            FileKind.ZIP, what, f"this tool cannot tell the two apart; {commands_on(FileKind.ZIP)} it"
        )
    if not any(name.startswith(PACKAGE_CODE) for name in records):
        return Recognised(FileKind.PYTHON_PACKAGE, f"{what} without TorchScript modules")
    return _elsewhere(container, FileKind.PACKAGE, what) or Recognised(
        FileKind.PACKAGE, f"{what} with TorchScript modules"
    )


def _torchscript(container: Container) -> Recognised:
    records = container.records
    kind = FileKind.LITE if BYTECODE in records else FileKind.TORCHSCRIPT
    what = "a lite archive" if kind is FileKind.LITE else "a TorchScript archive"
    if elsewhere := _elsewhere(container, kind, what):
        return elsewhere
    if kind is FileKind.LITE and records.keys().isdisjoint({*HANDLE_RECORDS, *METHOD_RECORDS.values()}):
        return Recognised(kind, f"{what} without debug handles", f"{SAVE_WITH_DEBUG_INFO} saves them")
    return Recognised(kind, what)


def _elsewhere(container: Container, kind: FileKind, what: str) -> Recognised | None:
    """Recognise an archive whose debug info isn't where PyTorch puts it; None where it is."""
    if EMBEDDED in container.records:
        return Recognised(kind, f"{what} with its debug info in an embedded companion")
    gone = _gone(container)
    if not gone:
        return None
    what = f"{what} whose debug info {gone}"
    if gone != SPLIT_OFF:
        return Recognised(kind, what, f"there is none to work on; {commands_without_debug_info(kind)} it")
    kind = kind if kind is FileKind.PACKAGE else FileKind.SPLIT
    return Recognised(kind, what, split_advice(kind))


def _gone(container: Container) -> str:
    """What happened to the debug info of code that has none; "" if there is some, or no code."""
    if any(map(holds_ranges, container.records)):
        return ""
    kinds = {kind_of(name) for name in container.records}
    if kinds & KINDS_TO_SOURCE or not any(map(is_code, container.records)):
        return ""
    if is_slim(container):
        return SPLIT_OFF
    return TAKEN_OUT if METHOD_HANDLES in container.records else NOT_THERE


def is_slim(container: Container) -> bool:
    """Whether a zip has the layout that ``split`` and ``shrink`` write.

    PyTorch pads each record and puts a descriptor after it. Ordinary zip tools put a date into the header.
    """
    names = [name for name in container.records if is_code(name)]
    container.fetch(names)
    starts = (container.records[name].entry.start for name in names)
    headers = (LOCAL.read(container.by_place, start) for start in starts)
    return bool(names) and all(
        header.flags == FLAG_UTF8 and not header.extra_length and not header.modified for header in headers
    )
