"""A log of many models' failures → the log with each failure explained by its own model."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.fleet.answers import FleetAnswers
from archive.fleet.naming import Naming
from archive.fleet.sources import models_in
from archive.verbs.logs import Explainer

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from archive.fleet.models import Models


@bounded
def explain(
    log: Iterable[bytes],
    models: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    ids: str | None = None,
    names: str | None = None,
    style: Style = Style.CURRENT,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[bytes]:
    """Explain the failures in a log, each by its own model.

    Args:
        log: the log, in lines or any other pieces. An empty piece is a pause: what may be a whole failure
            is then explained.
        models: archives, companions and folders of some; stores by their folder, or their server's address.
        ids: as of :func:`explainer_of`.
        names: likewise.
        style: the release whose wording explains the lite interpreter's failures.
        limits: what files and explanations may cost.

    Yields:
        The log with its failures explained, in pieces; those that no model, or several, may have stay.

    Raises:
        ArchiveError: a file is neither archive nor companion, or a pattern is no regular expression.
        OSError: a file or folder cannot be read.

    Example:
        >>> with open("fixtures/fleet/unique.log", "rb") as log:
        ...     lines = b"".join(explain(log, "fixtures/fleet")).splitlines()
        >>> print(lines[3].decode())
          Module hierarchy:top(Ranker)::<unknown>.aten::mul
    """
    sources = [models] if isinstance(models, str | PathLike) else models
    found = models_in(sources, limits=limits)
    try:
        yield from explainer_of(found, ids=ids, names=names, style=style, limits=limits).explain(log)
    finally:
        found.close()


def explainer_of(
    models: Models,
    *,
    ids: str | None = None,
    names: str | None = None,
    style: Style = Style.CURRENT,
    limits: Limits = DEFAULT_LIMITS,
) -> Explainer:
    """An explainer of the failures of many models.

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
    return Explainer(FleetAnswers(models, style, spending, Naming(models, ids=ids, names=names)), spending)
