"""Which of many models a failure belongs to, and that model's answer.

A failure is explained by

1. the model whose prefix its unique handles have;
2. the models that the log names: see :mod:`~archive.failures.models.naming`. The label of a release alone
   says which models are left, and names none: others of that release may not be at hand;
3. among those left, the only one that nothing contradicts.

Companions that say the same about all handles, with other ids, are *twins*: one of them answers for all. A
split archive and a companion of one archive id are one model, whose code proves what the companion says, and
whose inputs the companion lacks. What rules out the archive rules out the companion.

A model is *contradicted* if it lacks the handle or the code, or the handle's operator does not print the
message. It is *unproven* if it says a source, but has no code that could be compared with the log's.

- If there is a single model, or 1 or 2 leave a single one, its answer holds as it is, proven or not.
- Otherwise unproven models yield to proven ones. If only unproven ones are left, they explain the failure if
  the log names them (2); else it stays, and a note says what would prove one.
- If several are left whose explanations say the same, that explanation holds; if kinds of files word it
  differently, the shortest one. If they differ, the failure is ambiguous, and stays as it is.
- It also stays if it may be of a model that can't be read. Only 1, 2 and what a store's index knows rule that
  out: a file that is cut short lacks what would, its handles and much of its code.

The outcome does not depend on how many models there are: each is asked, unless two have already differed.
Then only whether the others may have failed so counts, and one version of a model says that for all whose
handles are split alike. Steps bound what asking takes (``Limits.work``); if they run out, a note says how
many models were asked.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import LimitError, counted, one_line, several
from archive.base.spending import Recent
from archive.debuginfo.unique_handles import prefix_at_end
from archive.failures.answers import ArchiveAnswers
from archive.failures.failure import OTHER_TEXT, Answer, why_left
from archive.failures.traceback_failures import UNCHECKED
from archive.reader.facts import handle_digest, splitting_digest
from archive.reader.lacking import REMEDY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from archive.base.limits import Steps
    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.failure import Failure
    from archive.failures.models.models import Model, Models
    from archive.failures.models.naming import Naming, NamingLine
    from archive.reader.archive import Archive


UNPROVEN = "nothing proves it: a companion has no code to compare with the log"
OR_STORE = " or a --store that has it"
IF_SPLIT = f"if `split` took it out, give its companion{OR_STORE}, too"
OF_SEVERAL = f": give it,{OR_STORE}"
"""In the place of ``REMEDY``, where several models are asked."""
MOST_LISTED = 256
"""Up to this many models are all asked about an ambiguous failure, so that a note can list them. If there are
more, none is asked once two have differed: the failure is ambiguous whatever the others say."""
MOST_NAMED = 3
"""Models of an ambiguous failure that its note names, and of which it is asked whether they have code."""
STEPS_ASKED = 16
"""Steps that asking a model counts for: it may have to be opened."""
CHOICES_KEPT = 1 << 16
"""Models that are remembered for failures seen before, in all."""
SPLITS_KEPT = 1 << 16
"""Handles and versions of models of which it is kept whether they fit."""
TEXT_KEPT = 1 << 22
"""Bytes of the shared answers that are kept, in all."""
KEY_BYTES = 16
"""Bytes that each model of a failure counts for among them."""


OF_ANSWERS = tuple(field.name for field in fields(Answer) if field.name != "failure")
"""What is kept of an answer: all but the failure, whose lines belong to the log."""


class Candidate(NamedTuple):
    """A model that may have failed, and its answer."""

    model: Model
    answer: Answer


class Survey(NamedTuple):
    """What models say about a failure.

    Attributes:
        problem: why not all were asked; "" if they were.
    """

    candidates: list[Candidate]
    problem: str = ""


class FleetAnswers:
    """The answers of many models."""

    def __init__(self, models: Models, style: Style, spending: Spending, naming: Naming) -> None:
        self.models = models
        self._spending = spending
        self._answers_of = partial(ArchiveAnswers, style=style, spending=spending)
        self._naming = naming
        self._choices = Recent[tuple[object, ...], list["Model"]](CHOICES_KEPT)
        self._possible_splits = Recent[tuple[bytes, object], bool](SPLITS_KEPT)
        self._shared = Recent[tuple[object, ...], dict[str, Any]](TEXT_KEPT)

    @property
    def notes(self) -> list[str]:
        """What the log does not have that was looked for."""
        return self._naming.notes

    def saw(self, line: bytes, number: int, *, is_failing: bool = False) -> None:
        """Note a line of the log, which may name a model."""
        self._naming.saw(line, number, is_failing=is_failing)

    def naming_in(self, lines: bytes) -> Iterable[int]:
        """Places of what may name a model."""
        return self._naming.naming_in(lines)

    def named(self, line: bytes) -> bytes:
        """The line: it isn't known which model its hashes belong to."""
        return line

    def answer(self, failure: Failure) -> Answer | None:
        """The answer to a failure; None where the log has its source, or the failure shows no model."""
        if failure.problem:
            return Answer(failure, None, ((0, failure.problem),), is_lineless=bool(failure.no_line))
        if not failure.shows_model():
            return None
        prefix = prefix_at_end(failure.digits) if failure.digits else 0
        known = self.models.of_prefix(prefix) if failure.digits else self._around(failure)
        of = f", of the archive {prefix} if they are unique" if prefix and not known else ""
        answer = self._answer(failure, failure.what + of, known)
        if failure.digits and known and answer.text is not None:
            answer = self._with_contradiction(answer, failure, known)
        # A profile has rows of all models, those that are not at hand too: they are no failures.
        return None if failure.is_row and not answer.is_possible else answer

    def source_problem(self, failure: Failure) -> None:
        """None: with several models, nothing says whose source the log shows."""

    def _with_contradiction(self, answer: Answer, failure: Failure, known: Sequence[Model]) -> Answer:
        """The answer of the models that handles name, with a note if the log names others by a pattern."""
        naming = self._naming.by_pattern(failure.stream)
        if naming is None or any(model in naming.models for model in known):
            return answer
        note = f"{naming}, but the handles are unique and those of {several([*answer.models])}"
        return replace(answer, notes=(*answer.notes, (0, note)))

    def _around(self, failure: Failure) -> Sequence[Model]:
        """The models that explain a failure of which this one is the inner part; none for one by itself."""
        return [model for model in self.models.all if model.file in failure.within] if failure.within else ()

    def _answer(self, failure: Failure, what: str, known: Sequence[Model]) -> Answer:
        """The answer of the only model that nothing contradicts.

        Args:
            known: the models that the failure itself names, if it does.
        """
        naming = None if known else self._naming.named(failure.stream, failure.lines_of_traceback)
        models = known or (self.models.all if naming is None else naming.models)
        what = what if naming is None else f"{what}, and {naming}"
        key = (failure.key, *models)
        shared = self._shared.get(key) if self._is_shared(failure, naming) else None
        if shared is not None:
            return Answer(failure, **shared)
        is_named = naming is not None and not naming.is_release
        is_only = len(models) == 1 and (is_named or naming is None)
        if is_only and (only := next(self._asked(models, failure), None)):
            answer = _explained([only._replace(answer=_with_remedy(only.answer))], naming)
            return answer if answer.text is None else self._kept(key, failure, answer, naming)
        survey = self._survey(self._possible(models, failure, key), failure)
        if survey.problem:
            return _unexplained(failure, what, survey.problem, survey.candidates)
        left = _united(survey.candidates)
        # Prefer models whose code matches the log to models that have no code to compare.
        left = [candidate for candidate in left if not candidate.answer.is_unproven] or left
        self._choices.keep(key, [candidate.model for candidate in left], 1 + len(models))
        why = self._why_damaged(models, failure, left) or ("" if is_named else _why_unproven(left, naming))
        if why:
            return _unexplained(failure, what, why, is_possible=True)
        said = {candidate.answer.said for candidate in left}
        if len(left) == 1 and said == {None} and not left[0].answer.is_split:
            return _explained(left, naming)  # for its own reason
        if len(said) == 1 and None not in said:
            return self._kept(key, failure, _explained(left, naming), naming)
        if not left and failure.no_line:
            return replace(_unexplained(failure, what, failure.no_line, left), is_lineless=True)
        answer = _unexplained(failure, what, self._why(models, left, naming), left)
        answer = replace(answer, is_split=_are_split(left))
        return self._kept(key, failure, answer, naming) if left and None not in said else answer

    def _why_damaged(self, models: Sequence[Model], failure: Failure, left: Sequence[Candidate]) -> str:
        """The model that may have failed so and can't be read; "" where facts rule out each such model.

        The one whose name is first, so that the order of models doesn't count. If none is left that can be
        read, one without facts, which may be of anything, isn't a reason: there is a better one.
        """
        unread = [model for model in models if model.file in self.models.unread]
        damaged = [model for model in unread if model.has_facts and failure.may_be_of(model.facts)]
        if damaged:
            return f"may be of {_first_name(damaged)}, and its companion is damaged"
        unknown = [model for model in unread if not model.has_facts]
        if not (left and unknown):
            return ""
        name = _first_name(unknown)
        return f"nothing says which model failed, and {name} cannot be read: mend that file, or leave it out"

    def _survey(self, possible: Sequence[Model], failure: Failure) -> Survey:
        """Ask the models that may have failed so, up to the steps that may be taken."""
        candidates: list[Candidate] = []
        texts: dict[bytes | None, bytes | None] = {}
        proven: dict[bytes | None, Candidate] = {}
        others = set[str]()
        with self._spending.one_failure() as steps:
            try:
                for candidate in self._asked(possible, failure, steps, lambda: len(proven) > 1):
                    answer = candidate.answer
                    if not answer.is_possible:
                        if candidate.model.shows_code:
                            others.add(candidate.model.facts.archive_id)
                        continue
                    # Equal texts of many models are one object.
                    text = texts.setdefault(answer.text, answer.text)
                    if text is not answer.text:
                        candidate = candidate._replace(answer=replace(answer, text=text))  # noqa: PLW2901
                    candidates.append(candidate)
                    if text not in {None, OTHER_TEXT} and not answer.is_unproven:
                        proven.setdefault(answer.said, candidate)
                    if len(proven) > 1 and len(possible) > MOST_LISTED:
                        first, second = (one_line(each.model.file) for each in proven.values())
                        more = f"maybe others of {len(possible):,}"
                        remedy = _remedy([*proven.values()])
                        return Survey(candidates, f"ambiguous: fits {first}, {second} and {more}; {remedy}")
            except LimitError as error:
                asked = steps.taken // STEPS_ASKED - 1
                so_far = f"asked {asked:,} of {counted(len(possible), 'model')} that may have failed so"
                return Survey(candidates, f"{why_left(error)} ({so_far})")
        return Survey([one for one in candidates if not _is_ruled_out(one, others)])

    def _is_shared(self, failure: Failure, naming: NamingLine | None) -> bool:
        """Whether failures with the same key get the same answer: it depends on nothing else.

        For failures without handles more counts, and notes give the number of a line that names a model.
        A model that could be read when an answer was kept, and can't now, may have failed so.
        """
        return bool(failure.digits) and naming is None and not self.models.unread

    def _kept(
        self, key: tuple[object, ...], failure: Failure, answer: Answer, naming: NamingLine | None
    ) -> Answer:
        """The answer, kept for failures that get the same."""
        if self._is_shared(failure, naming):
            size = len(answer.text or b"") + sum(len(note) for _, note in answer.notes) + KEY_BYTES * len(key)
            self._shared.keep(key, {name: getattr(answer, name) for name in OF_ANSWERS}, size)
        return answer

    def _possible(self, models: Sequence[Model], failure: Failure, key: tuple[object, ...]) -> list[Model]:
        """The models that may have failed so, as far as that is known without opening them."""
        chosen = self._choices.get(key)
        if chosen is not None:
            return chosen
        if failure.digits and models is self.models.all:  # no prefix says which
            owners = [models[number] for number in self.models.handle_owners.of(failure.digits)]
            return [model for model in owners if model.file not in self.models.unread]
        found = []
        for model in models:
            with self.models.noting_unread(model):
                if model.file not in self.models.unread and failure.may_be_of(model.facts):
                    found.append(model)
        return found

    def _asked(
        self,
        models: Sequence[Model],
        failure: Failure,
        steps: Steps | None = None,
        differ: Callable[[], bool] = lambda: False,
    ) -> Iterator[Candidate]:
        """The answers of the models that can be read, and have one; one twin answers for all.

        Args:
            differ: whether two explanations differ already: then those of others don't count.
        """
        of_twins: dict[bytes, Answer] = {}
        is_twice = bool(failure.digits) and len(models) > 1
        key, other = failure.key, Answer(failure, OTHER_TEXT, is_possible=True)
        for model in models:
            if model.file in self.models.unread:
                continue
            answer = of_twins.get(model.handle_digest)
            if answer is None:
                if steps is not None:  # else the model's own reason is wanted
                    steps.take(STEPS_ASKED)
                    is_possible = self._possible_splits.get((model.splitting_digest, key))
                    if is_possible and differ():
                        yield Candidate(model, other)
                    if is_possible is False or (is_possible and differ()):
                        continue
                with (
                    self.models.noting_unread(model),
                    self.models.using(model, self, self._answers_of) as answers,
                ):
                    answer = failure.possible(answers) if differ() else answers.answer(failure)
                    if answer is not None and is_twice:
                        model.handle_digest = model.handle_digest or handle_digest(answers.archive)
                        if model.handle_digest:
                            of_twins[model.handle_digest] = answer
                        self._note_splits(model, failure, answer, answers.archive)
            # After the block: a caller that takes only the first answer does not come back.
            if answer is not None:
                yield Candidate(model, answer)

    def _note_splits(self, model: Model, failure: Failure, answer: Answer, opened: Archive) -> None:
        """Note whether models of the same handles may have failed so, if that is certain."""
        if prefix_at_end(failure.digits) or (answer.is_possible and answer.text is None):
            return
        model.splitting_digest = model.splitting_digest or splitting_digest(opened)
        if model.splitting_digest:
            self._possible_splits.keep((model.splitting_digest, failure.key), answer.is_possible, 1)

    def _why(self, models: Sequence[Model], left: Sequence[Candidate], naming: NamingLine | None) -> str:
        """The reason that a failure isn't explained."""
        if naming is not None and not models:
            return naming.why_none(len(self.models))
        if not left:
            readable = [model for model in models if model.file not in self.models.unread]
            others = "" if len(readable) == len(models) else " that can be read"
            return f"of none of {counted(len(readable), 'model')}{others}{self._lacking(readable)}"
        if _are_split(left):
            return f"{_fits(left)}, without its debug info; {IF_SPLIT}"
        return f"ambiguous: {_fits(left)}; {_remedy(left)}"

    def _lacking(self, models: Sequence[Model]) -> str:
        """Words for the models, of those that may have failed so, that lack what would decide."""
        lacking = 0
        for model in models:
            with self.models.noting_unread(model):
                lacking += model.is_split
        if not lacking:
            return ""
        if len(models) == 1:
            return f"; it lacks its debug info: {IF_SPLIT}"
        return f"; {lacking} lack their debug info: {IF_SPLIT}"


def _united(left: Sequence[Candidate]) -> list[Candidate]:
    """Candidates, without those for which another with their archive id has what they lack.

    A companion that is at hand without its archive, as in a store, is proved by the code of the small file.
    """
    if not any(_is_half(one.answer) for one in left):
        return [*left]
    ids = {one: one.model.facts.archive_id for one in left}
    split = {ids[one] for one in left if one.answer.is_split}
    whole = {ids[one] for one in left if not _is_half(one.answer)}
    united = []
    for one in left:
        if _is_half(one.answer) and ids[one] in whole:
            continue
        answer = one.answer
        if answer.is_unproven and ids[one] in split:
            notes = tuple(note for note in answer.notes if note[1] != UNCHECKED)
            answer = replace(answer, is_unproven=False, notes=notes)
        united.append(one._replace(answer=answer))
    return united


def _is_ruled_out(candidate: Candidate, archives: AbstractSet[str]) -> bool:
    """Whether one of these archives, which did not fail so, is the one whose code the candidate lacks."""
    is_without = candidate.answer.is_unproven or candidate.answer.is_unrecorded
    return is_without and candidate.model.facts.archive_id in archives


def _is_half(answer: Answer) -> bool:
    """Whether the other half of its model is asked for."""
    return answer.is_split or answer.is_unrecorded


def _explained(candidates: Sequence[Candidate], naming: NamingLine | None) -> Answer:
    """The answer of the first of some models that say the same, of those with the fewest words."""
    answers, files = [each.answer for each in candidates], tuple(each.model.file for each in candidates)
    first = min(answers, key=lambda answer: (len(answer.text or b""), answer.text or b""))
    is_of_release = naming is not None and naming.is_release
    is_named = first.is_named or (naming is not None and not is_of_release)
    return replace(first, is_named=is_named, is_of_release=is_of_release, models=files)


def _are_split(left: Sequence[Candidate]) -> bool:
    """Whether all models that may have failed so lack the debug info that was split off."""
    return bool(left) and all(candidate.answer.is_split for candidate in left)


def _unexplained(failure: Failure, what: str, why: str, is_possible: object) -> Answer:
    return Answer(failure, None, ((0, f"{what}: {why}"),), is_possible=bool(is_possible))


def _why_unproven(left: Sequence[Candidate], naming: NamingLine | None) -> str:
    """The reason that models which nothing proves don't explain a failure; "" where there are none."""
    if not left or not left[0].answer.is_unproven:
        return ""
    remedy = _remedy(left, "" if naming is None else naming.text)
    return f"{_fits(left)}, but {UNPROVEN}; {remedy}, or split with --fingerprints"


def _with_remedy(answer: Answer) -> Answer:
    """One model's answer, with its notes worded for several models."""
    notes = tuple((line, note.replace(REMEDY, OF_SEVERAL)) for line, note in answer.notes)
    return replace(answer, notes=notes)


def _first_name(models: Sequence[Model]) -> str:
    return one_line(min(model.file for model in models))


def _fits(left: Sequence[Candidate]) -> str:
    return f"fits {several([one_line(candidate.model.file) for candidate in left])}"


def _remedy(left: Sequence[Candidate], label: str = "") -> str:
    """What to give so that a failure that fits several models becomes one's.

    Args:
        label: of a release, if that is all that the log says.
    """
    lacking = sum(not (one.answer.is_final or one.model.shows_code) for one in left[:MOST_NAMED])
    archives = f"add the archive{'s' if lacking > 1 else ''}, " if lacking else ""
    by_name = "--id or --model for its name in the log"
    if label:
        by_name = f"have the log say NAME@{one_line(label)} or an id (a label alone proves no model)"
    return f"{archives}give the FILE that failed, or {by_name}"
