"""Which tensors of compiled models two archives name both: C++ code tells the names, and may be taken out.

Weights that one archive alone names are compared as a whole, where ``records`` compares their file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.record_kinds import COMPILED

if TYPE_CHECKING:
    from archive.reader.archive import Archive


def tells_tensors_of(archive: Archive, record: str) -> bool:
    """Whether an archive has tensors that lie in a file of a compiled model."""
    return any(_file_of(storage) == record for storage in archive.tensors.storages)


def without_names(archive: Archive, other: Archive) -> set[str]:
    """The tensors of compiled models that another archive has, too, but not their names."""
    files = {file for file in map(_file_of, archive.tensors.storages) if file in other.records}
    nameless = {file for file in files if not tells_tensors_of(other, file)}
    return {name for name, tensor in archive.tensors.items() if _file_of(tensor.record) in nameless}


def _file_of(storage: str) -> str:
    """The file of a compiled model that a storage is a part of; "" for other storages."""
    return storage.rpartition(":")[0] if storage.startswith(COMPILED) else ""
