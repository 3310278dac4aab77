"""``debug-archive leaks``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from archive.base.errors import counted
from archive.base.mapped import source_of
from archive.base.urls import name_of
from archive.batches.inputs import names_several
from archive.batches.reading import Listed, listing
from archive.cli import options, printing
from archive.cli.annotations import annotations_of, annotations_option
from archive.cli.code_scanning import refuse_two_forms, result_of, sarif_option, write_sarif
from archive.cli.several import files_argument, jobs_option, problem, reading, status_of
from archive.cli.status import Status
from archive.privacy.leaks import SCANNED_KINDS, LeakKind, leaks
from archive.privacy.leaks.allowed import project_patterns
from archive.reader.recognition import FileKind
from archive.report.leaks_text import leaks_facts, leaks_line, leaks_table, listed_only, remedies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive import Limits
    from archive.batches.reading import Reading
    from archive.cli.annotations import Annotations
    from archive.cli.progress import Tracker
    from archive.privacy.leaks import Finding, Leaks
    from archive.report.sarif import Result

UNREAD = "not read"
"""The rule of files that cannot be read."""
LISTED_KINDS = SCANNED_KINDS - {FileKind.ZIP} | {FileKind.LFS}
"""The kinds of files in folders that are read. A pointer stands for a model, perhaps: it is told."""


@click.command("leaks")
@files_argument
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in LeakKind]),
    help="Look for this kind alone; also for one that does not count else. May be repeated.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="[KIND=]PATTERN",
    help="Texts that may be there, `*` for any characters: '/opt/*', 'URL=https://example.com/*'. May be "
    "repeated.",
)
@click.option(
    "--config",
    metavar="TOML",
    type=click.Path(),
    show_default="the nearest pyproject.toml that has one",
    help="Allow texts of the table [tool.debug-archive.leaks] of this file, too.",
)
@click.option("--deep", is_flag=True, help="Read the bytes of tensors, too.")
@click.option(
    "-n",
    "examples",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Texts of a kind to show, the others as one; 0 for all.",
)
@jobs_option
@annotations_option
@options.no_map_option
@options.limit_option
@sarif_option
@options.json_option("Print facts as JSON; a list for several files.")
def command(
    files: tuple[str, ...],
    *,
    kinds: tuple[str, ...],
    allow: tuple[str, ...],
    config: str | None,
    deep: bool,
    examples: int,
    jobs: int | None,
    annotations: str | None,
    mapped: bool,
    limits: Limits,
    as_sarif: bool,
    as_json: bool,
) -> Status:
    """List what files tell strangers about their builders: paths, names, source text, keys.

    Every text of a file is read, as stored and inflated: in pickles, JSON, zips in zips, companions, shared
    objects, in UTF-8, UTF-16 and UTF-32, with escapes undone, in base64 and the like. The bytes of tensors
    are passed over without --deep.

    Names of classes and attributes, generated code and ids are in nearly every model, and PyTorch needs most
    of them; they are counted below the table, and shown if --kind names them.

    What --allow takes can be kept in pyproject.toml:

    \b
      [tool.debug-archive.leaks]
      allow = ["/opt/*", "URL=https://example.com/*"]

    Exit status: 0 nothing is found, 1 findings, 2 a file cannot be read.

    \b
    Examples:
      debug-archive leaks model.ptl
      debug-archive leaks model.pt2 -n 0
      debug-archive leaks model.pt --allow '/opt/*' --allow 'URL=https://example.com/*'
      debug-archive leaks model.pt --kind 'class name'
      debug-archive leaks release/ -j 8
      debug-archive leaks 'models/**/*.ptl' --json > leaks.json
      debug-archive leaks release/ --sarif > leaks.sarif
    """  # noqa: D301 (click reads the backspace)
    refuse_two_forms(as_sarif=as_sarif, as_json=as_json)
    allowed = [*allow, *project_patterns(config)]
    read = partial(_leaks, deep=deep, allow=allowed, limits=limits, mapped=mapped)
    notes = annotations_of(annotations, as_json=as_json or as_sarif)
    asked = [LeakKind(kind) for kind in kinds]
    run = _Run(notes, asked, examples, as_json=as_json)
    with notes.behind():
        if as_sarif:
            return run.scanned(files, read, jobs, mapped=mapped)
        if len(files) == 1 and not names_several(files[0]):
            return run.one(name_of(files[0]), read(Listed(files[0], "")))
        return run.several(files, read, jobs, mapped=mapped)


def _leaks(file: Listed, *, deep: bool, allow: Sequence[str], limits: Limits, mapped: bool) -> Leaks:
    return leaks(source_of(file.name, mapped=mapped), deep=deep, allow=allow, limits=limits)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the command.

    Attributes:
        notes: the annotations.
        kinds: the kinds that are asked for; none for all that count.
        examples: texts of a kind that a table shows.
        as_json: whether facts are printed as JSON.
    """

    notes: Annotations
    kinds: Sequence[LeakKind]
    examples: int
    as_json: bool

    def one(self, name: str, found: Leaks) -> Status:
        """Print what a single file gives away."""
        shown = self._take(name, found)
        if self.as_json:
            printing.write_json(leaks_facts(found, shown))
        elif shown:
            printing.show(leaks_table(shown, self.examples))
            printing.write_line("")
            for line in remedies(shown):
                printing.write_line(line)
        else:
            printing.write_line(f"{name}: {leaks_line(shown)}")
        if not self.as_json:
            self._write_rest(found, shown)
        return Status.FINDINGS if shown else Status.WELL

    def several(
        self, inputs: Sequence[str], read: Callable[[Listed], Leaks], jobs: int | None, *, mapped: bool
    ) -> Status:
        """Print a line or the facts of each of several files, and the total."""
        files, json = listing(inputs, kinds=LISTED_KINDS, mapped=mapped), printing.JsonParts()
        statuses = []
        with reading(files, read, "reading", jobs, as_json=self.as_json) as (lines, results):
            for result in results:
                name, facts = result.file.label, result.facts
                if facts is None:
                    statuses.append(self._fail(result, lines))
                    part = {"file": name, "error": problem(result)}
                else:
                    shown = self._take(name, facts)
                    statuses.append(Status.FINDINGS if shown else Status.WELL)
                    part = leaks_facts(facts, shown) if self.as_json else {}
                    for one in facts.problems:
                        lines.note(f"{name}: {one}")
                    if not self.as_json:
                        lines.write_line(f"{name}: {leaks_line(shown)}")
                if self.as_json:
                    json.add([part])
        if self.as_json:
            json.end()
        else:
            printing.write_line(_total(statuses))
        return max(statuses)

    def scanned(
        self, inputs: Sequence[str], read: Callable[[Listed], Leaks], jobs: int | None, *, mapped: bool
    ) -> Status:
        """Print the findings of all files as one SARIF log; a file that cannot be read is a finding, too."""
        files, statuses = listing(inputs, kinds=LISTED_KINDS, mapped=mapped), {Status.WELL}
        results: list[Result] = []
        with reading(files, read, "reading", jobs, as_json=True) as (lines, readings):
            for one in readings:
                if one.facts is None:
                    statuses.add(self._fail(one, lines))
                    results.append(result_of(one.file, UNREAD, "error", problem(one)))
                elif shown := self._take(one.file.label, one.facts):
                    statuses.add(Status.FINDINGS)
                    results += (_result(one.file, finding) for finding in shown)
        write_sarif({UNREAD: "the file was not searched"} | {kind: kind.remedy for kind in LeakKind}, results)
        return max(statuses)

    def _fail(self, reading: Reading[Leaks], lines: Tracker) -> Status:
        """Note and annotate a file that cannot be read; its exit status."""
        lines.note(problem(reading))
        self.notes.add("error", reading.file.label, "leaks", [problem(reading)])
        return status_of(reading)

    def _take(self, name: str, found: Leaks) -> list[Finding]:
        """Annotate a file; its findings that count."""
        shown = found.counted(self.kinds)
        self.notes.add("warning", name, "leaks", [f"{one.kind}: {one.text}" for one in shown])
        return shown

    def _write_rest(self, found: Leaks, shown: Sequence[Finding]) -> None:
        """Print what is not in the table, and what was not read."""
        rest = "" if self.kinds else listed_only(found, shown)
        passed = f"tensors passed over: {found.passed_over:,} bytes" if found.passed_over else ""
        for line in (rest, passed):
            if line:
                printing.write_line(line)
        for kind, count in found.more.items():
            printing.note(f"{kind}: {count:,} more, of texts that are not listed")
        for one in found.problems:
            printing.note(one)


def _result(file: Listed, one: Finding) -> Result:
    return result_of(file, one.kind, "warning", f"{one.kind}: {one.text}", str(one.places[0]))


def _total(statuses: Sequence[Status]) -> str:
    """The last line: how many files came out how."""
    well, found = statuses.count(Status.WELL), statuses.count(Status.FINDINGS)
    failed = len(statuses) - well - found
    unread = f", {failed:,} could not be read" if failed else ""
    return f"{counted(len(statuses), 'file')}: {well:,} without, {found:,} with findings{unread}"
