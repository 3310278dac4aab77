"""``debug-archive migrate``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

import archive
from archive.base.output import check_target
from archive.cli import batch, common
from archive.cli.jobs import plan
from archive.cli.main import FAILED
from archive.cli.manifest import Manifest, is_same
from archive.cli.pool import Outcome, told
from archive.report.migration_text import (
    migration_facts,
    migration_line,
    migration_text,
    plan_line,
    plan_text,
)
from archive.verbs.migrate.migrate import target_named

if TYPE_CHECKING:
    from archive.cli.jobs import FilePlan
    from archive.cli.pool import Verb
    from archive.verbs.migrate.migrate import Migration

WORDS = batch.Words("migrating", migration_text, migration_line, migration_facts)


@click.command("migrate")
@batch.files
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
@batch.manner
def command(
    inputs: tuple[str, ...],
    *,
    out: str,
    to: str,
    lossy: bool,
    aside: bool,
    dry_run: bool,
    manner: batch.Manner,
) -> None:
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
    work = plan(inputs, out)
    verb = partial(archive.migrate, to=to, lossy=lossy, aside=aside)
    if dry_run:
        sys.exit(_plan(work, verb, as_json=manner.as_json))
    if not work.many:
        manner.run(work, verb, WORDS)
    with Manifest(Path(out), str(target), aside=aside) as manifest:
        left = work if manner.force else manifest.left(work)
        if left.jobs:
            manner.run(left, partial(_again, verb), WORDS, manifest.add)
    if manner.as_json:
        common.write_json([])


def _again(verb: Verb, file: Path, out: Path, *, force: bool) -> Migration:
    """Migrate a file, unless its result is there already: written before an interruption, but not told of."""
    if force or not out.exists():
        facts: Migration = verb(file, out, force=force)
        return facts
    with TemporaryDirectory(prefix=".", dir=out.parent) as folder:
        facts = verb(file, Path(folder, out.name))
    if not is_same(out, facts.digest):
        check_target(out, force=False)
    return facts


def _plan(work: FilePlan, verb: Verb, *, as_json: bool) -> int:
    """Print what would be done."""
    facts: list[dict[str, object]] = []
    batch.tell_left_out(work)
    for job in work.jobs:
        file = str(job.file)
        try:
            planned = verb(job.file, dry_run=True)
        except Exception as error:
            if not work.many:
                raise
            problem = batch.problem(Outcome(job, error=told(error)))
            common.note(problem)
            facts.append({"file": file, "error": problem})
            continue
        facts.append({"file": file, **migration_facts(planned)})
        if not as_json and work.many:
            common.write(f"{plan_line(planned, file)}\n".encode())
        elif not as_json:
            common.console().print(plan_text(planned, file))
    if as_json:
        common.write_json(facts if work.many else facts[0])
    return FAILED if any("error" in one for one in facts) else 0
