"""The work on one file: plain functions of a task and a job, which any process may call → an outcome.

What is there already decides what is done. Targets that are as the manifest tells, by path and digest, are
left, or replaced where the input or the options have changed. Others are compared with what would be written:
the same is taken as done, for an earlier run may have been killed before it told; anything else is refused. A
target is looked at once more in the moment before it is replaced: another batch or its owner may have come.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

from archive.base.errors import ExistsError, ImpossibleError, NothingToDoError, UnfitOptionsError, one_line
from archive.base.mapped import in_memory
from archive.base.output import EXISTS, FORCE, check_target, is_path, replacing_only
from archive.base.problems import problem_of
from archive.base.urls import name_of
from archive.batches import places
from archive.batches.jobs import Use
from archive.batches.outcome import Outcome, OutcomeKind
from archive.batches.places import Fingerprint, Measured
from archive.reader.recognition import FileKind, listed_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.output import Sink
    from archive.batches.jobs import Job
    from archive.batches.lines import Known
    from archive.batches.tasks import Task

OTHER = f"the file is not what the manifest tells; pass {FORCE} to replace it"


def attempt(task: Task, job: Job) -> Outcome:
    """Do one file's work and catch its errors. They become texts, for not every error can be pickled."""
    try:
        return perform(task, job)
    except ImpossibleError as refusal:
        return Outcome(job, OutcomeKind.IMPOSSIBLE, _reason(job, str(refusal)), refusal.facts)
    except Exception as error:  # noqa: BLE001 (the other files still count)
        problem = problem_of(error)
        reason = _reason(job, problem.text)
        return Outcome(job, OutcomeKind.FAILED, reason, is_internal=problem.is_internal)


def perform(task: Task, job: Job, stream: BinaryIO | None = None) -> Outcome:
    """Do one file's work.

    Args:
        task: what is done.
        job: the file's paths, and what the manifest tells of them.
        stream: takes the output in the place of a file.

    Raises:
        ImpossibleError: what is asked does not go with this file.
        ArchiveError: the file is broken, or a target exists.
        OSError: a file cannot be read or written, or a folder cannot be made.
    """
    lacking = _lacks_companion(task, job)
    read = job.sources[:1] if lacking else job.sources
    sources = tuple(places.fingerprint(path, digest=task.many) for path in read)
    if stream is not None:
        return _called(task, job, sources, [cast("BinaryIO", Measured(stream))], force=True)
    known = job.known
    if known is not None and _is_same(task, job, known, sources):
        return Outcome(job, OutcomeKind.SAME, sources=sources, outputs=tuple(filter(None, known.targets)))
    own = _own(task, job)
    again = _again(task, job, sources)
    try:
        if task.dry_run:
            done = _planned(task, job, sources, force=task.force or own)
        else:
            for target in job.targets:
                places.make_folder_of(target)
            done = (
                _replacing(task, job, sources, _told(task, job))
                if own
                else _called(task, job, sources, job.targets, force=task.force)
            )
    except ExistsError:
        if not task.many or task.force:
            raise
        return replace(_adopted(task, job, sources), reason=again)
    return replace(done, reason=done.reason or again)


def _is_same(task: Task, job: Job, known: Known, sources: tuple[Fingerprint, ...]) -> bool:
    """Whether the targets are there as the manifest tells, made of these sources with these options."""
    asked = known.verb == task.verb and known.options == task.noted and known.sources == sources
    pairs = zip(job.targets, known.targets, strict=True)
    whole = asked and known.is_whole and known.clean
    return whole and all(told is None or places.look(target) == told for target, told in pairs)


def _told(task: Task, job: Job) -> list[set[Fingerprint]]:
    """For each target, the content that the manifest tells this verb to have written there; at most one."""
    known = job.known
    if known is None or known.verb != task.verb:
        return [set() for _ in job.targets]
    return [set() if told is None else {told} for told in known.targets]


def _is_one_of(target: str, contents: set[Fingerprint]) -> bool:
    """Whether a target is a file of one of these contents, and no link to one."""
    return bool(contents) and not places.is_link(target) and places.look(target) in contents


def _own(task: Task, job: Job) -> bool:
    """Whether the targets that are there may be replaced unasked: this verb made all, the manifest tells."""
    if job.known is None:
        return False
    pairs = zip(job.targets, _told(task, job), strict=True)
    return all(_is_one_of(target, told) for target, told in pairs if places.exists(target))


def _replacing(
    task: Task, job: Job, sources: tuple[Fingerprint, ...], contents: Sequence[set[Fingerprint]]
) -> Outcome:
    """Write targets in the place of files that have one of some contents in that moment, too.

    Raises:
        ExistsError: another file has a target's name by now.
    """
    own = dict(zip(job.targets, contents, strict=True))

    def check(target: str) -> None:
        if not _is_one_of(target, own[target]):
            raise ExistsError(EXISTS, file=name_of(target))

    with replacing_only(check):
        return _called(task, job, sources, job.targets, force=True)


def _again(task: Task, job: Job, sources: tuple[Fingerprint, ...]) -> str:
    """Why a file that was done is done again; "" where it was not."""
    known = job.known
    if known is None or known.verb != task.verb or not known.is_whole:
        return ""
    if known.options != task.noted:
        return "done again: with other options"
    if known.sources != sources:
        return "done again: the input has changed"
    if not known.clean:
        return "done again: something was left in it"
    pairs = zip(job.targets, known.targets, strict=True)
    there = all(places.exists(target) for target, told in pairs if told is not None)
    return "" if there else "done again: the result was gone"


def _adopted(task: Task, job: Job, sources: tuple[Fingerprint, ...]) -> Outcome:
    """Take targets as done of which nobody told, if they are what would be written; write those that lack.

    Those that are as an earlier run told are written, too: a run may have been killed between two targets.

    Raises:
        ExistsError: another file has a target's name.
    """
    made = _measured(task, job, sources)
    lacking, contents = False, _told(task, job)
    for target, wanted, told in zip(made.written, made.outputs, contents, strict=False):
        if not places.exists(target) or _is_one_of(target, told - {wanted}):
            lacking = True
        elif places.look(target) != wanted:
            raise ExistsError(OTHER if told else EXISTS, file=name_of(target))
        told.add(wanted)
    if task.dry_run:
        return replace(made, kind=OutcomeKind.TO_DO if lacking else OutcomeKind.SAME)
    return _replacing(task, job, sources, contents) if lacking else made


def _planned(task: Task, job: Job, sources: tuple[Fingerprint, ...], *, force: bool) -> Outcome:
    """Tell what would be made, after all the checks of the work itself.

    Raises:
        ArchiveError: a target exists or is no regular file, or the verb refuses the file.
        OSError: a target's folder could not be made.
    """
    for target in () if job.streamed else job.targets:
        check_target(target, force=force)
        places.check_folder_of(target)
    made = _measured(task, job, sources)
    return replace(made, kind=OutcomeKind.TO_DO) if made.kind is OutcomeKind.DONE else made


def _measured(task: Task, job: Job, sources: tuple[Fingerprint, ...]) -> Outcome:
    """Do all but the writing."""
    return _called(task, job, sources, [cast("BinaryIO", Measured()) for _ in job.targets], force=True)


def _called(
    task: Task, job: Job, sources: tuple[Fingerprint, ...], targets: Sequence[Sink], *, force: bool
) -> Outcome:
    """Call the library's function; a file that is already what it would make is copied."""
    try:
        if len(sources) < len(job.sources):  # there is no companion to join with
            why = f"no companion {name_of(job.companion)}"
            return _copied(task, job, sources, targets[0], why, force=force)
        facts = _facts(task, job, targets, force=force)
    except NothingToDoError as why:
        if job.use is Use.EMBEDDED and not job.searched:
            raise  # who names a file to restore expects that there is something to be restored
        return _copied(task, job, sources, targets[0], str(why), force=force)
    outputs = tuple(_fingerprint(target, task) for target in targets)
    reason = getattr(facts, "nothing_to_do", "")
    kind = OutcomeKind.NOTHING_TO_DO if reason else OutcomeKind.DONE
    return Outcome(job, kind, reason, facts, sources, outputs)


def _facts(task: Task, job: Job, targets: Sequence[Sink], *, force: bool) -> object:
    """Call the library's function. Options are for those archives of a folder that have what they are about.

    Raises:
        ArchiveError: the function refuses the file.
    """
    read = job.sources if task.mapped else [in_memory(path) for path in job.sources]
    call = partial(task.call, *read, *targets, force=force, limits=task.limits)
    options = dict(task.options)
    while True:
        try:
            return call(**options)
        except UnfitOptionsError as error:
            if not job.searched:
                raise
            options = {name: value for name, value in options.items() if name not in error.options}


def _copied(
    task: Task, job: Job, sources: tuple[Fingerprint, ...], target: Sink, why: str, *, force: bool
) -> Outcome:
    """Copy a file that is already what would be made of it."""
    places.copy(job.file, target, force=force)
    outputs = (_fingerprint(target, task),)
    return Outcome(job, OutcomeKind.NOTHING_TO_DO, _reason(job, why), None, sources, outputs)


def _fingerprint(target: Sink, task: Task) -> Fingerprint:
    """The fingerprint of what was written."""
    if is_path(target):
        return places.fingerprint(str(target), digest=task.many)
    assert isinstance(target, Measured)  # noqa: S101 (no others are made)
    return target.fingerprint


def _lacks_companion(task: Task, job: Job) -> bool:
    """Whether an archive that was found in a folder has no companion to be joined with.

    Raises:
        ImpossibleError: it needs one, for its debug info was split off.
    """
    if job.use is not Use.READ or not job.searched or places.exists(job.companion):
        return False
    if listed_kind(job.file, mapped=task.mapped) is FileKind.SPLIT:
        raise ImpossibleError(
            f"was split, and its companion {name_of(job.companion)} is not there", file=name_of(job.file)
        )
    return True


def _reason(job: Job, error: str) -> str:
    """An error's text without the input's name."""
    return one_line(error).removeprefix(f"{one_line(name_of(job.file))}: ")
