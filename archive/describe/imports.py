"""What Python would import to read the pickles of a file: the names that ``weights_only`` refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.record_kinds import DATA
from archive.io.mapped import Mapped
from archive.reader.recognition import (
    PACKAGE_KINDS,
    PROGRAM_KINDS,
    SAVED_KINDS,
    FileKind,
    imports_of,
    is_packaged_pickle,
    is_zip,
    opened_zip,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.container.container import Container
    from archive.reader.archive import Archive

SAVED_INSIDE = ".pt"
"""Ends the records of exported programs that ``torch.save`` wrote."""


def imports_in(container: Container, kind: FileKind) -> Sequence[str] | None:
    """The imports of all pickles of a zip; None where Python reads none."""
    if kind in SAVED_KINDS:
        return imports_of(container)
    if kind in PACKAGE_KINDS:
        return _merged(imports_of(container, name) for name in _packaged(container))
    if kind in PROGRAM_KINDS:
        return _merged(_inside(container))
    return None


def imports_of_file(archive: Archive) -> Sequence[str] | None:
    """The imports of a file that isn't a zip; None where Python reads no pickle in it."""
    if archive.tensor_file is None or archive.recognised.kind is not FileKind.LEGACY:
        return None
    return archive.tensor_file.imports


def _packaged(container: Container) -> Iterator[str]:
    return (name for name, record in container.records.items() if is_packaged_pickle(record))


def _inside(container: Container) -> Iterator[Sequence[str]]:
    """The imports of each record that is a zip by ``torch.save``."""
    for name, record in container.records.items():
        if name.endswith(SAVED_INSIDE) and is_zip(record.view()):
            with opened_zip(Mapped(record.view(), name)) as inside:
                if DATA in inside.records:
                    yield imports_of(inside)


def _merged(several: Iterator[Sequence[str]]) -> Sequence[str]:
    return sorted({name for names in several for name in names})
