"""Logs of many models' failures → the logs with each failure explained by its own model."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, overload

from archive.base.bounded import bounded
from archive.base.closing import Closing
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.failures.explainer import LogExplainer
from archive.failures.models.candidates import FleetAnswers
from archive.failures.models.naming import Naming
from archive.failures.models.sources import models_in

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    from archive.failures.models.models import Models

    Sources: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Explainer(Closing):
    """Explains many logs by the same models, each failure by its own; inside a ``with`` statement.

    What was read of the models is kept from log to log: of all the facts that name them, and the 256 models
    used last, or fewer large ones, as long as they are open. Nothing of a log is kept. Threads may share it.

    Args:
        models: archives, companions and folders of some; stores by their folder, or their server's address.
            Files that come later are not among them.
        ids: as of :func:`explainer_of`.
        names: likewise.
        style: the release whose wording explains the lite interpreter's failures.
        limits: what files and the explanations of a log may cost.

    Raises:
        ArchiveError: a file is neither archive nor companion, or a pattern is no regular expression.
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
        style: Style = Style.CURRENT,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        sources = [models] if isinstance(models, str | PathLike) else models
        self._models = models_in(sources, limits=limits)
        self._new = partial(explainer_of, self._models, ids=ids, names=names, style=style, limits=limits)
        self._new()  # patterns are refused here
        self._is_closed = False

    def close(self) -> None:
        """Close the models that are open."""
        self._is_closed = True
        self._models.close()

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
            ValueError: this is closed, or a text has a character that is none.
        """
        if self._is_closed:
            raise ValueError("the explainer is closed")
        if isinstance(log, str):
            return self.explain(log.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
        if isinstance(log, bytes):
            return b"".join(self._new().explain([log]))
        return self._new().explain(log)


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
        ArchiveError: a file is neither archive nor companion, or a pattern is no regular expression. Of a
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

    Raises:
        ArchiveError: a pattern is no regular expression.
    """
    spending = Spending(limits)
    return LogExplainer(FleetAnswers(models, style, spending, Naming(models, ids=ids, names=names)), spending)
