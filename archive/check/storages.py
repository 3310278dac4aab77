"""Rules for the tensors of TorchScript: each lies in a storage that is there, and as long as it needs.

PyTorch refuses an archive without one of its storages. It does not look how long one is: it reads memory
after a record that is too short, which ends the process or gives any numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.diagnostics import Diagnostic, diagnostic_of
from archive.base.errors import ArchiveError, LimitError
from archive.formats.record_kinds import BYTECODE, CONSTANTS
from archive.reader.loading import MISSING_FILE, Loader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.base.diagnostics import Diagnostics
    from archive.formats.tensors.tensor import Tensor
    from archive.reader.archive import Archive
    from archive.reader.records import ReadableRecord

METHODS, CONSTANT = f"{BYTECODE.removesuffix('.pkl')}:", f"{CONSTANTS.removesuffix('.pkl').upper()}.c"


def check_storages(archive: Archive, report: Diagnostics) -> None:
    """Check the storages of all tensors. A pickle that cannot be read is an error once, of any check."""
    try:
        tensors = list(archive.tensors.items())
    except LimitError as error:
        report.add("note", "", "", f"storages of tensors are not looked for: {error.problem}")
        return
    except ArchiveError as error:
        problem = diagnostic_of(error)
        if problem.record not in {finding.record for finding in report.findings}:
            report.findings.append(problem)
        return
    report.add_all(_faults(archive.records, tensors))
    report.looked(len(tensors), "tensor", "looked for in its storage")


def _faults(records: Mapping[str, ReadableRecord], tensors: list[tuple[str, Tensor]]) -> Iterator[Diagnostic]:
    missing: set[str] = set()
    for name, tensor in tensors:
        record = tensor.record
        storage = records.get(record)
        if not record or record in missing:
            continue
        if storage is None:
            missing.add(record)
            refusal = f'{_loader(name)} refuses it: "{MISSING_FILE.format(record)}"'
            yield Diagnostic("error", record, "", f"no such storage, for {name}; {refusal}")
        elif tensor.width is not None:
            try:
                tensor.span(storage.size)
            except ArchiveError as error:
                problem = diagnostic_of(error).message
                yield Diagnostic("error", record, name, f"{problem}; PyTorch 2.13 reads memory beyond it")


def _loader(name: str) -> Loader:
    """The part of PyTorch that loads a tensor."""
    if name.startswith(METHODS):
        return Loader.LITE
    return Loader.TORCHSCRIPT if name.startswith(CONSTANT) else Loader.BOTH
