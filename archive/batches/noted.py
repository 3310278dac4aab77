"""Facts about many files, noted in a manifest as they come, so that a second run reads only what has changed.

A line is an object, ``NOTE``. It counts only if version and question are still the same. A batch asks for the
digest of a file, which would take longer here than to read the facts. The version is asked for before the
file is read: if it changes meanwhile, the line no longer fits it.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from archive.base.errors import ArchiveError
from archive.batches.line_file import LineFile, built, path_from
from archive.batches.outcome import Outcome, OutcomeKind, outcomes
from archive.formats.schema.json import DictOf, JsonClass, ListOf, checked
from archive.io.mapped import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from archive.batches.inputs import InputFile
    from archive.batches.outcome import Reading

FactsT = TypeVar("FactsT")
Version = list[list[str]]
"""Names and values of the facts that distinguish versions of a file."""
NOTE = JsonClass(
    {"input": "str", "version": ListOf(ListOf("str")), "asked": DictOf("any"), "facts": DictOf("any")},
    docs={
        "input": "the file's path from the manifest's folder, or its URL",
        "version": "size and time of change of a local file, what the store gives (ETag, generation) of a "
        "remote one, never only a time",
        "asked": "what was asked about it",
        "facts": "what came of that",
    },
)


class Notes(LineFile[bytes]):
    """The manifest of a reading command.

    Args:
        path: the file.
        asked: what is asked about each file, as JSON gives it back.
        dump: facts as JSON takes them; None where they are not to be noted.
        load: the facts again. It can be pickled, and may raise whatever broken facts lead to.
    """

    def __init__(
        self,
        path: str,
        asked: Mapping[str, Any],
        dump: Callable[[Any], Mapping[str, Any] | None],
        load: Callable[[Mapping[str, Any]], Any],
    ) -> None:
        super().__init__(path)
        self.load = load
        self._asked, self._dump = dict(asked), dump

    def parsed(self, line: bytes) -> tuple[str, bytes] | None:
        """The input, and the line as it is: it is read again by whichever process knows the version."""
        try:
            values = checked(json.loads(line), NOTE)
        except (ArchiveError, RecursionError, ValueError):  # a line of a batch, or a broken one
            return None
        return (values["input"], line) if values["asked"] == self._asked else None

    def known(self, job: InputFile) -> bytes | None:
        """The line about a file."""
        return self._lines.get(path_from(self.folder, job.name))

    def add(self, outcome: Reading[_Noted]) -> None:
        """Note the facts about a version of a file."""
        if outcome.kind is not OutcomeKind.DONE or outcome.facts is None:
            return
        version, facts = outcome.facts
        dumped = self._dump(facts)
        if version and dumped is not None:
            line = {"version": version, "asked": self._asked, "facts": dumped}
            self.write(built(path_from(self.folder, outcome.file), line))


class _Noted(NamedTuple):
    """Facts about a version of a file."""

    version: Version
    facts: Any


def noted_readings(
    read: Callable[[InputFile], FactsT], files: Sequence[InputFile], workers: int, notes: Notes
) -> Generator[Reading[FactsT]]:
    """:func:`archive.batches.reading.readings`, which notes what is read, and reads what is not noted."""
    look = partial(_look, read=read, load=notes.load)
    for outcome in outcomes(look, files, workers, notes):
        yield replace(cast("Reading[FactsT]", outcome), facts=outcome.facts and outcome.facts.facts)


def _look(
    file: InputFile, *, read: Callable[[InputFile], Any], load: Callable[[Mapping[str, Any]], Any]
) -> Reading[_Noted]:
    version = version_of(file.name)
    if version and file.known is not None:
        try:
            values = json.loads(file.known)
            if values["version"] == version:
                return Outcome(file, OutcomeKind.SAME, facts=_Noted(version, load(values["facts"])))
        except (LookupError, RecursionError, TypeError, ValueError):  # broken facts
            pass
    return Outcome(file, OutcomeKind.DONE, facts=_Noted(version, read(file)))


def version_of(file: str) -> Version:
    """Facts that distinguish versions of a file; none where no certain ones are known."""
    source, place = placed(file)
    if place is None:
        status = os.stat(source)  # type: ignore[arg-type] # noqa: PTH116 (a Path takes longer)
        return [["size", str(status.st_size)], ["mtime", str(status.st_mtime_ns)]]
    from archive.io.remote import opened_remote  # noqa: PLC0415 (only remote files)

    with closing(opened_remote(place)) as remote:
        return [list(fact) for fact in remote.version.facts] if remote.version.is_certain else []
