"""Turns TorchScript archives into archives for the lite interpreter, with the call stacks of all operations.

PyTorch does both steps, loading and saving, but loses calls on the way: see
:mod:`archive.backend.lower.relocate`. Here these get their source ranges before PyTorch loads the archive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.backend.errors import BackendError
from archive.backend.lower.loading import check_loading
from archive.backend.lower.reloading import reloaded
from archive.backend.lower.saving import write_lowered
from archive.base import memory
from archive.base.errors import ArchiveError, LoweringError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.formats.record_kinds import RecordKind, kind_of
from archive.reader.opening import open as open_archive
from archive.reader.recognition import LOADED_KINDS
from archive.reader.rewriting import rewriting

if TYPE_CHECKING:
    from archive.io.mapped import Source
    from archive.io.output import Sink


@dataclass(frozen=True, slots=True)
class Lite:
    """An archive that was written for the lite interpreter.

    Attributes:
        size: bytes of the archive before.
        out_size: bytes of the archive after.
        handles: the debug handles that lead to source.
        calls: calls that PyTorch would have left out of call stacks.
    """

    size: int
    out_size: int
    handles: int
    calls: int


def lite(
    source: Source,
    out: Sink,
    *,
    companion: Source | None = None,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Lite:
    """Write a TorchScript archive for the lite interpreter, with the call stacks of all operations.

    TorchScript of the archive runs: trust it as you must for ``torch.jit.load``; see SECURITY.md. A lowered
    archive keeps its debug handles, and the files that the archive has in ``extra/`` are kept, too.

    Args:
        source: the archive, of any release that PyTorch loads; scripted, traced or lowered.
        out: where to write the other one: a path, or a binary file.
        companion: the archive's debug info, if that was split off.
        force: replace an existing file.
        limits: what hostile input may take.

    Raises:
        ArchiveError: the archive cannot be read, PyTorch refuses it or cannot save it for the lite
            interpreter, a backend that it needs is not available, or the target exists.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    with rewriting(source, out, companion=companion, force=force, limits=limits, kinds=LOADED_KINDS) as work:
        opened, draft = work.archive, work.drafts[0]
        extra = {
            name: bytes(record.view())
            for name, record in opened.records.items()
            if kind_of(name) is RecordKind.EXTRA
        }
        for record in opened.container.records.values():
            record.view()  # PyTorch compares no checksums: of damaged weights it would make a whole model
        try:
            module, calls = reloaded(opened)
            saved = write_lowered(module, draft, opened.file, lite=True, plain=True, extra=extra)
            # PyTorch made a new file: it has an allowance of its own.
            with (
                open_archive(draft, name=opened.file) as lite_archive,
                memory.charged(lite_archive.allowance),
            ):
                check_loading(draft, lite_archive, module, lite=True)
                return Lite(opened.size, saved.size, len(lite_archive.handles), calls)
        except (LoweringError, BackendError) as error:
            raise ArchiveError(str(error), file=opened.file) from error
