"""What a file of tensors that isn't a zip says of the model, its tensors, and its other records."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.describe.imports import imports_of_file
from archive.describe.listing import FileFacts, TensorFacts
from archive.describe.sizes.pieces import stored_debug_bytes
from archive.reader.opening import open as open_archive
from archive.reader.recognition import TENSOR_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.describe.executorch import ExecutorchMethod
    from archive.formats.tensor_files.described import Value
    from archive.io.mapped import Source
    from archive.reader.records import TensorRecords


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """A class whose source is in a file of ``torch.save``.

    Attributes:
        name: of the class.
        file: where it was defined.
        bytes: of its source.
    """

    name: str
    file: str
    bytes: int


@dataclass(frozen=True, slots=True)
class TensorListing:
    """The contents of a file of tensors that isn't a zip, or of a model in several files.

    Attributes:
        file: its name.
        kind: of the file.
        what: the kind in words.
        advice: what can be done with the file.
        size: of all its files, in bytes.
        debug_bytes: stored bytes of debug info, as ``sizes`` counts them: a shard may have some.
        files: the model's files and their sizes in bytes, its own first.
        missing: files that it names, and that are not there.
        metadata: what it says of the model; NaN and infinite numbers are texts.
        sources: classes whose source is in it.
        records: its records by name.
        imports: what Python imports to read its pickles, and ``torch.load`` refuses with ``weights_only``;
            null where Python reads none of it.
        tensors: by their names. The storage of each is a record, or a part of one; "" where there is none.
        executorch_methods: of an ExecuTorch program, by name; empty of other files.
    """

    file: str
    kind: FileKind
    what: str
    advice: str
    size: int
    debug_bytes: int
    files: Mapping[str, int]
    missing: Sequence[str]
    metadata: Mapping[str, Value]
    sources: Sequence[ClassFacts]
    records: Mapping[str, FileFacts]
    imports: Sequence[str] | None
    tensors: Mapping[str, TensorFacts]
    executorch_methods: Mapping[str, ExecutorchMethod]


@bounded
def listed_tensors(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> TensorListing:
    """List what is in a file of tensors that isn't a zip. Only the header of a remote file is fetched."""
    with (
        open_archive(source, limits=limits, kinds=TENSOR_KINDS) as archive,
        memory.charged(archive.allowance),
    ):
        tensor_file = cast("TensorRecords", archive.tensor_file)
        return TensorListing(
            file=archive.file,
            kind=tensor_file.recognised.kind,
            what=tensor_file.recognised.what,
            advice=tensor_file.recognised.reason,
            size=archive.size,
            debug_bytes=stored_debug_bytes(archive),
            files=tensor_file.files,
            missing=tensor_file.missing,
            metadata=tensor_file.metadata,
            sources=[ClassFacts(one.name, one.file, len(one.text.encode())) for one in tensor_file.sources],
            imports=imports_of_file(archive),
            records={
                name: FileFacts(tensor_file.kinds[name], one.size, one.stored_size, one.compression)
                for name, one in archive.records.items()
            },
            tensors={
                name: TensorFacts(one.dtype, one.shape, one.bytes, one.record)
                for name, one in archive.tensors.items()
            },
            executorch_methods=_executorch_methods(tensor_file),
        )


def _executorch_methods(tensor_file: TensorRecords) -> dict[str, ExecutorchMethod]:
    if tensor_file.recognised.kind is not FileKind.EXECUTORCH:
        return {}
    from archive.describe.executorch import executorch_methods  # noqa: PLC0415 (few files have some)

    with in_file(tensor_file.file):
        return executorch_methods(tensor_file.data)
