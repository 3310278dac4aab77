"""Checks of the metadata of exported programs in a companion."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.check.diagnostic import Diagnostics
    from archive.normalform.metadata import Metadata
    from archive.reader.companion import Companion


def check_metadata(companion: Companion | None, report: Diagnostics) -> None:
    """Check that a companion gives the metadata of all nodes.

    Args:
        companion: None where there is none.
        report: takes the diagnostics.
    """
    metadata = None if companion is None else report.attempt("", lambda: companion.metadata)
    if metadata is not None:
        for name, rows in metadata.programs.items():
            report.attempt(name, partial(_read_all, metadata, rows))


def _read_all(metadata: Metadata, rows: range) -> bool:
    for row in rows:
        metadata.of(row)
    return True
