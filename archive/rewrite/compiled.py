"""What ``inspect`` tells about compiled models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.reader.compiled import CompiledModel

TARGET = ("AOTI_DEVICE_KEY", "AOTI_PLATFORM", "AOTI_MACHINE", "AOTI_CPU_ISA", "AOTI_COMPUTE_CAPABILITY")
"""What a model was compiled for, as its metadata calls it."""


@dataclass(frozen=True, slots=True)
class CompiledFacts:
    """One compiled model.

    Attributes:
        target: device, system, machine and instructions that it was compiled for; "" where none is recorded.
        has_kernels: whether its kernels lead to source.
        kernels: places that call a kernel.
        traced: those whose stack traces are recorded.
        code_bytes: bytes of C++ code.
        object_bytes: bytes of shared objects; None where there are none.
        mapped_bytes: those that the loader maps; None where there are no shared objects, where these are of
            another format than ELF, or elsewhere.
    """

    target: str
    has_kernels: bool
    kernels: int
    traced: int
    code_bytes: int
    object_bytes: int | None
    mapped_bytes: int | None


def compiled_facts(models: Mapping[str, CompiledModel], *, read: bool) -> dict[str, CompiledFacts]:
    """The facts about each compiled model, by name.

    Args:
        models: of the archive.
        read: whether shared objects are read.

    Raises:
        ArchiveError: a model is broken.
    """
    return {name: _facts(model, read=read) for name, model in models.items()}


def _facts(model: CompiledModel, *, read: bool) -> CompiledFacts:
    kernels, objects = model.kernels.values(), model.objects
    return CompiledFacts(
        " ".join(model.metadata[key] for key in TARGET if model.metadata.get(key)),
        model.has_kernels,
        len(kernels),
        sum(bool(kernel.stack_traces) for kernel in kernels),
        model.size(*model.sources),
        model.size(*objects) if objects else None,
        _mapped(model) if read else None,
    )


def _mapped(model: CompiledModel) -> int | None:
    """Bytes of shared objects that the loader maps; None where that is not known."""
    from archive.formats.elf.parse import other_object, parse_object  # noqa: PLC0415 (few archives have shared objects)

    sizes = []
    for file in model.objects:
        data = model.view(file)
        if other_object(data):
            return None
        try:
            sizes.append(parse_object(data).mapped_bytes)
        except ArchiveError as error:
            raise error.within(record=model.records[file]) from error.__cause__
    return sum(sizes) if sizes else None
