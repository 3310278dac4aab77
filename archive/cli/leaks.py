"""``debug-archive leaks``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from archive.base.errors import ArchiveError, counted
from archive.cli import options, printing
from archive.cli.ci import sarif_result
from archive.cli.files import Row, files_argument, is_single
from archive.cli.forms import ROW_FORMS
from archive.cli.reading import takes_reader
from archive.cli.reviewing import check_review, review_options
from archive.cli.status import Cause, ExitStatus, status_of
from archive.io.urls import name_of
from archive.privacy.leaks import LeakKind, leaks
from archive.privacy.leaks.findings import project_patterns, unlisted
from archive.reader.recognition.kinds import FOLDER_KINDS
from archive.render.documents import Unread
from archive.render.leaks import leaks_line, leaks_table, listed_only, remedies
from archive.render.rows import LEAKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.batches.outcome import Reading
    from archive.cli.reading import FileReader
    from archive.privacy.leaks import Finding, Leaks

UNREAD = "not read"
"""The rule of files that cannot be read."""
LISTED_KINDS = FOLDER_KINDS["leaks"]
"""The kinds of files in folders that are read."""


@click.command("leaks")
@files_argument
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in LeakKind]),
    metavar="KIND",
    help="Print only this kind, even if it does not count otherwise. May be repeated. The kinds: "
    f"{', '.join(LeakKind)}.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="[KIND=]PATTERN",
    help="Texts that may be there, `*` for any characters: '/opt/*', 'URL=https://example.com/*'. May be "
    "repeated.",
)
@options.config_option("Allow texts of the table [tool.debug-archive.leaks] of this file, too.", "one")
@review_options(
    "List each text that isn't a word of PyTorch, Python or a file format, and that nobody has accepted in "
    "this file yet; add them to it, for an editor or the report page to accept."
)
@click.option("--deep", is_flag=True, help="Read the bytes of tensors, too.")
@options.top_option("Texts of a kind to show, the others as one; 0 for all.", "examples", default=3)
@takes_reader(*ROW_FORMS, annotations=True, sarif=True)
def command(
    files: tuple[str, ...],
    *,
    kinds: tuple[str, ...],
    allow: tuple[str, ...],
    config: str | None,
    review: str | None,
    accept_names: bool,
    reviewer: str | None,
    deep: bool,
    examples: int,
    reader: FileReader,
) -> ExitStatus:
    """List what files reveal about their builders: absolute paths, names, source text, keys.

    Every text of a file is read, as stored and inflated: in pickles, JSON, zips in zips, companions, shared
    objects, the headers of safetensors, GGUF and ONNX, in UTF-8, UTF-16 and UTF-32, with escapes undone, in
    base64 and the like. The bytes of tensors are passed over without --deep.

    Names of classes and attributes, generated code and ids are in nearly every model, and PyTorch needs most
    of them; they are counted below the table, and shown if --kind names them.

    --review FILE lists what no detector has to know: each text, and each number that may be somebody's, that
    isn't a word of PyTorch, Python or a file format. It becomes a row of FILE. Look at the rows, and set
    `"accepted": true` in those that may be published, with an editor or in the page of `report --review`. The
    next run lists only rows that are not accepted. FILE is for one model and its next releases: rows of
    another one that nobody has accepted go.

    What --allow takes can be kept in pyproject.toml:

    \b
      [tool.debug-archive.leaks]
      allow = ["/opt/*", "URL=https://example.com/*"]

    \b
    Examples:
      debug-archive leaks model.ptl
      debug-archive leaks model.pt2 -n 0
      debug-archive leaks model.pt --allow '/opt/*' --allow 'URL=https://a.com/*'
      debug-archive leaks model.pt --kind 'class name'
      debug-archive leaks release/ -j 8
      debug-archive leaks public.pt2 --review review.jsonl
      debug-archive leaks 'models/**/*.ptl' --json > leaks.json
      debug-archive leaks release/ --sarif > leaks.sarif
    """  # noqa: D301 (click reads the backspace)
    check_review(review, files, accept_names=accept_names, reviewer=reviewer)
    if review is not None:
        if kinds or allow or config or deep or reader.as_sarif or reader.form in ROW_FORMS:
            raise click.UsageError("--review lists all texts of any kind: it goes with --json and -n only")
        return _review(files[0], review, reader, examples, accept_names=accept_names, reviewer=reviewer)
    allowed = [*allow, *project_patterns(config)]
    search = partial(leaks, deep=deep, allow=allowed)
    run = _LeakSearch(reader, [LeakKind(kind) for kind in kinds])
    with reader.annotations.printed_last():
        if is_single(files) and not (reader.as_json or reader.as_sarif):
            found = search(reader.source(files[0]), limits=reader.limits)
            return run.single(name_of(files[0]), found, examples)
        rules = {UNREAD: "the file was not searched"} | {kind: kind.remedy for kind in LeakKind}
        listing = reader.listing(files, LISTED_KINDS)
        status = reader.several(listing, reader.of_bytes(search), "reading", run.row, rules=rules, text=LEAKS)
        if not (reader.as_json or reader.as_sarif):
            printing.write_line(run.total())
        return status


def _review(
    file: str,
    path: str,
    reader: FileReader,
    examples: int,
    *,
    accept_names: bool,
    reviewer: str | None,
) -> ExitStatus:
    """Print what of a file nobody has accepted, and add it to the review file."""
    from archive.privacy.review import noted, review  # noqa: PLC0415 (few ask for one)
    from archive.privacy.review.reviewed import check_apart, read_review, with_accepted  # noqa: PLC0415 (the same)
    from archive.render.review import review_table, review_text  # noqa: PLC0415 (the same)

    source = reader.source(file)
    check_apart(path, source)
    before = read_review(path)
    listed = review(source, limits=reader.limits)
    try:
        found = noted(listed, path, accept_names=accept_names, reviewer=reviewer)
    except (ArchiveError, OSError):  # what was listed is worth showing all the same
        listed = replace(listed, rows=with_accepted(listed.rows, before.rows if before else ()))
        if reader.as_json:
            printing.write_document(listed)
        elif listed.unaccepted:
            printing.show([review_table(listed.unaccepted, examples)])
        raise
    if reader.as_json:
        printing.write_document(found)
    else:
        printing.show(review_text(found, path, examples))
    for problem in found.problems:
        printing.note(problem)
    return Cause.REVEALING.when(found.unaccepted)


class _LeakSearch:
    """What is printed of files, and how many files had which outcome.

    Args:
        kinds: the kinds that are asked for; empty for all that count.
    """

    def __init__(self, reader: FileReader, kinds: Sequence[LeakKind]) -> None:
        self._reader, self._kinds = reader, kinds
        self._statuses: list[ExitStatus] = []

    def single(self, name: str, leaks: Leaks, examples: int) -> ExitStatus:
        """Print what a single file gives away: a table with some texts of each kind."""
        leaks = self._asked(leaks)
        shown = self._counted(name, leaks)
        lines = remedies(shown) if shown else [f"{name}: {leaks_line(shown)}"]
        rest = "" if self._kinds else listed_only(leaks, shown)
        passed = f"tensors passed over: {leaks.passed_over:,} bytes" if leaks.passed_over else ""
        lines += [line for line in (rest, passed) if line]
        printing.show([leaks_table(shown, examples), "", *lines] if shown else lines)
        for line in unlisted(leaks):
            printing.note(line)
        return self._statuses[-1]

    def row(self, reading: Reading[Leaks]) -> Row:
        """The row of a file; one that cannot be read is a finding, too."""
        name, leaks = reading.job.label, reading.facts
        if leaks is None:
            why = reading.problem
            self._reader.annotations.add("error", name, "leaks", [why])
            self._statuses.append(status_of(reading))
            result = sarif_result(reading.job, UNREAD, "error", why)
            return Row(self._statuses[-1], Unread(file=name, error=why), notes=[why], results=[result])
        leaks = self._asked(leaks)
        shown = self._counted(name, leaks)
        results = (
            sarif_result(
                reading.job,
                finding.kind,
                "warning",
                f"{finding.kind}: {finding.text}",
                str(finding.places[0]),
            )
            for finding in shown
        )
        return Row(
            self._statuses[-1],
            leaks,
            [f"{name}: {leaks_line(shown)}"],
            notes=() if self._reader.as_sarif else [f"{name}: {trouble}" for trouble in leaks.problems],
            results=results,
        )

    def _asked(self, leaks: Leaks) -> Leaks:
        """What a file gives away of the kinds that are asked for."""
        return leaks.of_kinds(self._kinds) if self._kinds else leaks

    def _counted(self, name: str, leaks: Leaks) -> list[Finding]:
        """Annotate a file and note its status; its findings that count."""
        shown = leaks.counted()
        texts = [f"{finding.kind}: {finding.text}" for finding in shown]
        self._reader.annotations.add("warning", name, "leaks", texts)
        self._statuses.append(Cause.REVEALING.when(shown))
        return shown

    def total(self) -> str:
        """The last line: how many files had which outcome."""
        well = self._statuses.count(ExitStatus.WELL)
        findings = self._statuses.count(Cause.REVEALING.status)
        failed = len(self._statuses) - well - findings
        unread = f", {failed:,} could not be read" if failed else ""
        files = counted(len(self._statuses), "file")
        return f"{files}: {well:,} without, {findings:,} with findings (numbers of different texts){unread}"
