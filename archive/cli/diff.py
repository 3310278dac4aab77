"""``debug-archive diff``."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

import archive
from archive.base.errors import ArchiveError
from archive.base.mapped import source_of
from archive.base.urls import name_of
from archive.batches.places import exists, is_folder, joined
from archive.batches.reading import Listed, listing
from archive.cli import options, printing
from archive.cli.several import jobs_option, problem, reading, status_of
from archive.cli.status import Status
from archive.compare.sameness import Level
from archive.formats.record_kinds import holds_ranges
from archive.reader.recognition import OPENED_KINDS, FileKind
from archive.report.diff_text import diff_text, summary_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive import Archive, Diff, Limits

IGNORABLE = (Level.EXTRAS, Level.DEBUG, Level.LAYOUT, Level.IDS, Level.FORMAT)
COMPARED_KINDS = OPENED_KINDS | {FileKind.COMPANION}
"""The kinds of files in folders that are compared."""


@click.command("diff")
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option(
    "-c",
    "--companion",
    "companions",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="The companion of OLD, of NEW or of both; the archive id tells which. May be repeated.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    type=click.Choice([level.value for level in IGNORABLE]),
    help="Leave out differences of this level: `extras` (extra files, sample inputs), `debug` "
    "(source, ranges, handles), `layout` (how records are stored), `ids` (numbers of a process or save), "
    "`format` (versions, kinds). May be repeated.",
)
@click.option("--stat", is_flag=True, help="Count lines instead of showing them.")
@click.option(
    "-n",
    "rows",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Differences of each level to show; 0 for all, with all of their lines.",
)
@jobs_option
@options.no_map_option
@options.limit_option
@options.json_option("Print all differences as JSON; a list for folders.")
def command(
    old: str,
    new: str,
    *,
    companions: tuple[str, ...],
    ignored: tuple[str, ...],
    stat: bool,
    rows: int,
    jobs: int | None,
    mapped: bool,
    limits: Limits,
    as_json: bool,
) -> Status:
    """Show what differs between OLD and NEW, from the model down to the line of its source.

    Tensors are compared element by element, attributes by value, code by function, exported programs by
    node; records, numbers and mangled names that a process chooses do not count as differences of the model.
    Two files of different kinds are compared in what both have. Of two folders, files of the same relative
    path are compared.

    "same model" is said only if everything that belongs to the model was compared.

    Exit status: 0 no difference but ignored ones, 1 some, 2 a file cannot be read.

    \b
    Examples:
      debug-archive diff old.pt new.pt
      debug-archive diff epoch1.pt epoch2.pt --stat
      debug-archive diff old.pt migrated.pt --ignore format --ignore layout
      debug-archive diff release-1/ release-2/ --ignore debug --ignore ids
      debug-archive diff split.ptl new.ptl -c split.ptdbg
    """  # noqa: D301 (click reads the backspace)
    asked = _Asked(new, companions, tuple(map(Level, ignored)), limits, mapped)
    if is_folder(old) != is_folder(new):
        raise click.UsageError("compare two files or two folders, not a file with a folder")
    if is_folder(old):
        if companions:
            raise click.UsageError("-c is for two files, not for folders")
        return _Run(asked, rows, stat=stat, as_json=as_json).several(old, jobs)
    found = asked.pair(old, new)
    if as_json:
        printing.write_json(_facts(found))
    else:
        printing.show_lines(diff_text(found, rows, stat=stat))
    return _status(found)


def _status(found: Diff) -> Status:
    return Status.FINDINGS if found.changes else Status.WELL


def _facts(found: Diff) -> dict[str, object]:
    """A difference as JSON: its fields, and what follows from them."""
    return {
        "old": {"file": found.old, "kind": found.old_kind},
        "new": {"file": found.new, "kind": found.new_kind},
        "identical": found.identical,
        "same_model": found.same_model,
        "unchecked": list(found.unchecked),
        "changes": list(found.changes),
    }


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of each pair of files.

    Attributes:
        new: the new file or folder.
        companions: files that companions are in.
        ignored: levels that are left out.
        limits: what a file may cost.
        mapped: whether files are mapped.
    """

    new: str
    companions: Sequence[str]
    ignored: Sequence[Level]
    limits: Limits
    mapped: bool

    def of(self, file: Listed) -> Diff | None:
        """The difference of a file of the old folder and that of the new one; None where there is none."""
        other = joined(self.new, file.relative)
        return self.pair(file.name, other) if exists(other) else None

    def pair(self, old: str, new: str) -> Diff:
        """The difference of two files.

        Raises:
            ArchiveError: one is of a kind that is not read, or contradicts itself; or a companion is of
                neither.
            OSError: one cannot be read.
        """
        with ExitStack() as stack:
            files = [stack.enter_context(self._opened(name)) for name in (old, new)]
            paired = [files[0], files[1]]
            for companion in self.companions:
                with archive.open(source_of(companion, mapped=self.mapped), limits=self.limits) as opened:
                    identity = opened.archive_id
                fitting = [at for at, file in enumerate(files) if file.archive_id == identity]
                if not fitting:
                    raise ArchiveError("is the companion of neither file", file=name_of(companion))
                lacking = [at for at in fitting if not any(holds_ranges(name) for name in files[at].records)]
                for at in lacking or fitting:
                    paired[at] = stack.enter_context(self._opened((old, new)[at], companion))
            return archive.diff(*paired, ignore=self.ignored)

    def _opened(self, name: str, companion: str | None = None) -> Archive:
        return archive.open(
            source_of(name, mapped=self.mapped),
            companion=None if companion is None else source_of(companion, mapped=self.mapped),
            limits=self.limits,
            name=name_of(name),
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """One run over two folders."""

    asked: _Asked
    rows: int
    stat: bool
    as_json: bool

    def several(self, old: str, jobs: int | None) -> Status:
        """Compare the files of the same relative paths, and tell those that one folder alone has."""
        files = listing([old], kinds=COMPARED_KINDS, mapped=self.asked.mapped)
        others = listing([self.asked.new], kinds=COMPARED_KINDS, mapped=self.asked.mapped)
        json, statuses = printing.JsonParts(), {Status.WELL}
        with reading(files, self.asked.of, "comparing", jobs, as_json=self.as_json) as (lines, results):
            for result in results:
                statuses.add(status_of(result))
                name = result.file.relative
                if result.error:
                    lines.note(problem(result))
                    part: dict[str, object] = {"file": name, "error": result.error}
                elif result.facts is None:
                    statuses.add(Status.FINDINGS)
                    part = {"file": name, "status": "gone"}
                else:
                    statuses.add(_status(result.facts))
                    part = {"file": name, **_facts(result.facts)}
                if self.as_json:
                    json.add([part])
                elif not result.error:
                    self._show(name, result.facts)
        known = {file.relative for file in files.files}
        for file in others.files:
            if file.relative not in known:
                statuses.add(Status.FINDINGS)
                if self.as_json:
                    json.add([{"file": file.relative, "status": "added"}])
                else:
                    printing.write_line(f"{file.relative}: added")
        if self.as_json:
            json.end()
        return max(statuses)

    def _show(self, name: str, found: Diff | None) -> None:
        if found is None:
            printing.write_line(f"{name}: gone")
        elif self.stat or not found.changes:
            printing.write_line(f"{name}: {summary_line(found)}")
        else:
            printing.show_lines(diff_text(found, self.rows))
