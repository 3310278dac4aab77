"""What a zip is, told by the names of its files; for ``torch.save``, by its pickle, too.

- ``archive_format`` stands in ``.pt2`` files alone, with ``data/aotinductor/`` where they are compiled.
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

from archive.errors import ArchiveError
from archive.formats import bytecode, callstack_map, methods
from archive.formats.kinds import EMBEDDED, PACKAGE_CODE, VERSIONS, RecordKind, is_code, kind_of
from archive.formats.source_ranges import SUFFIX
from archive.formats.values import DATA
from archive.pickles.plain import plain_value
from archive.recognition.kinds import NO_CODE, SAVE_WITH_DEBUG_INFO, SHOWN, FileKind, Recognised
from archive.recognition.saved import recognised, tensors_in
from archive.zipfmt.headers import FLAG_UTF8, LOCAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.container import Container, Record
    from archive.limits import Limits
    from archive.recognition.saved import SavedTensor

PACKAGE = re.compile(r"\.data/(?:extern_modules\Z|ts_code/|\d+\.storage\Z)")
ALONE = {"constants.pkl", "model.json", bytecode.NAME, callstack_map.NAME, methods.HANDLES, methods.PATHS}
"""Records that only TorchScript has."""
FOLDER = "PyTorch wants all files in one folder, so zip that folder, not what is in it"
ARCHIVE_FORMAT, AOTI = "archive_format", "data/aotinductor/"
ETRECORD = "ETRECORD_V0"
DEBUG_KINDS = {RecordKind.RANGES, RecordKind.DELEGATED, RecordKind.CALLSTACKS, RecordKind.PATHS}


def recognise_zip(container: Container, limits: Limits, *, look: bool = True) -> Recognised:
    """What a zip is.

    Args:
        container: the zip.
        limits: what hostile input may cost.
        look: read ``data.pkl`` of what ``torch.save`` wrote, to tell what it is of.
    """
    records = container.records
    if ARCHIVE_FORMAT in records:
        return _exported(records)
    if any(map(PACKAGE.match, records)):
        return _package(records)
    if _is_script(records):
        return _script(container)
    if DATA in records:
        return _saved(container, limits) if look else Recognised(FileKind.SAVED, SAVED)
    if ETRECORD in records and not container.root:
        return Recognised(FileKind.ETRECORD, "an ETRecord of ExecuTorch")
    return Recognised(FileKind.ZIP, f"a zip of {len(records):,} file{'' if len(records) == 1 else 's'}")


SAVED = "an object saved by torch.save"


def saved_tensors(container: Container, limits: Limits) -> dict[str, SavedTensor]:
    """The tensors in what ``torch.save`` wrote, by the way that leads to each.

    Raises:
        ArchiveError: its pickle cannot be read.
    """
    return tensors_in(_unpickled(container, limits))


def _unpickled(container: Container, limits: Limits) -> object:
    try:
        value, _ = plain_value(container.records[DATA].view(), 0, limits)
    except ArchiveError as error:
        raise error.within(file=container.file, record=DATA) from error.__cause__
    return value


def _is_script(records: Mapping[str, Record]) -> bool:
    """Whether there is what only TorchScript has; a folder of code alone has many a zip."""
    if not ALONE.isdisjoint(records) or any(name.endswith(SUFFIX) for name in records):
        return True
    return any(name in records for name in VERSIONS) and any(map(is_code, records))


def _exported(records: Mapping[str, Record]) -> Recognised:
    if any(name.startswith(AOTI) for name in records):
        return Recognised(FileKind.AOTI, "an AOTInductor package (.pt2)")
    return Recognised(FileKind.EXPORTED, "an exported program (.pt2)")


def _package(records: Mapping[str, Record]) -> Recognised:
    if any(name.startswith(PACKAGE_CODE) for name in records):
        return Recognised(FileKind.PACKAGE, "a torch.package with TorchScript modules")
    return Recognised(FileKind.PACKAGE, "a torch.package without TorchScript modules", NO_CODE)


def _saved(container: Container, limits: Limits) -> Recognised:
    with suppress(ArchiveError):
        return recognised(_unpickled(container, limits))
    return Recognised(FileKind.SAVED, f"{SAVED}, whose {DATA} cannot be read")


def _script(container: Container) -> Recognised:
    """A TorchScript or lite archive, and where its debug info is."""
    records = container.records
    kind = FileKind.LITE if bytecode.NAME in records else FileKind.TORCHSCRIPT
    what = "a lite archive" if kind is FileKind.LITE else "a TorchScript archive"
    if not container.root:
        return Recognised(FileKind.ZIP, f"a zip of what is in {what}, without the folder around it", FOLDER)
    if EMBEDDED in records:
        return Recognised(kind, f"{what} with its debug info in an embedded companion")
    handles, stacks = methods.HANDLES in records, callstack_map.NAME in records
    kinds = {kind_of(name) for name in records}
    if not kinds & DEBUG_KINDS and RecordKind.CODE in kinds:
        if is_slim(container):
            return Recognised(FileKind.SPLIT, f"{what} whose debug info was split off")
        gone = "was taken out" if handles else "was taken out, or never saved"
        return Recognised(kind, f"{what} whose debug info {gone}", f"there is none to work on; {SHOWN}")
    if kind is FileKind.LITE and not handles and not stacks and methods.PATHS not in records:
        return Recognised(kind, f"{what} without debug handles", f"{SAVE_WITH_DEBUG_INFO} saves them")
    return Recognised(kind, what)


def is_slim(container: Container) -> bool:
    """Whether a zip is laid out as ``split`` and ``shrink`` do it.

    PyTorch pads each record and puts a descriptor behind it; ordinary zip tools put a date into the header.
    """
    code = (record for name, record in container.records.items() if kind_of(name) is RecordKind.CODE)
    headers = [LOCAL.read(container.data, record.entry.start) for record in code]
    return bool(headers) and all(
        header.flags == FLAG_UTF8 and not header.extra_length and not header.modified for header in headers
    )
