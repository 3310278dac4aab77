"""What ``debug-archive symbolicate`` is asked: files, what is wanted of them, and options."""

from __future__ import annotations

import re
from os.path import isdir
from typing import TYPE_CHECKING

import archive
from archive.base.quick_dataclass import dataclass
from archive.io.urls import is_server
from archive.reader.recognition import READ_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive import Archive, Limits
    from archive.debuginfo.symbolicate import Style
    from archive.failures.models.models import Models


QUOTED = re.compile(r"(?:debug_handles:)?\{([0-9]{1,400})\}")
"""Handles as a log has them: joined, in whatever way the model tells."""
QUOTED_LINE = "Debug info for handle(s): debug_handles:{%s}, was not found.\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """Arguments, and options by their names; None of an option that is not given.

    Attributes:
        files: archives, companions, folders of some, stores and servers; none where there is a store.
        wanted: handles, or names of nodes, kernels and instructions; none for a log, unless it is quoted.
        companion: of the only file.
        log: its path; None for standard input.
        top: how many causes are printed in the place of the log, 0 for all.
        page: where a page of the causes is written, in the place of the log.
        show: how much of the models' source the page shows.
        program: of ExecuTorch, that the ETRecord was made with.
    """

    files: Sequence[str]
    wanted: Sequence[str]
    store: str | None
    places: Sequence[tuple[str, int]]
    companion: str | None
    log: str | None
    ids: str | None
    names: str | None
    top: int | None
    style: Style
    shipper: str | None
    page: str | None
    show: str
    program: str | None
    force: bool
    mapped: bool
    limits: Limits
    as_json: bool

    @property
    def is_one(self) -> bool:
        """Whether the files are one model, and neither a folder nor a server."""
        return len(self.files) == 1 and not isdir(self.files[0]) and not is_server(self.files[0])  # noqa: PTH112 (pathlib costs start-up)

    @property
    def quoted(self) -> bytes:
        """The lines of a log that its failures' handles, ``{1445}``, stand for; b"" if others are wanted."""
        quotes = [QUOTED.fullmatch(word) for word in self.wanted]
        return (
            b"".join((QUOTED_LINE % quote[1]).encode() for quote in quotes if quote) if all(quotes) else b""
        )

    def has(self, name: str) -> bool:
        """Whether an option is given."""
        value = getattr(self, name)
        return value is not None and value is not False and value not in ((), [])

    def models(self) -> Models:
        """The models in the files, or in the store: a store's companions are never mapped."""
        from archive.app.sources import models_at, models_in  # noqa: PLC0415 (one file does without)

        if self.store is not None:
            return models_at(self.store, limits=self.limits)
        return models_in(self.files, companion=self.companion, limits=self.limits, mapped=self.mapped)

    def opened(self) -> Archive:
        """The only model."""
        return archive.open(
            self.files[0],
            companion=self.companion,
            mapped=self.mapped,
            limits=self.limits,
            kinds=READ_KINDS,
        )
