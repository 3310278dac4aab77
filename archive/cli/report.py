"""``debug-archive report``: a page about a file; for several, a page each and one that lists them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from archive.base.errors import counted, one_line
from archive.base.quick_dataclass import dataclass
from archive.cli import options, printing
from archive.cli.files import Row, files_argument, is_single, unread_row
from archive.cli.reading import takes_reader
from archive.cli.reviewing import check_review
from archive.cli.status import ExitStatus
from archive.io.output import check_target, replacing
from archive.io.places import check_folder_of, exists, is_folder, joined, make_folder_of
from archive.page.folder import INDEX, FolderPage, page_of, title_of
from archive.page.report import Report, report
from archive.page.shown import Shown
from archive.reader.recognition.kinds import FOLDER_KINDS

if TYPE_CHECKING:
    from archive.batches.inputs import InputFile
    from archive.batches.outcome import Reading
    from archive.batches.reading import FoundFiles
    from archive.cli.reading import FileReader

PAGE_ENDINGS = (".html", ".htm")


@click.command("report")
@files_argument
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="HTML|FOLDER",
    type=click.Path(),
    help="The page; of several files, the folder for their pages and an index.html.",
)
@options.companion_option("The debug info of FILE, if that was split off.")
@click.option(
    "--base",
    metavar="BASE",
    type=click.Path(),
    help="Show what grew since this file, or those of this folder, and which lines of source differ.",
)
@click.option(
    "--review",
    metavar="FILE",
    type=click.Path(),
    help="Show the texts that nobody has accepted in this review file, with boxes to tick, and save it.",
)
@click.option(
    "--values",
    metavar="JSON",
    type=click.Path(dir_okay=False),
    help="Show by line what `run --json` has printed of FILE: its values, or differences from a base.",
)
@options.source_option("Show source text and paths, only base names of files, or neither.")
@options.force_option()
@takes_reader()
def command(
    files: tuple[str, ...],
    *,
    out: str,
    companion: str | None,
    base: str | None,
    review: str | None,
    values: str | None,
    show: str,
    force: bool,
    reader: FileReader,
) -> ExitStatus:
    """Write a page about a file, for a browser: sizes, source beside generated code, findings.

    The page is one file that needs no network. It holds the model's source text and paths of its builder,
    unless --source says otherwise. Of a folder, a glob in quotes, or several files, each file gets a page in
    the folder OUT, and index.html lists them.

    \b
    Examples:
      debug-archive report model.ptl -o report.html
      debug-archive report new.pt2 --base old.pt2 -o report.html
      debug-archive report model.pt --source none -o report.html
      debug-archive report small.ptl -c model.ptdbg -o report.html
      debug-archive report public.pt2 --review review.jsonl -o report.html
      debug-archive report quantised.pt --values difference.json -o report.html
      debug-archive report models/ -o pages/ -j 8
    """  # noqa: D301 (click reads the backspace)
    check_review(review, files)
    if review is not None and Shown(show) is not Shown.FULL:
        raise click.UsageError("--review shows all texts of FILE, and --source hides some")
    writing = _Writing(out, companion, base, review, values, Shown(show), force, reader)
    return writing.single(files[0]) if is_single(files) else writing.several(files)


@dataclass(frozen=True, slots=True)
class _Writing:
    """What is asked of each file, in whichever process."""

    out: str
    companion: str | None
    base: str | None
    review: str | None
    values: str | None
    shown: Shown
    force: bool
    reader: FileReader

    def page(self, name: str, out: str, base: str | None) -> Report:
        """Write the page of a file."""
        companion, base_source = (
            None if path is None else self.reader.source(path) for path in (self.companion, base)
        )
        return report(
            self.reader.source(name),
            out,
            companion=companion,
            base=base_source,
            review=self.review,
            values=self.values,
            show=self.shown,
            force=self.force,
            limits=self.reader.limits,
        )

    def page_of(self, file: InputFile) -> Report:
        """Write the page of one of several files."""
        out = joined(self.out, page_of(file.relative))
        make_folder_of(out)
        return self.page(file.name, out, None if self.base is None else file.in_folder(self.base))

    def single(self, name: str) -> ExitStatus:
        """Write the page of the only file."""
        made = self.page(name, self.out, self.base)
        if self.reader.as_json:
            printing.write_document(made)
        else:
            printing.write_line(f"{made.out}: {_line(made)}")
        return ExitStatus.WELL

    def several(self, names: tuple[str, ...]) -> ExitStatus:
        """Write a page of each file, and one that lists them."""
        if self.companion is not None:
            raise click.UsageError("-c is the companion of one FILE")
        if self.values is not None:
            raise click.UsageError("--values are of one FILE")
        if self.out.lower().endswith(PAGE_ENDINGS) and not is_folder(self.out):
            raise click.UsageError(
                f"several files get a page each, in a folder: -o {self.out.rpartition('.')[0]}/"
            )
        if self.base is not None and not is_folder(self.base):
            raise click.UsageError("several files are compared with those of a folder, and BASE isn't one")
        skipped = [folder for folder in (self.out, self.base) if folder is not None]
        files = self.reader.listing(names, FOLDER_KINDS["report"], skipped)
        index = joined(self.out, INDEX)
        self._check(files, index)
        titles = names if self.shown.has_paths else [self.shown.file(name.rstrip("/\\")) for name in names]
        where = one_line(", ".join(names)) if self.shown.has_paths else ""
        folder = FolderPage(title_of(titles), where=where)
        status = self.reader.several(files, self.page_of, "reporting", partial(self._row, folder))
        make_folder_of(index)
        with replacing(index, force=self.force) as file:
            file.write(folder.page())
        if not self.reader.as_json:
            printing.write_line(f"{index}: {counted(len(files.files), 'file')}")
        return status

    def _check(self, files: FoundFiles, index: str) -> None:
        """Refuse pages that exist, unless they may be replaced, and two of one name."""
        check_folder_of(index)
        seen = {index: "the list of all pages"}
        for file in files.files:
            page = joined(self.out, page_of(file.relative))
            if page in seen:
                raise click.UsageError(f"{seen[page]} and {file.label} would have the same page {page}")
            seen[page] = file.label
        for page in seen:
            if exists(page):
                check_target(page, force=self.force)

    def _row(self, folder: FolderPage, reading: Reading[Report]) -> Row:
        """The line of a file in the page that lists all."""
        made = reading.facts
        if made is None:
            folder.refuse(reading.job.relative, reading.reason)
            return unread_row(reading)
        folder.report(reading.job.relative, made)
        return Row(facts=made, lines=[f"{made.out}: {_line(made)}"])


def _line(made: Report) -> str:
    """The page in words: its size, what it shows, and how much it leaves out."""
    holds = {
        Shown.FULL: "may hold source text and paths",
        Shown.BASENAME: "may hold source text",
        Shown.NONE: "holds no source text",
    }
    parts = [f"{made.page_size:,} bytes", holds[made.source], *made.left_out]
    return "; ".join(parts)
