"""What the loader of a compiled model does not need: it is debug information.

The loader of PyTorch 2.13 takes the shared object in the model's folder. It reads the metadata named after
the last C++ source (``X.cpp``, ``X_metadata.json``), or after the shared object without a source. So the
sources can go together, if the shared object has metadata. Without a shared object, sources are
compiled. ``kernel_information.json`` is never read, and of a shared object only what the system's loader
maps: :mod:`archive.formats.elf`.

Source: ``torch/csrc/inductor/aoti_package/model_package_loader.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError
from archive.formats.record_kinds import COMPILED, KERNELS, SHARED_OBJECTS, SpareKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.container.record import Record
    from archive.formats.elf.cutting import Cut


OBJECT, SOURCE, METADATA = ".so", ".cpp", "_metadata.json"
"""The ending of the object that is loaded on Linux and macOS, where sources are compiled for want of one."""


def spare_records(names: Iterable[str]) -> dict[str, SpareKind]:
    """The records of an archive that no loader needs, in their order."""
    models: dict[str, list[str]] = {}
    for name in names:
        model, slash, file = name.removeprefix(COMPILED).partition("/")
        if name.startswith(COMPILED) and slash:
            models.setdefault(f"{COMPILED}{model}/", []).append(file)
    spare = {}
    for folder, files in models.items():
        objects = [file for file in files if file.endswith(OBJECT)]
        loads = bool(objects) and {file.removesuffix(OBJECT) + METADATA for file in objects}.issubset(files)
        for file in files:
            if file == KERNELS:
                spare[folder + file] = SpareKind.KERNELS
            elif loads and file.endswith(SOURCE):
                spare[folder + file] = SpareKind.SOURCES
    return spare


def is_object(name: str) -> bool:
    """Whether a record is a shared object by its name."""
    return name.startswith(COMPILED) and name.endswith(SHARED_OBJECTS)


def cut_of(record: Record) -> Cut | None:
    """A shared object in two parts; None if it stays whole."""
    from archive.formats.elf.cutting import cut  # noqa: PLC0415 (few archives have shared objects)

    data = record.view()
    try:
        return cut(data)
    except LimitError:
        raise
    except ArchiveError:  # `verify` reports it
        return None


def why_whole(data: memoryview) -> str:
    """Why a shared object stays whole, in words; "" if it can be cut, or if nothing follows its segments."""
    from archive.formats.elf import cutting  # noqa: PLC0415 (few archives have shared objects)

    try:
        why = cutting.why_whole(data)
    except ArchiveError as problem:
        return str(problem)
    return "" if why == cutting.NOTHING_BEHIND else why
