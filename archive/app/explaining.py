"""Logs of many models' failures → the logs with each failure explained by its own model."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from os import PathLike
from typing import TYPE_CHECKING, TypeVar, cast, overload

from archive.app.errors import MARK, changed, note_of, notes_of, shown_with, text_of, texts_in
from archive.app.sources import models_in
from archive.base.bounded import bounded
from archive.base.closing import Closing
from archive.base.deadline import LateError, ending_in, has_deadline
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.failures.explainer import LogExplainer
from archive.failures.log.quiet import has_failure, is_quiet
from archive.failures.log.recoding import utf_16
from archive.failures.models.candidates import FleetAnswers
from archive.failures.models.models import renew_locks_in_children
from archive.failures.models.naming import Naming
from archive.failures.traceback_failures import UNCHECKED

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self, TypeAlias

    from archive.failures.explainer import CauseGroup
    from archive.failures.models.models import Models
    from archive.reader.archive import Archive

    Sources: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

T = TypeVar("T")
SECONDS = 1.0
"""Seconds that explaining one error or event may take."""
MOST_OF_TEXT = 1 << 18
"""Bytes of one text of an error or event, and of what explains a failure in it."""
MOST_OF_PROBLEM = 1_000
"""Characters of what went wrong that are kept."""
SAMPLES = (
    "  Debug info for handle(s): debug_handles:{0}, was not found.\n",
    """\
Traceback of TorchScript, serialized code (most recent call last):
  File "code/__torch__.py", line 1, in forward
    x
    ~ <--- HERE
RuntimeError: x
""",
)
"""Failures of no model: reading them at the start imports and compiles what reading later ones needs."""


@dataclass(frozen=True, slots=True)
class ExplainerStats:
    """What an explainer made of the errors and events that it was given.

    Attributes:
        explained: failures that it explained.
        unchecked: those among them that nothing proves, since their companion has no code to compare with
            them. The note of an error says so, too.
        left: failures that stayed, for no model, or several, may have them.
        late: errors and events that stayed, since the time was over, or a text was too long.
        failed: those that stayed because something went wrong.
        last_problem: the last thing that did; "" if nothing did.
        last_left: why the last failure of ``left`` stayed, as ``symbolicate`` notes it; "" if it has no note.
    """

    explained: int = 0
    unchecked: int = 0
    left: int = 0
    late: int = 0
    failed: int = 0
    last_problem: str = ""
    last_left: str = ""


class Explainer(Closing):
    """Explains many logs, errors and events by the same models, each failure by its own.

    What was read of the models is kept: of all the facts that name them, and the 256 models used last, or
    fewer that take 128 MiB together. Nothing of a log is kept. Threads may share it; so may a process and
    those that it forks. A ``with`` statement, or :meth:`close`, closes the models.

    Args:
        models: archives, companions and folders of some; stores by their folder, or their server's address.
            Files that come later are not among them.
        ids: as of :func:`explainer_of`.
        names: likewise.
        name: of what this process runs: a file, a class, the label of a release. Models without that name
            are left out.
        style: the release whose wording explains the lite interpreter's failures.
        limits: what files and the explanations of a log may cost.
        seconds: what explaining one error or event may take, waiting for other threads or a server included;
            then it stays as it is. Nothing interrupts the opening of a file.

    Raises:
        ArchiveError: a path is no model's, or a pattern isn't a regular expression.
        OSError: a file or folder cannot be read.

    Examples:
        >>> from pathlib import Path
        >>> log = Path("fixtures/fleet/unique.log").read_text()
        >>> with Explainer("fixtures/fleet") as explainer:
        ...     texts = [explainer.explain(log[:400]), explainer.explain(log)]
        >>> [text.count("Module hierarchy") for text in texts]
        [2, 200]
    """

    @bounded
    def __init__(
        self,
        models: Sources,
        *,
        ids: str | None = None,
        names: str | None = None,
        name: str = "",
        style: Style = Style.CURRENT,
        limits: Limits = DEFAULT_LIMITS,
        seconds: float = SECONDS,
    ) -> None:
        sources = [models] if isinstance(models, str | PathLike) else models
        self._models = models_in(sources, limits=limits)
        if name:
            self._models = self._models.named(name)
        self._has_patterns = ids is not None or names is not None
        renew_locks_in_children()
        self._new = partial(explainer_of, self._models, ids=ids, names=names, style=style, limits=limits)
        self._new()  # patterns are refused here
        self._seconds = seconds
        self._short = replace(limits, output=min(limits.output, MOST_OF_TEXT))
        self._counts = Counter[str]()
        self._problem = self._last_left = ""
        self._is_closed = False

    def close(self) -> None:
        """Close the models that are open. Errors and events then stay as they are."""
        self._is_closed = True
        self._models.close()

    @bounded
    def warm(self) -> Self:
        """Read now what failures will need, so that the first one takes no longer than others.

        Returns:
            The explainer itself. A model that cannot be read is in :attr:`unread`.
        """
        self._models.warm(_read)
        for text in SAMPLES:
            self.explain(text)
        return self

    @property
    def unread(self) -> Mapping[str, str]:
        """The models that could not be read so far, each with the reason."""
        return dict(self._models.unread)

    @property
    def stats(self) -> ExplainerStats:
        """What it has made of errors and events so far."""
        with self._models.opened.lock:
            return ExplainerStats(**self._counts, last_problem=self._problem, last_left=self._last_left)

    # Logs

    @overload
    def explain(self, log: str) -> str: ...
    @overload
    def explain(self, log: bytes) -> bytes: ...
    @overload
    def explain(self, log: Iterable[bytes]) -> Iterator[bytes]: ...
    @bounded
    def explain(self, log: str | bytes | Iterable[bytes]) -> str | bytes | Iterator[bytes]:
        """Explain the failures in a log.

        Args:
            log: a text, bytes, or a stream: lines or any other pieces of bytes. An empty piece is a pause:
                what may be a whole failure is then explained.

        Returns:
            The log with its failures explained, as it was given: a text, bytes, or pieces; those that no
            model, or several, may have stay. A byte that is not UTF-8 is a lone surrogate in a text, as
            ``errors="surrogateescape"`` has it.

        Raises:
            ArchiveError: a record that is needed is broken.
            OSError: a file cannot be read.
            ValueError: this is closed, or a text has an invalid character.
        """
        if self._is_closed:
            raise ValueError("the explainer is closed")
        if isinstance(log, str):
            return self.explain(log.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
        if isinstance(log, bytes):
            # Nearly all texts have no failure, and what reads a log looks at each line.
            stays = is_quiet(log) and not utf_16(log)
            return log if stays else b"".join(self._new().explain([log]))
        return self._new().explain(log)

    # Errors and events: nothing that goes wrong here may reach whoever has them

    def explain_error(self, error: BaseException | None, *, said: str = "") -> None:
        """Add a note to an error, and to those shown with it, that explains the failure in it.

        Each gets one note, however often it is explained; causes, contexts and members of groups are looked
        at as Python shows them. Nothing is raised: :attr:`stats` counts what goes wrong.

        Args:
            error: the error, of whatever kind; nothing is done without one.
            said: what is reported with it, in which ``ids`` and ``names`` look, too.
        """
        if error is not None:
            self._carefully(partial(self._noted, said=said), error)

    def explain_event(self, event: T, *, said: str = "") -> T:
        """Explain the failures in a text, or in the texts of an event as loggers and Sentry have them.

        An error in it, as ``exc_info`` gives one, gets a note: see :meth:`explain_error`. Nothing is raised.

        Args:
            event: a text, an error, or dicts, lists and tuples of some; others stay as they are. In all of it
                ``ids`` and ``names`` look.
            said: what is reported with it, in which they look, too.

        Returns:
            The event, with its failures explained; the same object where it has none. What it was is not
            changed.
        """
        return self._carefully(partial(self._explained_event, said=said), event)

    def _carefully(self, work: Callable[[T], T], given: T) -> T:
        """The result of work; what was given where anything goes wrong, or the time is over.

        What is raised or logged by explaining is not explained, and nothing is while this thread uses a
        model: a signal, or what the garbage collector calls, may come at any moment.
        """
        if self._is_closed or has_deadline() or self._models.are_used_here:
            return given
        try:
            with ending_in(self._seconds):
                return work(given)
        except LateError:
            self._count(late=1)
        except Exception as error:  # noqa: BLE001 (whatever it is)
            self.count_problem(error)
        return given

    def count_problem(self, error: Exception) -> None:
        """Count what went wrong while something was to be explained, in a hook of one's own, say."""
        self._problem = type(error).__name__
        with suppress(Exception):  # the text of others' errors may be one more
            self._problem = f"{self._problem}: {error}"[:MOST_OF_PROBLEM]
        self._count(failed=1)

    def _noted(self, error: BaseException, said: str = "") -> BaseException:
        """An error, with notes."""
        errors = list(shown_with(error))
        if self._has_patterns and errors[1:]:
            said = "\n".join([said, *map(text_of, errors)])
        notes = {note for each in errors for note in notes_of(each)}
        for each in errors:
            if not any(MARK in note for note in notes_of(each)):
                try:
                    self._add_note(each, notes, said)
                except LateError:
                    raise
                except Exception as problem:  # noqa: BLE001 (others' errors may have no text, and take no note)
                    self.count_problem(problem)
        return error

    def _add_note(self, error: BaseException, notes: set[str], said: str) -> None:
        """Add a note to an error, and to the notes of those shown with it, if these have it not yet."""
        _, causes, is_unchecked = self._explained(text_of(error), said)
        note = note_of(causes, UNCHECKED if is_unchecked else "")
        if note and note not in notes:  # what wraps an error often repeats what it says
            error.add_note(note)
            notes.add(note)

    def _explained_event(self, event: T, said: str) -> T:
        """An event, with its failures explained."""
        if self._has_patterns:
            said = f"{said}\n{texts_in(event)}"
        explained = cache(partial(self._explained_text, said=said))  # a text often stands in several places
        return cast("T", changed(event, explained, partial(self._noted, said=said)))

    def _explained_text(self, text: str, said: str) -> str:
        """A text, with its failures explained; one that a note was added to has its explanation."""
        return text if MARK in text else self._explained(text, said)[0]

    def _explained(self, text: str, said: str) -> tuple[str, Sequence[CauseGroup], bool]:
        """A text with its failures explained, their causes in its order, and whether some are unchecked.

        Args:
            said: what is reported with it: what names its model there names it here.

        Raises:
            LateError: the time is over, or the text is too long.
        """
        log = text.encode("utf-8", "surrogatepass")
        if not has_failure(log):
            return text, (), False
        if len(log) > MOST_OF_TEXT:
            raise LateError
        explainer = self._new(limits=self._short)
        explainer.causes.room = MOST_OF_TEXT
        if self._has_patterns:
            for line in said[-MOST_OF_TEXT:].encode("utf-8", "surrogatepass").splitlines():
                explainer.answers.saw(line, 0)
        explained = b"".join(explainer.explain([log]))
        counts = {"explained": explainer.explained, "unchecked": explainer.unchecked}
        self._count(**counts, left=explainer.unknown)
        if explainer.unknown:
            self._last_left = explainer.notes[-1] if explainer.notes else ""
        causes = sorted(explainer.causes.top(), key=lambda group: group.first)
        whole = explained.decode("utf-8", "surrogatepass") if causes else text
        return whole, causes, explainer.unchecked > 0

    def _count(self, **more: int) -> None:
        with self._models.opened.lock:
            self._counts.update(more)


def _read(opened: Archive) -> None:
    """Read of a model what most answers need."""
    with suppress(ArchiveError):  # a failure that needs a record that is broken will say so
        _ = opened.range_table, opened.handle_table, opened.method_table, opened.classes, opened.instructions
        for program in opened.programs.values():
            _ = program.sites


@overload
def explain(
    log: str,
    models: Sources,
    *,
    ids: str | None = None,
    names: str | None = None,
    style: Style = Style.CURRENT,
    limits: Limits = DEFAULT_LIMITS,
) -> str: ...
@overload
def explain(
    log: bytes,
    models: Sources,
    *,
    ids: str | None = None,
    names: str | None = None,
    style: Style = Style.CURRENT,
    limits: Limits = DEFAULT_LIMITS,
) -> bytes: ...
@overload
def explain(
    log: Iterable[bytes],
    models: Sources,
    *,
    ids: str | None = None,
    names: str | None = None,
    style: Style = Style.CURRENT,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[bytes]: ...
def explain(
    log: str | bytes | Iterable[bytes],
    models: Sources,
    *,
    ids: str | None = None,
    names: str | None = None,
    style: Style = Style.CURRENT,
    limits: Limits = DEFAULT_LIMITS,
) -> str | bytes | Iterator[bytes]:
    """Explain the failures in a log, each by its own model. An :class:`Explainer` explains several logs.

    Args:
        log: a text, bytes, or a stream, as :meth:`Explainer.explain` takes it.
        models: archives, companions and folders of some; stores by their folder, or their server's address.
        ids: as of :func:`explainer_of`.
        names: likewise.
        style: the release whose wording explains the lite interpreter's failures.
        limits: what files and explanations may cost.

    Returns:
        The log with its failures explained, as it was given: a text, bytes, or pieces; those that no model,
        or several, may have stay.

    Raises:
        ArchiveError: a path is no model's, or a pattern isn't a regular expression. For a
            stream, this and the following are raised with its first piece.
        OSError: a file or folder cannot be read.

    Examples:
        >>> with open("fixtures/fleet/unique.log") as log:
        ...     lines = explain(log.read(), "fixtures/fleet").splitlines()
        >>> print(lines[3])
          Module hierarchy:top(Ranker)::<unknown>.aten::mul
    """
    opened = partial(Explainer, models, ids=ids, names=names, style=style, limits=limits)
    if isinstance(log, str | bytes):
        with opened() as explainer:
            return explainer.explain(log)

    def pieces() -> Iterator[bytes]:
        with opened() as explainer:
            yield from explainer.explain(log)

    return pieces()


def explainer_of(
    models: Models,
    *,
    ids: str | None = None,
    names: str | None = None,
    style: Style = Style.CURRENT,
    limits: Limits = DEFAULT_LIMITS,
) -> LogExplainer:
    """An explainer of one log, in which many models failed.

    Args:
        models: the models.
        ids: a pattern of the lines that name a model's archive id, handle prefix or serialization id: its
            first group, or the whole match.
        names: the same for the name of a file, or of the top module's class.
        style: the release whose wording explains the lite interpreter's failures.
        limits: ``work`` and ``output`` bound the explanations.
    """
    spending = Spending(limits)
    return LogExplainer(FleetAnswers(models, style, spending, Naming(models, ids=ids, names=names)), spending)
