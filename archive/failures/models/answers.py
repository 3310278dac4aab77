"""Which of many models a failure belongs to, and that model's answer.

A failure is explained by

1. the model whose prefix its unique handles have;
2. the models that the log names: see :mod:`~archive.failures.models.naming`;
3. among those left, the only one that nothing contradicts.

A model is *contradicted* where it lacks the handle or the code, or where the handle's operator does not print
the message. If several are left whose explanations are the same to the byte, that explanation holds. If they
differ, the failure is ambiguous, and stays as it is. So does one that may be of a model that cannot be read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import counted, one_line
from archive.base.spending import Recent
from archive.debuginfo.unique_handles import prefix_at_end
from archive.failures import nodes
from archive.failures.archive_answers import ArchiveAnswers
from archive.failures.eval_frames import EvalTraceback
from archive.failures.failures import Answer
from archive.failures.instructions import InstructionFailure
from archive.failures.kernels import KernelLine
from archive.failures.nodes import NodeFailure
from archive.failures.outline import Outline
from archive.failures.redacted import HEADED, HIERARCHY, Hierarchies, Sign, is_as_it_was, may_begin, sign_at
from archive.failures.tracebacks import TORN_NOTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.failures import Failure, LiteFailure
    from archive.failures.models.models import Model, Models
    from archive.failures.models.naming import Naming
    from archive.failures.streams import Stream
    from archive.reader.archive import Archive

    Ask = Callable[[ArchiveAnswers], Answer | None]
    MayHave = Callable[[Model], bool]

UNPROVEN = "nothing proves it: a companion does not have the code that the log shows"
LISTED = 3
"""Models that a note names."""
MOST_ASKED = 256
"""Models that are asked about a failure that names none."""
CHOICES_KEPT = 1 << 16
"""Models that are remembered for failures seen before, together."""


class Question(NamedTuple):
    """A failure, as it is asked of models.

    Attributes:
        failure: the failure.
        what: the failure, in words.
        key: the same for failures that get the same answer.
        ask: asks one model.
        may_have: whether a model may have failed so, by the facts that are kept of it while it is closed.
    """

    failure: Failure
    what: str
    key: tuple[object, ...]
    ask: Ask
    may_have: MayHave


def _any(_: Model) -> bool:
    """Whether a model may have failed at a node: what is kept of closed models does not tell."""
    return True


class Candidate(NamedTuple):
    """A model that may have failed, and its answer."""

    model: Model
    answer: Answer


class FleetAnswers:
    """The answers of many models.

    Args:
        models: the models.
        style: the release whose wording explains the lite interpreter's failures.
        spending: counts the steps of all explanations.
        naming: finds the models that lines of the log name.

    Attributes:
        models: the same.
    """

    def __init__(self, models: Models, style: Style, spending: Spending, naming: Naming) -> None:
        self.models = models
        self._style = style
        self._spending = spending
        self._naming = naming
        self._hierarchies = Hierarchies()
        self._choices = Recent[tuple[object, ...], list["Model"]](CHOICES_KEPT)

    def saw(self, line: bytes, number: int) -> None:
        """Take note of a line of the log, which may name a model, or what failed in it."""
        self._naming.saw(line, number)
        self._hierarchies.saw(line, number)

    def is_quiet(self, lines: bytes) -> bool:
        """Whether lines have no module hierarchy, and nothing that may name a model."""
        return HIERARCHY not in lines and self._naming.is_quiet(lines)

    def named(self, line: bytes) -> bytes:
        """The line: which model its hashes are of is not known."""
        return line

    def of_handles(self, failure: LiteFailure) -> Answer:
        """The answer to a failure of the lite interpreter."""
        what = f"handles {{{failure.digits:.40}}}"
        prefix = prefix_at_end(failure.digits)
        known = self.models.by_prefix.get(prefix, ()) if prefix else ()
        if prefix and not known:
            what += f", of the archive {prefix} if they are unique"
        asked = Question(
            failure,
            what,
            (failure.digits, failure.is_joined, failure.message),
            lambda one: one.of_handles(failure),
            lambda model: model.facts.may_have_handles(failure.digits),
        )
        return self._answer(asked, known)

    def of_traceback(self, stream: Stream) -> Answer | None:
        """The answer to a traceback of TorchScript; None where it is of no serialized code."""
        outline = Outline(stream)
        if not outline.has_code:
            redacted = None if outline.is_torn else self._of_redacted(stream, outline)
            return Answer(outline, None, ((0, TORN_NOTE),)) if outline.is_torn else redacted
        asked = Question(
            outline,
            "traceback",
            outline.key,
            lambda one: one.of_traceback(stream),
            lambda model: model.facts.may_have_code(outline.names),
        )
        return self._answer(asked, ())

    def _of_redacted(self, stream: Stream, outline: Outline) -> Answer | None:
        """The answer to a traceback of the lite interpreter; None where it shows no redacted source."""
        if sign_at(stream, 1, ()) is Sign.NONE:
            return None
        hierarchy = self._hierarchies.above(stream)
        asked = Question(
            outline,
            "traceback of redacted source",
            (object(),),  # where its lines end is known to a model alone, so no two are taken for the same
            lambda one: one.of_redacted(stream, hierarchy),
            lambda model: bool(model.facts.handles) and may_begin(hierarchy, model.facts.top),
        )
        return self._answer(asked, ())

    def of_serialized(self, stream: Stream) -> Answer | None:
        """The answer to a traceback of TorchScript that goes on with redacted source; None as above."""
        if is_as_it_was(stream, ()):
            return None
        outline = Outline(stream)
        if not outline.names or sign_at(stream, outline.stop + HEADED, ()) is Sign.NONE:
            return None
        asked = Question(
            outline,
            "traceback of redacted source",
            (object(),),
            lambda one: one.of_serialized(stream),
            lambda model: model.facts.may_have_code(outline.names),
        )
        return self._answer(asked, ())

    def of_node(self, stream: Stream) -> Answer | None:
        """The answer to a failure of ``torch.fx.Interpreter``; None where the log has its source."""
        failure = NodeFailure(stream)
        is_bare = failure.is_explained and nodes.is_bare(stream)
        failure.leave()
        if not (failure.is_unexplained or is_bare):
            return None
        what, key = f"node {failure.name}", (object() if is_bare else failure.key,)
        return self._answer(Question(failure, what, key, lambda one: one.of_node(stream), _any), ())

    def of_frames(self, stream: Stream) -> Answer | None:
        """The answer to a traceback through graph modules; None where none of their code is shown."""
        traceback = EvalTraceback(stream)
        traceback.leave()
        if traceback.is_explained or not traceback.statements:
            return None
        what, key = str(traceback.statements[-1]), (traceback.key,)
        return self._answer(Question(traceback, what, key, lambda one: one.of_frames(stream), _any), ())

    def of_kernel(self, stream: Stream) -> Answer | None:
        """The answer to a line that names code or a kernel of AOTInductor; None where it needs none."""
        line = KernelLine(stream)
        if line.is_explained:
            line.leave()
            return None
        what = str(line.named)
        answer = self._answer(Question(line, what, (line.key,), lambda one: one.of_kernel(stream), _any), ())
        # A profile has rows of all models, those that are not at hand too: they are no failures.
        return None if line.is_row and not answer.is_possible else answer

    def of_instruction(self, stream: Stream) -> Answer | None:
        """The answer to a failure of ExecuTorch's runtime; None where the log has its source."""
        failure = InstructionFailure(stream)
        if failure.is_explained:
            return None
        what, key = failure.what, (failure.key,)
        return self._answer(Question(failure, what, key, lambda one: one.of_instruction(stream), _any), ())

    def _answer(self, asked: Question, known: Sequence[Model]) -> Answer:
        """The answer of the only model that nothing contradicts.

        Args:
            asked: the failure.
            known: the models that the failure itself names; none if it names none.
        """
        named = None if known else self._naming.named(asked.failure.stream)
        models = known or (self.models.all if named is None else named.models)
        what = asked.what if named is None else f"{asked.what}, and {named}"
        if len(models) == 1:
            for one in self._asked(models, asked.ask):
                is_named = one.answer.is_named or named is not None
                return replace(one.answer, is_named=is_named, models=(one.model.file,))
        possible = self._possible(models, asked)
        if len(possible) > MOST_ASKED:
            why = f"no more than {MOST_ASKED} models are asked, and it may be of {len(possible):,}"
            return Answer(asked.failure, None, ((0, f"{what}: {why}"),), is_possible=True)
        left = [one for one in self._asked(possible, asked.ask) if one.answer.is_possible]
        # Whose code is the log's before those of which there is no code to compare.
        left = [one for one in left if not one.answer.is_unproven] or left
        self._choices.keep((asked.key, *models), [one.model for one in left], 1 + len(models))
        texts = {one.answer.text for one in left}
        damaged = next((model for model in models if self._may_be_unread(model, asked)), None)
        if damaged and (left or damaged.has_facts):
            why = "and its companion is damaged" if damaged.has_facts else "which cannot be read"
            note = f"{what}: may be of {one_line(damaged.file)}, {why}"
            return Answer(asked.failure, None, ((0, note),), is_possible=True)
        if left and left[0].answer.is_unproven and named is None:
            note = f"{what}: {self._may_be(left)}, and {UNPROVEN}"
            return Answer(asked.failure, None, ((0, note),), is_possible=True)
        if len(texts) == 1 and None not in texts:
            is_named = left[0].answer.is_named or named is not None
            files = tuple(one.model.file for one in left)
            return replace(left[0].answer, is_named=is_named, models=files)
        note = f"{what}: {self._why(models, left)}"
        return Answer(asked.failure, None, ((0, note),), is_possible=bool(left))

    def _possible(self, models: Sequence[Model], asked: Question) -> list[Model]:
        """The models that may have failed so, as far as it is known without opening them."""
        chosen = self._choices.get((asked.key, *models))
        if chosen is not None:
            return chosen
        found = []
        for model in models:
            with self.models.noting_unread(model):
                if model.file not in self.models.unread and asked.may_have(model):
                    found.append(model)
        return found

    def _may_be_unread(self, model: Model, asked: Question) -> bool:
        """Whether a model that cannot be read may have failed so: all may of which no facts are known."""
        return model.file in self.models.unread and (not model.has_facts or asked.may_have(model))

    def _asked(self, models: Sequence[Model], ask: Ask) -> Iterator[Candidate]:
        """The answers of the models that can be read, and have one."""
        for model in models:
            if model.file in self.models.unread:
                continue
            answer = None
            with (
                self.models.noting_unread(model),
                self.models.using(model, self, self._answers_of) as answers,
            ):
                answer = ask(answers)
            # Behind the block: who takes the first answer only does not come back.
            if answer is not None:
                yield Candidate(model, answer)

    def _answers_of(self, opened: Archive) -> ArchiveAnswers:
        return ArchiveAnswers(opened, self._style, self._spending)

    def _why(self, models: Sequence[Model], left: Sequence[Candidate]) -> str:
        """The reason that a failure is not explained."""
        if not models:
            return f"none of {counted(len(self.models), 'model')} has that id or name"
        if not left:
            read = [model for model in models if model.file not in self.models.unread]
            others = "" if len(read) == len(models) else " that can be read"
            return f"of none of {counted(len(read), 'model')}{others}"
        return f"{self._may_be(left)}, and nothing tells which"

    @staticmethod
    def _may_be(left: Sequence[Candidate]) -> str:
        files = [one_line(one.model.file) for one in left]
        more = f" or {len(files) - LISTED:,} more" if len(files) > LISTED else ""
        return f"may be of {' or '.join(files[:LISTED])}{more}"
