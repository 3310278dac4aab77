"""Commands that read many files: what they share."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from archive.base.errors import one_line
from archive.batches.inputs import told
from archive.batches.reading import readings
from archive.cli import printing
from archive.cli.ending import sigterm_as_ctrl_c
from archive.cli.progress import tracker
from archive.cli.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from archive.batches.reading import Listed, Listing, Reading
    from archive.cli.progress import Tracker
    from archive.reader.recognition import FileKind

FactsT = TypeVar("FactsT")
FEW = 32
"""So many files take less time in one process than processes take to start."""

files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    show_default=f"number of CPUs; 1 for up to {FEW} files",
    help="How many files to read at a time.",
)


@contextmanager
def reading(
    listing: Listing, read: Callable[[Listed], FactsT], doing: str, jobs: int | None, *, as_json: bool
) -> Iterator[tuple[Tracker, Iterable[Reading[FactsT]]]]:
    """Read files for the time of the block, and note which files of folders are not read.

    Args:
        listing: the files.
        read: a function of a file; see :func:`archive.batches.reading.readings`.
        doing: the progress bar's text.
        jobs: the number of processes, if it is given.
        as_json: whether standard output is JSON.

    Yields:
        What writes lines beside the progress bar; and what came of each file, in their order.
    """
    count = len(listing.files)
    workers = jobs or (1 if count <= FEW else os.cpu_count() or 1)
    with (
        sigterm_as_ctrl_c(),
        closing(readings(read, listing.files, workers)) as results,
        tracker(doing, count, as_json=as_json) as lines,
    ):
        yield lines, lines.track(results)
    note_left_out(listing.others)


def note_left_out(others: Mapping[FileKind, int]) -> None:
    """Note what a search has found and no command takes, if there is some."""
    if others:
        printing.note(f"neither archives nor companions, and left out: {told(others)}")


def problem(reading: Reading[FactsT]) -> str:
    """Why a file could not be read, on one line that begins with the file's name."""
    name = one_line(reading.file.label)
    return one_line(reading.error if reading.error.startswith(name) else f"{name}: {reading.error}")


def status_of(reading: Reading[FactsT]) -> Status:
    """The exit status that a file stands for, apart from findings."""
    if reading.is_internal:
        return Status.INTERNAL
    return Status.FAILED if reading.error else Status.WELL
