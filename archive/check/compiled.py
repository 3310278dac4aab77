"""Rules for packages of AOTInductor.

- PyTorch 2.13 finds what it loads: the checks of :mod:`archive.check.loading.programs.compiled`.
- ``kernel_information.json`` can be read. PyTorch does not need it.

A package may hold exported programs, too, with rules of their own: :mod:`archive.check.programs`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from archive.check.loading.programs.compiled import CompiledCheck, model_folders
from archive.check.programs import add_by_record

if TYPE_CHECKING:
    from archive.check.diagnostic import Diagnostics
    from archive.reader.archive import Archive


def check_compiled(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    """Check the compiled models of an archive.

    Args:
        archive: the archive.
        readable: the records that can be read.
        report: takes the diagnostics.
    """
    records = {name: record for name, record in archive.records.items() if name in readable}
    found = []
    for model, names in model_folders(archive.records).items():
        with archive.allowance.part() as allowance:
            check = CompiledCheck(model, names, records, allowance)
            found += report.attempt("", check.faults) or []
    add_by_record(found, report)
    for compiled in archive.compiled.values():
        report.attempt("", partial(getattr, compiled, "kernels"))
