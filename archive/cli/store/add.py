"""``debug-archive store add``."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import click

from archive.base.urls import is_url
from archive.batches.reading import READ_KINDS, listing
from archive.cli import options, printing
from archive.cli.several import files_argument, jobs_option, problem, reading, status_of
from archive.cli.status import Status
from archive.cli.store.options import added_store_option, wait_option
from archive.failures.models.sources import store_at
from archive.reader.recognition import FileKind
from archive.report.store_text import added_line, added_total, entry_facts
from archive.store.making import NoDebugInfoError
from archive.store.store import Store
from archive.store.waiting import Waiting

if TYPE_CHECKING:
    from archive import Limits
    from archive.batches.reading import Listed
    from archive.store.client.server import Added, Server
    from archive.store.store import Kept

ADDED_KINDS = READ_KINDS | {FileKind.EXPORTED}
"""The kinds of files in folders that are added."""
WITHOUT = "no debug info"
"""The outcome of an archive from which no companion can be made."""
FAILED = "failed"
"""The outcome of a file that is broken, refused or not there."""


class _Asked(NamedTuple):
    """How files are added."""

    path: str
    limits: Limits
    wait: float
    replace: bool


@click.command("add")
@files_argument
@added_store_option
@wait_option
@click.option("--replace", is_flag=True, help="Let a companion take the place of another of its archive id.")
@jobs_option
@options.limit_option
@options.json_option()
def command(
    files: tuple[str, ...],
    *,
    path: str,
    waiting: Waiting,
    replace: bool,
    jobs: int | None,
    limits: Limits,
    as_json: bool,
) -> Status:
    """Add FILEs, companions or archives, and those in folders. The store is made if there is none.

    Of an archive, the companion that `split` makes is kept; archives without debug info are counted, and left
    out. A companion that is there already stays as it is. One whose archive id or prefix of unique handles
    is taken by another is refused.

    $SOURCE_DATE_EPOCH, if it is set, is the time that is noted.

    \b
    Examples:
      debug-archive store add model.ptdbg --store symbols/
      debug-archive store add build/models/ --store symbols/
      DEBUG_ARCHIVE_STORE=symbols/ debug-archive store add *.ptl
      debug-archive store add build/ --store https://symbols.example.com
    """  # noqa: D301 (click reads the backspace)
    found = listing(files, kinds=ADDED_KINDS)
    if not is_url(path):
        with Store.open(path, create=True, limits=limits, waiting=waiting).folder.locked():
            pass  # so that a lock that is held is waited for once, and not for each file
    add = partial(_add, asked=_Asked(path, limits, waiting.most, replace))
    facts: list[dict[str, object]] = []
    counts, status = Counter[str](), Status.WELL
    with reading(found, add, "adding", jobs, as_json=as_json) as (lines, results):
        for one in results:
            status = max(status, status_of(one))
            if one.error:
                lines.note(problem(one))
                counts[FAILED] += 1
                facts.append({"file": one.file.label, "outcome": FAILED, "reason": one.error})
                continue
            outcome = one.facts.outcome if one.facts else WITHOUT
            counts[outcome] += 1
            named = {"file": one.file.label, "outcome": outcome}
            facts.append(named | _facts(one.facts) | named)  # the entry's file is a name without its folder
            if one.facts and not as_json:
                lines.write_line(added_line(one.file.label, one.facts))
            elif not one.facts and not found.searched:
                lines.note(f"{one.file.label}: no debug info in it, and left out")
    if not is_url(path):
        with Store.open(path, limits=limits) as store:
            store.entries()  # those of other processes are in the index, too
    if as_json:
        printing.write_json(facts)
    else:
        printing.write_line(added_total(counts))
    return status


def _facts(kept: Kept | Added | None) -> dict[str, object]:
    return {} if kept is None else entry_facts(kept.entry)


def _add(file: Listed, *, asked: _Asked) -> Kept | Added | None:
    """Add a file; None of an archive without debug info."""
    try:
        return _opened(asked.path, asked.limits, asked.wait).add(file.name, replace=asked.replace)
    except NoDebugInfoError:
        return None


@lru_cache(maxsize=1)
def _opened(path: str, limits: Limits, wait: float) -> Store | Server:
    """The store, opened once a process."""
    return store_at(path, limits=limits, waiting=Waiting(wait, printing.note))
