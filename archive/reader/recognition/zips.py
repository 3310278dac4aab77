"""Zips are recognised by the names of their files; those by ``torch.save`` by their pickle, too.

- ``archive_format`` stands in ``.pt2`` files alone, with ``data/aotinductor/`` if they are compiled; PyTorch
  2.1 to 2.7 wrote ``serialized_exported_program.json`` instead, outside of any folder.
- ``.data/extern_modules``, ``.data/N.storage`` or ``.data/ts_code/``: ``torch.package``.
- ``bytecode.pkl``: an archive for the lite interpreter. ``constants.pkl``, ``model.json`` (PyTorch 1.0 to
  1.2), code or debug records: TorchScript.
- ``data.pkl`` without these: ``torch.save``, from PyTorch 1.6 on.
- ``ETRECORD_V0`` outside of any folder: an ETRecord of ExecuTorch.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, one_line
from archive.container.headers import FLAG_UTF8, LOCAL
from archive.formats.method_handles import METHOD_RECORDS
from archive.formats.record_kinds import (
    BYTECODE,
    CALLSTACK_MAP,
    COMPILED,
    DATA,
    EMBEDDED,
    EMBEDDED_IN_EXPORTED,
    ETRECORD,
    EXPORTED_FORMAT,
    KINDS_TO_SOURCE,
    LEGACY_PROGRAM,
    LEGACY_TREE,
    METHOD_HANDLES,
    MIGRATED,
    PACKAGE_CODE,
    RANGES_SUFFIX,
    VERSION_RECORDS,
    RecordKind,
    is_code,
    kind_of,
)
from archive.reader.recognition.kinds import ADVICE, SAVE_WITH_DEBUG_INFO, SHOWN, FileKind, Recognised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.limits import Allowance
    from archive.container.container import Container
    from archive.container.record import Record
    from archive.formats.tensors.tensor import Tensor

PACKAGED, PICKLED = (".data/", ".storage"), b"\x80\3"
"""Folder and ending of a package's storages, and how its pickles begin: PyTorch writes protocol 3."""
PACKAGE = re.compile(r"\.data/(?:extern_modules\Z|ts_code/|\d+\.storage\Z)")
ALONE = {
    "constants.pkl",
    LEGACY_TREE,
    BYTECODE,
    CALLSTACK_MAP,
    *METHOD_RECORDS.values(),
}
"""Records that only TorchScript archives have."""
HANDLE_RECORDS = {*METHOD_RECORDS.values(), CALLSTACK_MAP}
SPLIT_OFF, TAKEN_OUT, NOT_THERE = "was split off", "was taken out", "was taken out, or never saved"
WITHOUT = {SPLIT_OFF: ADVICE[FileKind.SPLIT]} | dict.fromkeys(
    (TAKEN_OUT, NOT_THERE), f"there is none to work on; {SHOWN}"
)
"""Advice by what became of the debug info."""
FOLDER = "PyTorch wants them in one folder, so zip that folder"
FOLDERS = "this tool wants all files in one folder, so zip that folder alone"


def recognise_zip(container: Container, *, look: bool = True) -> Recognised:
    """Recognise a zip.

    Args:
        container: the zip.
        look: read ``data.pkl`` of a file by ``torch.save``, to name the kind of object in it.
    """
    records = container.records
    if EXPORTED_FORMAT in records:
        return _exported(records)
    if not container.root:
        return _without_folder(records)
    if any(PACKAGE.match(name) for name in records if name.startswith(".data/")):
        return _package(container)
    if _is_script(records):
        return _torchscript(container)
    if DATA in records:
        return _saved(container) if look else Recognised(FileKind.SAVED, SAVED_OBJECT)
    return Recognised(FileKind.ZIP, _zip_of(records))


def _without_folder(records: Mapping[str, Record]) -> Recognised:
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


def _zip_of(records: Mapping[str, Record]) -> str:
    return f"a zip of {len(records):,} file{'' if len(records) == 1 else 's'}"


SAVED_OBJECT = "an object saved by torch.save"


def saved_tensors(container: Container) -> dict[str, Tensor]:
    """The tensors in a zip by ``torch.save``, by their paths from the saved object.

    Raises:
        ArchiveError: the pickle cannot be read.
    """
    from archive.reader.recognition.saved import tensors_in  # noqa: PLC0415 (for torch.save alone)

    with container.allowance.part() as values:
        return tensors_in(unpickled(container, values))


def package_tensors(container: Container) -> dict[str, dict[str, Tensor]]:
    """The tensors in a ``torch.package``, by the records that Python pickled and their paths in each.

    Raises:
        ArchiveError: a pickle cannot be read.
    """
    from archive.reader.recognition.saved import tensors_in  # noqa: PLC0415 (for torch.package alone)

    found = {}
    for name, record in container.records.items():
        if not name.startswith(PACKAGED[0]) and bytes(record.view()[: len(PICKLED)]) == PICKLED:
            with container.allowance.part() as values:
                tensors = tensors_in(unpickled(container, values, name))
            found[name] = {path: tensor.at(_in_package(tensor.record)) for path, tensor in tensors.items()}
    return found


def _in_package(record: str) -> str:
    """The record of a storage by the name that it has elsewhere: ``data/0``."""
    return f"{PACKAGED[0]}{record.rpartition('/')[2]}{PACKAGED[1]}"


def unpickled(container: Container, allowance: Allowance, name: str = DATA) -> object:
    """The value of a pickle that Python wrote, described and not made.

    Raises:
        ArchiveError: it cannot be read.
    """
    from archive.formats.python_pickle import plain_value  # noqa: PLC0415 (the same)

    record = container.records[name]
    try:
        value, _ = plain_value(record.view(), 0, allowance)
    except ArchiveError as error:
        raise error.within(file=container.file, record=name) from error.__cause__
    return value


def _is_script(records: Mapping[str, Record]) -> bool:
    """Whether a zip is TorchScript's. A folder ``code/`` alone is no proof: many zips have one."""
    if not ALONE.isdisjoint(records) or any(name.endswith(RANGES_SUFFIX) for name in records):
        return True
    return any(name in records for name in VERSION_RECORDS) and any(map(is_code, records))


def _exported(records: Mapping[str, Record]) -> Recognised:
    if any(name.startswith(COMPILED) for name in records):
        return Recognised(FileKind.AOTI, "an AOTInductor package (.pt2)")
    embedded = " with its debug info in an embedded companion" if EMBEDDED_IN_EXPORTED in records else ""
    return Recognised(FileKind.EXPORTED, f"an exported program (.pt2){embedded}")


def _package(container: Container) -> Recognised:
    records, what = container.records, "a torch.package"
    strange = next(filter(_is_strange, records), None)
    if strange is not None:
        what = f"{what} whose file {one_line(strange)} has the name of a debug record"
        return Recognised(FileKind.ZIP, what, f"this tool cannot tell the two apart; {SHOWN}")
    if not any(name.startswith(PACKAGE_CODE) for name in records):
        return Recognised(FileKind.PYTHON_PACKAGE, f"{what} without TorchScript modules")
    return _elsewhere(container, FileKind.PACKAGE, what) or Recognised(
        FileKind.PACKAGE, f"{what} with TorchScript modules"
    )


def _is_strange(name: str) -> bool:
    """Whether a package's own file has the name of a debug record."""
    return kind_of(name).is_debug and name not in (EMBEDDED, MIGRATED) and not PACKAGE.match(name)


def _saved(container: Container) -> Recognised:
    from archive.reader.recognition.saved import recognised  # noqa: PLC0415 (the same)

    with suppress(ArchiveError), container.allowance.part() as values:
        return recognised(unpickled(container, values))
    return Recognised(FileKind.SAVED, f"{SAVED_OBJECT}, whose {DATA} cannot be read")


def _torchscript(container: Container) -> Recognised:
    """Recognise a TorchScript or lite archive."""
    records = container.records
    kind = FileKind.LITE if BYTECODE in records else FileKind.TORCHSCRIPT
    what = "a lite archive" if kind is FileKind.LITE else "a TorchScript archive"
    if found := _elsewhere(container, kind, what):
        return found
    if kind is FileKind.LITE and HANDLE_RECORDS.isdisjoint(records):
        return Recognised(kind, f"{what} without debug handles", f"{SAVE_WITH_DEBUG_INFO} saves them")
    return Recognised(kind, what)


def _elsewhere(container: Container, kind: FileKind, what: str) -> Recognised | None:
    """Recognise an archive whose debug info is not where PyTorch puts it; None where it is."""
    if EMBEDDED in container.records:
        return Recognised(kind, f"{what} with its debug info in an embedded companion")
    gone = _gone(container)
    if not gone:
        return None
    split = gone == SPLIT_OFF and kind is not FileKind.PACKAGE
    return Recognised(FileKind.SPLIT if split else kind, f"{what} whose debug info {gone}", WITHOUT[gone])


def _gone(container: Container) -> str:
    """The fate of the debug info of code that has none; "" where some is there, or no code."""
    if any(name.endswith(RANGES_SUFFIX) for name in container.records):
        return ""
    kinds = {kind_of(name) for name in container.records}
    if kinds & KINDS_TO_SOURCE or RecordKind.CODE not in kinds:
        return ""
    if is_slim(container):
        return SPLIT_OFF
    return TAKEN_OUT if METHOD_HANDLES in container.records else NOT_THERE


def is_slim(container: Container) -> bool:
    """Whether a zip has the layout that ``split`` and ``shrink`` write.

    PyTorch pads each record and puts a descriptor behind it. Ordinary zip tools put a date into the header.
    """
    names = [name for name in container.records if kind_of(name) is RecordKind.CODE]
    container.fetch(names)
    code = [container.records[name] for name in names]
    headers = [LOCAL.read(container.by_place, record.entry.start) for record in code]
    return bool(headers) and all(
        header.flags == FLAG_UTF8 and not header.extra_length and not header.modified for header in headers
    )
