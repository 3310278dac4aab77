"""Facts about many files, noted in a manifest as they come, so that a second run reads only what has changed.

A line is a JSON object:

- ``input``: the file's path from the manifest's folder, or its URL;
- ``version``: facts that distinguish its versions: size and time of change of a local file, what the store
  gives (ETag, generation) of a remote one, never only a time;
- ``asked``: what was asked about it;
- ``facts``: what came of that.

The last line about a file counts, and only if version and question are still the same. The version is asked
for before the file is read: if it changes meanwhile, the line no longer fits it.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from archive.batches.manifest import LineFile, built, path_from
from archive.batches.pool import Lost, in_order, results
from archive.batches.reading import Reading, attempt
from archive.io.mapped import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Self

    from archive.batches.inputs import InputFile

FactsT = TypeVar("FactsT")
Version = list[list[str]]
"""Names and values of the facts that distinguish versions of a file."""


class Notes(LineFile, Generic[FactsT]):
    """The manifest of a reading command, inside a ``with`` statement.

    Args:
        path: the file; it and its folder are made if they are missing.
        asked: what is asked about each file, as JSON gives it back.
        dump: facts as JSON takes them; None where they are not to be noted.
        load: the facts again. It can be pickled, and may raise whatever broken facts lead to.
    """

    def __init__(
        self,
        path: str,
        asked: Mapping[str, Any],
        dump: Callable[[FactsT], Mapping[str, Any] | None],
        load: Callable[[Mapping[str, Any]], FactsT],
    ) -> None:
        super().__init__(path)
        self.load = load
        self._asked, self._dump = dict(asked), dump
        self._known: dict[str, bytes] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        for line in self.lines:
            try:
                values = json.loads(line)
                if values["asked"] == self._asked:
                    self._known[str(values["input"])] = line
            except (LookupError, RecursionError, TypeError, ValueError):  # a line of a batch, or a broken one
                continue
        self.lines = []
        return self

    def line_of(self, file: InputFile) -> bytes:
        """What is noted of a file; empty where there is nothing."""
        return self._known.get(path_from(self.folder, file.name), b"")

    def add(self, file: InputFile, version: Version, facts: FactsT) -> None:
        """Note the facts about a version of a file."""
        dumped = self._dump(facts)
        if version and dumped is not None:
            line = {"version": version, "asked": self._asked, "facts": dumped}
            self.write(built(path_from(self.folder, file.name), line))


class _Noted(NamedTuple):
    """Facts about a version of a file, and whether they were noted before."""

    version: Version
    facts: Any
    is_known: bool


def noted_readings(
    read: Callable[[InputFile], FactsT], files: Sequence[InputFile], workers: int, notes: Notes[FactsT]
) -> Generator[Reading[FactsT]]:
    """:func:`archive.batches.reading.readings`, which notes what is read, and reads what is not noted.

    Args:
        read: a function that can be pickled, as its results can.
        files: the files.
        workers: the number of processes; 1 works in this one.
        notes: the manifest, opened.

    Yields:
        What came of each file, in their order.
    """
    look = partial(_look, read=read, load=notes.load)
    items = [(file, notes.line_of(file)) for file in files]
    for place, reading in enumerate(in_order(results(look, items, workers))):
        file = files[place]
        if isinstance(reading, Lost):
            yield Reading(file, error=reading.reason)
        elif reading.facts is None:
            yield Reading(file, error=reading.error, is_internal=reading.is_internal)
        else:
            version, facts, is_known = reading.facts
            if not is_known:
                notes.add(file, version, facts)
            yield Reading(file, facts)


def _look(
    item: tuple[InputFile, bytes],
    *,
    read: Callable[[InputFile], Any],
    load: Callable[[Mapping[str, Any]], Any],
) -> Reading[_Noted]:
    file, line = item

    def look(file: InputFile) -> _Noted:
        version = version_of(file.name)
        try:
            values = json.loads(line)
            if version and values["version"] == version:
                return _Noted(version, load(values["facts"]), is_known=True)
        except (LookupError, RecursionError, TypeError, ValueError):  # no line, or a broken one
            pass
        return _Noted(version, read(file), is_known=False)

    return attempt(look, file)


def version_of(file: str) -> Version:
    """Facts that distinguish versions of a file; none where no certain ones are known."""
    source, place = placed(file)
    if place is None:
        status = os.stat(source)  # type: ignore[arg-type] # noqa: PTH116 (a Path takes longer)
        return [["size", str(status.st_size)], ["mtime", str(status.st_mtime_ns)]]
    from archive.io.remote import opened_remote  # noqa: PLC0415 (only remote files)

    with closing(opened_remote(place)) as remote:
        return [list(fact) for fact in remote.version.facts] if remote.version.is_certain else []
