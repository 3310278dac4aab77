"""The work on one file: a function of the library, by its name, and its options → an outcome.

Tasks and jobs can be pickled, and any process may do the work.

What is there already decides what is done. Targets that are as the manifest says, by path and digest, are
left, or replaced where the input or the options have changed. Other targets are compared with what would be
written: the same counts as done, since an earlier run may have been killed before it noted it; anything else
is refused. A target is looked at again just before it is replaced: another batch or its owner may have
changed it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from archive.base.errors import (
    ExistsError,
    ImpossibleError,
    NothingToDoError,
    UnfitOptionsError,
)
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.batches.inputs import is_false_model
from archive.batches.jobs import CompanionUse, Job
from archive.batches.outcome import Outcome, OutcomeKind, reason_of
from archive.io import places
from archive.io.mapped import Mapped, in_memory, source_of
from archive.io.output import EXISTS, REPLACES, check_target, is_path, replacing_only
from archive.io.places import Fingerprint, Measured
from archive.io.urls import name_of
from archive.reader.recognition import (
    FileKind,
    listed_kind,
    recognise,
)
from archive.reader.rewriting import check_copied

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.io.output import Sink

Made = Outcome[Job, Any]
"""What came of a file of which another is made."""

# --- tasks


@dataclass(frozen=True, slots=True)
class Task:
    """What is done to each file. It can be pickled.

    Attributes:
        call: the function, which takes a job's paths, ``force``, ``limits`` and the options.
        noted: the same for the manifest: other options make another file.
        dry_run: write nothing, and say what would be written.
        many: whether outcomes are noted in a manifest, which has digests.
    """

    verb: str
    call: Callable[..., Any]
    options: Mapping[str, Any]
    noted: Mapping[str, Any]
    limits: Limits = DEFAULT_LIMITS
    force: bool = False
    mapped: bool = True
    dry_run: bool = False
    many: bool = False


# --- the work on one file

OTHER = "the file is not what the manifest says; pass --force to replace it"


def work(task: Task, job: Job) -> Made:
    """Do one file's work; what the verb cannot do to it is an outcome, too."""
    try:
        return perform(task, job)
    except ImpossibleError as refusal:
        return Outcome(job, OutcomeKind.IMPOSSIBLE, reason_of(job, str(refusal)), refusal.facts)


def perform(task: Task, job: Job, stream: BinaryIO | None = None) -> Made:
    """Do one file's work; a stream takes the output in the place of a file.

    Raises:
        ImpossibleError: the verb cannot do this to the file.
    """
    read = job.sources[:1] if _lacks_companion(task, job) else job.sources
    sources = tuple(places.fingerprint(path, digest=task.many) for path in read)
    work = _Work(task, job, sources)
    if stream is not None:
        return work.called([cast("BinaryIO", Measured(stream))], force=True)
    if job.known is not None and work.is_done():
        return Outcome(job, OutcomeKind.SAME, sources=sources, outputs=tuple(filter(None, job.known.targets)))
    is_own, why_again = work.has_own_targets(), work.why_again()
    try:
        if task.dry_run:
            outcome = work.planned(force=task.force or is_own)
        else:
            for target in job.targets:
                places.make_folder_of(target)
            if is_own:
                outcome = work.replacing(work.noted_contents())
            else:
                outcome = work.called(job.targets, force=task.force)
    except ExistsError:
        if not task.many or task.force:
            raise
        return replace(work.adopted(), reason=why_again)
    return replace(outcome, reason=outcome.reason or why_again)


def _lacks_companion(task: Task, job: Job) -> bool:
    """Whether an archive that was found in a folder has no companion to be joined with.

    Raises:
        ImpossibleError: it needs one, since its debug info was split off.
    """
    if job.use is not CompanionUse.READ or not job.searched or places.exists(job.companion):
        return False
    kind = listed_kind(job.name, limits=task.limits, mapped=task.mapped)
    if kind is FileKind.SPLIT:
        raise ImpossibleError(
            f"was split, and its companion {name_of(job.companion)} is not there", file=job.label
        )
    if kind is None or is_false_model(job.name, kind):
        found = recognise(source_of(job.name, mapped=task.mapped), limits=task.limits, look=False)
        raise found.refusal(job.label)
    return True


def _has_one_of(target: str, contents: set[Fingerprint]) -> bool:
    """Whether a target is a file of one of these contents, and no link to one."""
    return bool(contents) and not places.is_link(target) and places.look(target) in contents


class _Work(NamedTuple):
    """A task, one file's job, and the fingerprints of what the job reads."""

    task: Task
    job: Job
    sources: tuple[Fingerprint, ...]

    # What is there

    def is_done(self) -> bool:
        """Whether the targets are as the manifest says, made of these sources with these options."""
        known = self.job.known
        return (
            known is not None
            and (known.verb, known.options, known.sources) == (self.task.verb, self.task.noted, self.sources)
            and known.is_whole
            and known.clean
            and all(
                noted is None or places.look(target) == noted
                for target, noted in zip(self.job.targets, known.targets, strict=True)
            )
        )

    def noted_contents(self) -> list[set[Fingerprint]]:
        """For each target, the content that this verb wrote there, as the manifest says; at most one."""
        known = self.job.known
        if known is None or known.verb != self.task.verb:
            return [set() for _ in self.job.targets]
        return [set() if noted is None else {noted} for noted in known.targets]

    def has_own_targets(self) -> bool:
        """Whether targets that are there may be replaced unasked: this verb made all, says the manifest."""
        if self.job.known is None:
            return False
        pairs = zip(self.job.targets, self.noted_contents(), strict=True)
        return all(_has_one_of(target, contents) for target, contents in pairs if places.exists(target))

    def why_again(self) -> str:
        """Why a file that was done is done again; "" where it was not."""
        known = self.job.known
        if known is None or known.verb != self.task.verb or not known.is_whole:
            return ""
        if known.options != self.task.noted:
            return "done again: with other options"
        if known.sources != self.sources:
            return "done again: the input has changed"
        if not known.clean:
            return "done again: something was left in it"
        pairs = zip(self.job.targets, known.targets, strict=True)
        there = all(places.exists(target) for target, noted in pairs if noted is not None)
        return "" if there else "done again: the result was gone"

    # What is done

    def replacing(self, contents: Sequence[set[Fingerprint]]) -> Made:
        """Write targets in the place of files that have one of some contents in that moment, too."""
        replaced = dict(zip(self.job.targets, contents, strict=True))

        def check(target: str) -> None:
            if not _has_one_of(target, replaced[target]):
                raise ExistsError(EXISTS, file=name_of(target), in_python=REPLACES)

        with replacing_only(check):
            return self.called(self.job.targets, force=True)

    def adopted(self) -> Made:
        """Take targets that no manifest has as done, if they would be written so; write those that lack.

        Targets that are as an earlier run noted are written, too: a run may be killed between two targets.
        """
        made = self.measured()
        is_lacking, contents = False, self.noted_contents()
        for target, wanted, noted in zip(made.written, made.outputs, contents, strict=False):
            if not places.exists(target) or _has_one_of(target, noted - {wanted}):
                is_lacking = True
            elif places.look(target) != wanted:
                raise ExistsError(OTHER if noted else EXISTS, file=name_of(target), in_python=REPLACES)
            noted.add(wanted)
        if self.task.dry_run:
            return replace(made, kind=OutcomeKind.TO_DO if is_lacking else OutcomeKind.SAME)
        return self.replacing(contents) if is_lacking else made

    def planned(self, *, force: bool) -> Made:
        """What would be made, after all the checks of the work itself."""
        for target in () if self.job.streamed else self.job.targets:
            check_target(target, force=force)
            places.check_folder_of(target)
        made = self.measured()
        return replace(made, kind=OutcomeKind.TO_DO) if made.kind is OutcomeKind.DONE else made

    def measured(self) -> Made:
        """Do all but the writing."""
        return self.called([cast("BinaryIO", Measured()) for _ in self.job.targets], force=True)

    def called(self, targets: Sequence[Sink], *, force: bool) -> Made:
        """Call the library's function; a file that is already what it would make is copied."""
        try:
            if len(self.sources) < len(self.job.sources):  # there is no companion to join with
                return self._copied(targets[0], f"no companion {name_of(self.job.companion)}", force=force)
            facts = self._facts(targets, force=force)
        except NothingToDoError as why:
            if self.job.use is CompanionUse.EMBEDDED and not self.job.searched:
                raise  # naming a file to restore implies that it has something to restore
            return self._copied(targets[0], str(why), force=force)
        reason = getattr(facts, "nothing_to_do", "")
        kind = OutcomeKind.NOTHING_TO_DO if reason else OutcomeKind.DONE
        outputs = tuple(self._fingerprint(target) for target in targets)
        return Outcome(self.job, kind, reason, facts, self.sources, outputs)

    def _facts(self, targets: Sequence[Sink], *, force: bool) -> object:
        """Call the library's function; in a folder, archives an option doesn't fit do without it."""
        job, task = self.job, self.task
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

    def _copied(self, target: Sink, why: str, *, force: bool) -> Made:
        """Copy a file that is already what would be made of it, if its records are whole."""
        source = self.job.name if self.task.mapped else in_memory(self.job.name)
        with closing(Mapped(source)) as mapped:
            check_copied(mapped)
        places.copy(self.job.name, target, force=force)
        reason, outputs = reason_of(self.job, why), (self._fingerprint(target),)
        return Outcome(self.job, OutcomeKind.NOTHING_TO_DO, reason, None, self.sources, outputs)

    def _fingerprint(self, target: Sink) -> Fingerprint:
        if is_path(target):
            return places.fingerprint(str(target), digest=self.task.many)
        assert isinstance(target, Measured)  # noqa: S101 (no others are made)
        return target.fingerprint
