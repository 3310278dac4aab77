"""Commands that read many files: their options, and how files are read."""

from __future__ import annotations

import os
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from archive.base.quick_dataclass import dataclass
from archive.cli.ci import Annotations, annotations_of, annotations_option
from archive.cli.files import FileOptions, jobs_option
from archive.cli.forms import facts_options
from archive.cli.options import limit_option, no_map_option
from archive.cli.showing import TEXT, showing
from archive.io.mapped import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from archive import Limits
    from archive.batches.inputs import InputFile
    from archive.batches.noted import Notes
    from archive.batches.outcome import Reading
    from archive.batches.reading import FoundFiles
    from archive.cli.files import Row
    from archive.cli.status import ExitStatus
    from archive.io.mapped import Source
    from archive.reader.recognition import FileKind

FactsT = TypeVar("FactsT")
FEW = 32
"""Up to this many files take less time in one process than processes take to start."""


@dataclass(frozen=True, slots=True)
class FileReader(FileOptions):
    """The options of every command that reads files; ``annotations`` take what a CI shows beside files."""

    annotations: Annotations

    @property
    def form(self) -> str:
        """That of facts: JSON, CSV and so on."""
        return showing.form

    def source(self, file: str) -> Source:
        """What a file's bytes are read from."""
        return source_of(file, mapped=self.mapped)

    def of_bytes(self, function: Callable[..., FactsT], **options: object) -> Callable[[InputFile], FactsT]:
        """A function of a file, in whichever process, that calls one of its bytes with limits and options."""
        given = {"limits": self.limits, **options}
        return partial(_call_with_bytes, function=function, mapped=self.mapped, options=given)

    def listing(
        self, inputs: Sequence[str], kinds: Collection[FileKind], skipped: Collection[str] = ()
    ) -> FoundFiles:
        """The files that are given or found; see :func:`archive.batches.reading.listing`."""
        from archive.batches.reading import listing  # noqa: PLC0415 (a single file does without)

        return listing(inputs, kinds, skipped, mapped=self.mapped)

    def several(
        self,
        files: FoundFiles,
        read: Callable[[InputFile], FactsT],
        doing: str,
        row_of: Callable[[Reading[FactsT]], Row],
        *,
        notes: Notes | None = None,
        **shown: Any,  # noqa: ANN401 (as `show` takes it)
    ) -> ExitStatus:
        """Read files, and print a row of each: :meth:`FileOptions.show`.

        Args:
            files: the files.
            read: gives the facts of a file; it and they can be pickled.
            doing: the progress bar's text.
            row_of: gives the row of a file; it is called in this process.
            notes: where facts are noted, and taken from.
            shown: what else ``show`` takes.
        """
        from archive.batches.reading import readings  # noqa: PLC0415 (a single file does without)

        count = len(files.files)
        workers = self.jobs or (1 if count <= FEW else os.cpu_count() or 1)
        if notes is None:
            outcomes = readings(read, files.files, workers)
        else:
            from archive.batches.noted import noted_readings  # noqa: PLC0415 (few note what they read)

            outcomes = noted_readings(read, files.files, workers, notes)
        return self.show(outcomes, count, doing, row_of, others=files.others, **shown)


def takes_reader(
    *forms: str, annotations: bool = False, sarif: bool = False, mapped: bool = True
) -> Callable[[Callable[..., ExitStatus]], Callable[..., ExitStatus]]:
    """Let a command take the options of :class:`FileReader` as one ``reader``; the innermost decorator.

    The flags say which options there are, and ``forms`` what ``--format`` prints that not every command has.
    """
    options = [jobs_option("read", f"number of CPUs; 1 for up to {FEW} files")]
    options += [annotations_option] * annotations + [no_map_option] * mapped + [limit_option]

    def decorated(command: Callable[..., ExitStatus]) -> Callable[..., ExitStatus]:
        @wraps(command)
        def with_reader(
            *,
            jobs: int | None,
            limits: Limits,
            as_json: bool,
            mapped: bool = True,
            annotations: str | None = None,
            **others: object,
        ) -> ExitStatus:
            notes = annotations_of(annotations, aside=showing.form != TEXT)
            return command(**others, reader=FileReader(jobs, mapped, limits, as_json, notes))

        with_options = facts_options(*forms, sarif=sarif)(with_reader)
        for option in reversed(options):
            with_options = option(with_options)
        return with_options

    return decorated


def _call_with_bytes(
    file: InputFile, *, function: Callable[..., FactsT], mapped: bool, options: dict[str, object]
) -> FactsT:
    return function(source_of(file.name, mapped=mapped), **options)
