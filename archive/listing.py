"""What is in a zip that is no archive: its files, and what ``torch.save`` wrote of tensors, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.errors import ArchiveError
from archive.formats.kinds import RecordKind, kind_of
from archive.formats.values import DATA
from archive.limits import DEFAULT_LIMITS, Limits
from archive.mapping import Mapped
from archive.recognition import SHOWN, FileKind, SavedTensor, opened_zip, recognise_zip, saved_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.mapping import Source

SAVED = {FileKind.STATE_DICT, FileKind.CHECKPOINT, FileKind.MODULE, FileKind.SAVED}


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file of a zip: sizes in bytes."""

    kind: RecordKind
    size: int
    stored_size: int
    compression: str


@dataclass(frozen=True, slots=True)
class Listing:
    """A zip that is no archive, at a glance.

    Attributes:
        file: its name.
        kind: of the file.
        what: the same in words.
        advice: what else can be done with it.
        root: the folder that all files are in; "" where there is none.
        size: of the whole file, in bytes.
        records: its files by name, in the zip's order.
        tensors: by the way that leads to each from the saved object; empty where there are none.
        unread: why the tensors are not known; "" where they are.
    """

    file: str
    kind: FileKind
    what: str
    advice: str
    root: str
    size: int
    records: Mapping[str, FileFacts]
    tensors: Mapping[str, SavedTensor]
    unread: str


def listed(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> Listing:
    """Look into a zip of any kind. Nothing in it is executed.

    Args:
        source: a path, a bytes-like object, or a binary file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: it is no zip (the error says what it is), or one that contradicts itself.
        OSError: it cannot be read.
    """
    with opened_zip(Mapped(source), limits) as container:
        found = recognise_zip(container, limits)
        tensors: dict[str, SavedTensor] = {}
        unread = ""
        if found.kind in SAVED:
            try:
                tensors = saved_tensors(container, limits)
            except ArchiveError as error:
                unread = str(error).removeprefix(f"{container.file}: ")
        return Listing(
            container.file,
            found.kind,
            found.what,
            found.advice.removesuffix(f"; {SHOWN}"),
            container.root,
            len(container.data),
            {
                name: FileFacts(_kind(name, found.kind), record.size, record.stored_size, record.compression)
                for name, record in container.records.items()
            },
            tensors,
            unread,
        )


def _kind(name: str, file: FileKind) -> RecordKind:
    """What a file of the zip is: by its name, where that is one that PyTorch gives."""
    kind = kind_of(name)
    if file is FileKind.ZIP or (kind.is_debug and file not in SAVED):
        return RecordKind.OTHER
    if file is FileKind.PYTHON_PACKAGE and not name.startswith(".data/") and name != "byteorder":
        return RecordKind.OTHER  # the user's own, whatever its name
    return RecordKind.OBJECT if name == DATA else kind
