"""``batch``: one verb for many files, as the command of that name does it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from archive.app.verbs import planned, task_of
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.batches.manifest import outcomes_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Executor

    from archive.batches.jobs import Job
    from archive.batches.outcome import Outcome
    from archive.io.output import Target


def batch(
    verb: str,
    inputs: Target | Iterable[Target],
    out: Target,
    companions: Target | None = None,
    *,
    manifest: Target | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    dry_run: bool = False,
    force: bool = False,
    mapped: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    **options: Any,  # noqa: ANN401 (those of the verb)
) -> list[Outcome[Job, Any]]:
    """Do one thing to many files, as the command of that name does it.

    What is done is noted in a manifest, from which another run goes on. Archives for which there is nothing
    to do are copied, so that ``out`` holds every archive.

    Args:
        verb: ``split``, ``join``, ``shrink``, ``restore``, ``redact``, ``migrate``, ``convert``,
            ``canonicalise``, ``lite``, ``redact_companion``, ``redact_metadata`` or ``redact_checkpoint``.
        inputs: files, folders and globs; or one of them.
        out: the folder for what is written.
        companions: the folder of companions: ``split`` and ``redact`` write them there, and need it;
            ``join`` reads them there, or by default beside the inputs.
        manifest: a name that ends with ``.jsonl``. By default ``companions/manifest.jsonl`` where companions
            are written, else ``out.manifest.jsonl`` beside the folder ``out``, which is shipped.
        executor: does the work, wherever it does: that of a Dask client, say. Its workers see the same files
            by the same absolute paths. By default processes on this machine do it.
        jobs: the number of those processes, by default of CPUs; 1 works in this one.
        dry_run: say what would be written, and write nothing.
        force: replace existing files.
        mapped: map files instead of reading them.
        limits: what a hostile file may cost.
        options: the verb's own, by name: ``to="latest"``.

    Returns:
        The outcome of each file, in the order of the input.

    Raises:
        ArchiveError: the plan is refused, and nothing is done: a target would be an input, say, or there is
            no folder for companions.
        OSError: a folder cannot be read, or the manifest cannot be written.
    """
    given = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    task = task_of(verb, options, limits=limits, force=force, mapped=mapped, dry_run=dry_run, many=True)
    work = planned(
        verb,
        [os.fspath(path) for path in given],
        os.fspath(out),
        None if companions is None else os.fspath(companions),
        manifest=None if manifest is None else os.fspath(manifest),
        mapped=mapped,
        several=True,
    )
    return list(outcomes_of(work, task, jobs or os.cpu_count() or 1, executor))
