"""Programs of ExecuTorch as files of tensors: constants, blobs of backends and named data are records.

``program`` is the FlatBuffer without what is inline in it, and without ``frames``, the stack traces of its
instructions. ``data/N`` are the elements of the Nth distinct constant or first value, in the order of the
file; several tensors may share them, and a tensor has the name of its parameter where the file says it, else
that of its method and value: ``forward.values.3``. ``blobs/N.BACKEND`` is what a backend made; ``named/KEY``
is data that has a name. ``segments/N`` is a segment that nothing refers to.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, counted, shown
from archive.formats.executorch.frames import frame_spans
from archive.formats.executorch.program import program_root, read_program
from archive.formats.record_kinds import (
    BLOBS,
    DATA_FOLDER,
    FRAMES_RECORD,
    NAMED,
    PROGRAM_RECORD,
    SEGMENTS,
    RecordKind,
)
from archive.formats.tensor_files.described import FileRecord, TensorFile, header_around, take_tensor
from archive.formats.tensors.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.executorch.model import ExecutorchProgram, ProgramTensor, Span
    from archive.io.ranged import Bytes


def read_executorch(data: Bytes) -> TensorFile:
    """Read what a program says of its methods and data. A remote file is fetched whole."""
    data = data if isinstance(data, memoryview) else data[: len(data)]
    program, frames = read_program(data), frame_spans(program_root(data))
    records = dict(_records(program))
    if frames:
        records[FRAMES_RECORD] = FileRecord(RecordKind.FRAMES, tuple(frames))
    spans = _without_overlaps(records)
    size = program.flatbuffer[1]
    outside = header_around(size, [span for span in spans if span[1] <= size])
    records = {PROGRAM_RECORD: FileRecord(RecordKind.GRAPH, outside)} | records
    name_of = {span: name for name, record in records.items() for span in record.spans}
    tensors = dict(_tensors(program, name_of))
    methods = ", ".join(shown(method.name) for method in program.methods)
    padding = max([size, *(stop for _, stop in program.segments)]) - size
    padding -= sum(stop - start for start, stop in spans if start >= size)
    what = f"an ExecuTorch program of {counted(len(program.methods), 'method')} ({methods})"
    return TensorFile(what, records, tensors, padding=padding)


def _records(program: ExecutorchProgram) -> Iterator[tuple[str, FileRecord]]:
    """The data of a program by name, each stretch of the file once."""
    seen = set[tuple[int, int]]()
    data = {
        tensor.data
        for method in program.methods
        for tensor in method.tensors.values()
        if tensor.data is not None and tensor.data[0] < tensor.data[1]
    }
    memory.take(4 * memory.ROW * len(data), "constants")
    for number, span in enumerate(sorted(data)):
        seen.add(span)
        yield f"{DATA_FOLDER}{number}", FileRecord(RecordKind.TENSOR, (span,))
    blobs = {blob.span: blob.backend for method in program.methods for blob in method.blobs}
    for number, (span, backend) in enumerate(sorted(blobs.items())):
        if span[0] < span[1]:
            seen.add(span)
            yield f"{BLOBS}{number}.{backend}", FileRecord(RecordKind.COMPILED, (span,))
    for key, span in program.named.items():
        if span not in seen and span[0] < span[1]:
            seen.add(span)
            yield f"{NAMED}{key}", FileRecord(RecordKind.NAMED, (span,))
    starts = sorted(start for start, _ in seen)
    for number, (start, stop) in enumerate(program.segments):
        if start < stop and not _has_one(starts, start, stop):
            yield f"{SEGMENTS}{number}", FileRecord(RecordKind.OTHER, ((start, stop),))


def _has_one(starts: list[int], start: int, stop: int) -> bool:
    """Whether one of some ascending places is in a stretch."""
    at = bisect_left(starts, start)
    return at < len(starts) and starts[at] < stop


def _without_overlaps(records: dict[str, FileRecord]) -> list[Span]:
    """The stretches of all records in the order of the file, which do not overlap."""
    spans = sorted((span, name) for name, record in records.items() for span in record.spans)
    for ((_, stop), name), ((start, _), other) in pairwise(spans):
        if start < stop:
            raise ArchiveError(f"{shown(name)} and {shown(other)} overlap", place=f"byte {start:,}")
    return [span for span, _ in spans]


def _tensors(program: ExecutorchProgram, name_of: dict[Span, str]) -> Iterator[tuple[str, Tensor]]:
    """The tensors with elements in the file, or in one beside it."""
    taken = set[str]()
    for method in program.methods:
        for number, tensor in method.tensors.items():
            if tensor.data is None and not tensor.is_external:
                continue
            name = (
                tensor.name if tensor.name and tensor.name not in taken else f"{method.name}.values.{number}"
            )
            take_tensor(name)
            taken.add(name)
            record = "" if tensor.data is None else name_of.get(tensor.data, "")
            yield name, Tensor(tensor.dtype, tensor.shape, strides(tensor), 0, record)


def strides(tensor: ProgramTensor) -> tuple[int, ...]:
    """Elements between neighbours of each dimension.

    The innermost dimension of ``order`` has 1, each other one the elements of all those inside of it.
    """
    found, step = [0] * len(tensor.shape), 1
    for dimension in reversed(tensor.order or range(len(tensor.shape))):
        found[dimension] = step
        step *= max(tensor.shape[dimension], 1)
    return tuple(found)
