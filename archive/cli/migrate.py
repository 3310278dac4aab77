"""``debug-archive migrate``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

import archive
from archive.base.errors import counted
from archive.base.mapped import source_of
from archive.base.output import check_target
from archive.batches.jobs import plan
from archive.batches.manifest import Manifest, is_same
from archive.batches.working import failed
from archive.cli import printing
from archive.cli.files import batch, options
from archive.cli.files.words import WORDS
from archive.cli.status import Status
from archive.report.migration_text import migration_facts, plan_line, plan_text
from archive.verbs.migrate.migrate import target_named

if TYPE_CHECKING:
    from archive.base.mapped import Source
    from archive.batches.jobs import FilePlan
    from archive.batches.working import Outcome, Verb
    from archive.cli.files.batch import Manner
    from archive.verbs.migrate.migrate import Migration


@click.command("migrate")
@options.takes_files
@click.option(
    "--to",
    required=True,
    metavar="RELEASE",
    help="A PyTorch release (1.9, 2.13, latest), a layout of source ranges (pair-rows, inline-rows, "
    "string-table), or original: what it was before it was migrated.",
)
@click.option("--lossy", is_flag=True, help="Go on without what the target has no place for.")
@click.option(
    "--no-aside",
    "aside",
    flag_value=False,
    default=True,
    help="Keep nothing of what the archive was; smaller, but the way back is not exact.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and write nothing.")
@options.takes_manner
def command(
    inputs: tuple[str, ...],
    *,
    out: str,
    to: str,
    lossy: bool,
    aside: bool,
    dry_run: bool,
    manner: Manner,
) -> Status:
    """Rewrite the debug info of archives IN as another PyTorch release writes and reads it.

    Source ranges, call stacks, handles and module paths are carried over, and what the target refuses is
    mended where rewriting records can mend it. What the target has no place for is listed, and needs --lossy.

    What an archive was is kept in it, in a record that PyTorch ignores: migrating it back gives the original,
    byte for byte.

    Several archives, or a folder to search for them, take a folder for OUT. What has been
    done is told in OUT/manifest.jsonl, and not done again after an interruption.

    \b
    Examples:
      debug-archive migrate old.ptl -o new.ptl --to latest
      debug-archive migrate new.ptl -o old.ptl --to 1.9 --dry-run
      debug-archive migrate models/ -o migrated/ --to 2.13 --jobs 4
    """  # noqa: D301 (click reads the backspace)
    target = target_named(to)
    work = plan(inputs, out, mapped=manner.mapped)
    verb = partial(archive.migrate, to=to, lossy=lossy, aside=aside, limits=manner.limits)
    if dry_run:
        return _print_plans(work, verb, manner)
    if not work.many:
        return manner.run(work, verb, WORDS["migrate"])
    with Manifest(Path(out), str(target), aside=aside) as manifest:
        left = work if manner.force else _left(manifest, work)
        if left.jobs:
            return manner.run(left, partial(_migrate_again, verb), WORDS["migrate"], manifest.add)
    if manner.as_json:
        printing.write_json([])
    return Status.WELL


def _left(manifest: Manifest, work: FilePlan) -> FilePlan:
    """The work that is not done yet."""
    left, changed = manifest.left(work)
    done = len(work.jobs) - len(left.jobs)
    if done:
        printing.note(f"done already, and left as they are: {done:,} of {counted(len(work.jobs), 'file')}")
    if changed:
        printing.note(f"changed since, and done again: {changed:,}")
    return left


def _migrate_again(verb: Verb, file: Source, out: Path, *, force: bool) -> Migration:
    """Migrate a file. A result that is there already is left if it is the same.

    An interruption may come between a file's result and its line in the manifest.

    Raises:
        ArchiveError: another file is there, and ``force`` is not given.
    """
    if force or not out.exists():
        facts: Migration = verb(file, out, force=force)
        return facts
    facts = verb(file)
    if not is_same(out, facts.digest):
        check_target(out, force=False)
    return replace(facts, data=b"")


def _print_plans(work: FilePlan, verb: Verb, manner: Manner) -> Status:
    """Print what would be done; one of several files may fail without ending the command."""
    facts: list[dict[str, object]] = []
    statuses = [Status.WELL]
    batch.note_left_out(work)
    for job in work.jobs:
        try:
            planned = verb(source_of(str(job.file), mapped=manner.mapped), dry_run=True)
        except Exception as error:
            if not work.many:
                raise
            outcome = failed(job, error)
            statuses.append(batch.status_of(outcome))
            facts.append(_failure(outcome))
            continue
        facts.append({"file": str(job.file), **migration_facts(planned)})
        if not manner.as_json:
            _print_plan(planned, str(job.file), many=work.many)
    if manner.as_json:
        printing.write_json(facts if work.many else facts[0])
    return max(statuses)


def _failure(outcome: Outcome) -> dict[str, object]:
    """Note why a file cannot be migrated, and return it as facts."""
    problem = batch.problem(outcome)
    printing.note(problem)
    return {"file": str(outcome.job.file), "error": problem}


def _print_plan(planned: Migration, file: str, *, many: bool) -> None:
    if many:
        printing.write_line(plan_line(planned, file))
    else:
        printing.show(plan_text(planned, file))
