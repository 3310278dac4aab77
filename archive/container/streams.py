"""The deflate streams of an archive's long records, made in a thread while the archive is read.

Deflating takes as long as all else that a split does, and lets other threads run.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from archive.base.cores import cores
from archive.base.errors import ArchiveError
from archive.container.deflate import deflate, deflated_as_by_pytorch
from archive.formats.record_kinds import divided_programs, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from archive.container.record import Record

LONG = 1 << 18
"""Bytes of a record from which on its streams are worth a thread."""


class Streams:
    """The streams that are made again of an archive's deflated records, each handed out once.

    A record that was not begun is deflated when it is asked for. Bytes are given with each name, and are
    those of the record.

    Args:
        records: of the archive.
    """

    def __init__(self, records: Mapping[str, Record]) -> None:
        self._records = records
        self._by_pytorch: dict[str, Future[bytes]] = {}
        self._shortest: dict[str, Future[bytes]] = {}

    def begin(self, *, by_pytorch: bool) -> None:
        """Deflate from now on, if there is a core for it: records that stay as short as possible.

        Args:
            by_pytorch: whether all are deflated as by PyTorch, too.
        """
        records = [each for each in self._records.values() if each.entry.deflated and each.size >= LONG]
        if not records or cores() == 1:
            return
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (short work does without)

        pool = ThreadPoolExecutor(1)
        with suppress(ArchiveError):  # of a broken record; whoever needs it will know
            views = {record.name: record.view() for record in records}
            if by_pytorch:
                for name, view in views.items():
                    self._by_pytorch[name] = pool.submit(deflated_as_by_pytorch, view)
            for name in () if divided_programs(self._records) else views:  # else levels differ
                if not kind_of(name).is_debug:
                    self._shortest[name] = pool.submit(deflate, views[name])
        pool.shutdown(wait=False)

    def stop(self) -> None:
        """Leave what has not begun: nobody will ask for it."""
        for begun in (*self._by_pytorch.values(), *self._shortest.values()):
            begun.cancel()

    def by_pytorch(self, name: str, data: bytes | memoryview) -> bytes:
        """The stream of a record as PyTorch makes it."""
        begun = self._by_pytorch.pop(name, None)
        return deflated_as_by_pytorch(data) if begun is None else begun.result()

    def shortest(self, name: str, data: bytes | memoryview) -> bytes:
        """The shortest stream of a record."""
        begun = self._shortest.pop(name, None)
        return deflate(data) if begun is None else begun.result()
